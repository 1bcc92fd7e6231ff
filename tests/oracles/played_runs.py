"""Runs that are played: what a run leaves in its folder, without the fit."""

from pathlib import Path

import pandas as pd
import xarray as xr

from inference.cli import sweeping
from inference.results import save
from inference.results.tree import SCHEMA
from inference.runtime.files import complete, write

GIVEN = ["-m", "model=gmm", "method=em", "data=blobs", "progress=false"]
SAMPLER = ["-m", "model=gmm", "method=gibbs", "data=blobs", "progress=false"]


def played(config, code=0, whole=True):
    """The folder of a run, and its result: what a run leaves, without the fit."""
    folder = Path(config["out"])
    folder.mkdir(exist_ok=True)
    attrs = {"schema": SCHEMA, "model": "gmm", "method": config["method"], "exit_status": code, "interrupted": int(code == 130)}
    tree = xr.DataTree(xr.Dataset({"seed": config["seed"]}, attrs=attrs))
    save(tree, folder / "results.nc")
    write(folder / "config.yaml", b"played: true\n", seal=True)
    if whole:
        complete(folder, [folder / "results.nc", folder / "config.yaml"])
    return tree


def line_of(settings, tree, folder):
    joint = -1.0 - float(tree["seed"])
    verdict = "interrupted" if tree.attrs["interrupted"] else "failed" if tree.attrs["exit_status"] else "passed"
    return sweeping.line_without_result(settings, verdict, folder) | {"log joint": joint, "seconds": 1.0}


def by_seed(**actions):
    """What the run of a seed does, by its number; others are played."""

    def act(config):
        return actions.get(f"seed{config['seed']}", played)(config)

    return act


def raising(error):
    def act(config):
        raise error

    return act


def table(folder):
    return pd.read_csv(Path(folder) / "sweep.csv")


def contents(folder):
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
