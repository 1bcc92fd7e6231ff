"""Runs of every method that are stopped, and what must hold of those that go on with them."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import xarray as xr

from inference.cli.runs.config import compose
from inference.cli.runs.execute import execute
from inference.results import load
from inference.runtime.files import LOCK

BLOBS = ["data=blobs", "data.num_rows=60", "model.num_components=2"]


SHORT = ["num_warmup=20", "num_samples=60", "num_chains=2"]


TOPICS = ["model=latent_dirichlet", "model.num_topics=2", "data=bars", "data.num_rows=20", "data.length=10"]


CELLS = {
    "em": [*BLOBS, "method=em"],
    "hard_em": [*BLOBS, "method=hard_em"],
    "stochastic_em": [*BLOBS, "method=stochastic_em"],
    "cavi": [*BLOBS, "method=cavi", "num_samples=60"],
    "minibatches": [*BLOBS, "method=cavi", "num_samples=60", "batch_size=20"],
    "map": [*BLOBS, "method=map"],
    "svi": [*BLOBS, "method=map", "optimizer=svi"],
    "laplace": [*BLOBS, "method=laplace", "num_samples=60"],
    "advi": [*BLOBS, "method=advi", "num_samples=60", "max_iter=1000"],
    "exact": ["model=linear_discriminant", *BLOBS[:2], "method=exact", "num_samples=60"],
    "gibbs": [*BLOBS, "method=gibbs", *SHORT],
    "tempered_gibbs": [*BLOBS, "method=tempered_gibbs", "num_temperatures=3", *SHORT],
    "nuts": [*BLOBS, "method=nuts", *SHORT],
    "blackjax": [*BLOBS, "method=nuts", "backend=blackjax", *SHORT],
    "mclmc": [*BLOBS, "method=mclmc", *SHORT],
    "chees": [*BLOBS, "method=chees", "num_warmup=20", "num_samples=60", "num_chains=4"],
    "smc": [*BLOBS, "method=smc", "num_samples=60", "num_chains=2"],
    "collapsed_gibbs": [*TOPICS, "method=collapsed_gibbs", *SHORT],
}


def configured(cell, out, *more):
    return compose([*CELLS[cell], "progress=false", "pictures=false", *more, f"out={out}"])


def resume(folder):
    return execute(compose([f"resume={folder}", "progress=false"]))[0]


@cache
def unbroken(cell):
    folder = Path(mkdtemp()) / "whole"
    tree, _ = execute(configured(cell, folder))
    return tree, {path.name for path in folder.iterdir()}


def assert_same(tree, cell):
    """Every number of every group, and the attributes that are no times."""
    wanted = unbroken(cell)[0]
    xr.testing.assert_equal(tree, wanted)
    left, right = ({k: str(v) for k, v in one.attrs.items() if not k.endswith("_seconds")} for one in (tree, wanted))
    assert left == right


def finish(cell, folder, left_behind=False):
    """Whatever lies in the folder is sound, and the run can be ended with the result of an unbroken one."""
    if folder.exists():
        if not left_behind:
            assert not list(folder.glob(".*.partial")), "a half-written file"
        if (folder / "results.nc").exists():
            load(folder)
    begun = (folder / "config.yaml").exists()
    if begun and (folder / "manifest.json").exists() and not load(folder).attrs["interrupted"]:
        tree = load(folder)
    else:
        tree = resume(folder) if begun else execute(configured(cell, folder))[0]
    assert_same(tree, cell)
    assert_same(load(folder), cell)
    assert {path.name for path in folder.iterdir()} - {LOCK} == unbroken(cell)[1]  # a dead process's lock is free


def stage(folder):
    """How far a run that was stopped had come, by what lies in its folder."""
    for name, words in (("manifest.json", "whole"), ("results.nc", "result"), ("config.yaml", "begun")):
        if (folder / name).exists():
            return words
    return "nothing"
