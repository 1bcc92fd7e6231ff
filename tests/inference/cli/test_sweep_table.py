"""The table at the end of a sweep, on hand-made lines."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from inference.cli.main import guarded, run_main
from inference.cli.sweeping import print_sweep, settings_of, write_sweep


def lines(number=3, elpd=np.nan, bic=np.nan):
    long = " model.covariance=spherical model.prior.component.strength=0.5 data=a/rather/long/name/of/a/table.csv"
    return [
        {
            "settings": f"model.num_components={k}{long if k == 1 else ''}",
            "log joint": -123456.789 * k,
            "BIC": bic,
            "elpd": elpd,
            "verdict": "interrupted" if k == 2 else "passed",
            "seconds": 1234.56,
            "folder": f"runs/a-folder-with-a-long-name-of-its-own/{k}",
        }
        for k in range(number)
    ]


def printed(rows):
    screen = Console(file=io.StringIO(), width=80)
    print_sweep(rows, screen)
    return screen.file.getvalue()


@pytest.mark.parametrize(("elpd", "bic"), [(np.nan, np.nan), (-98765.4, np.nan), (np.nan, 246813.5)])
def test_the_table_has_80_columns(elpd, bic):
    text = printed(lines(elpd=elpd, bic=bic))
    assert max(map(len, text.splitlines())) <= 80
    assert ("elpd" in text) == np.isfinite(elpd)
    assert ("BIC" in text) == np.isfinite(bic)
    for words in ("-123456.79", "-246913.58", "interrupted", "1234.6"):
        assert words in text
    letters = "".join(text.split())
    assert "strength=0.5" in letters or "0.5" in text  # long settings are folded, not cut


def test_settings_are_what_differs():
    overrides = [["model=gmm", f"seed={seed}", f"method={method}"] for seed in (0, 1) for method in ("em", "map")]
    assert settings_of(overrides) == ["seed=0 method=em", "seed=0 method=map", "seed=1 method=em", "seed=1 method=map"]
    assert settings_of([["model=gmm"]]) == ["model=gmm"]


def test_the_table_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "sweep", None):
        path = write_sweep(lines(), folder)
        assert pd.read_csv(path)["folder"].tolist() == [line["folder"] for line in lines()]
    assert path.parent.parent.name == "runs"


def test_the_table_of_another_sweep_stays(tmp_path, capsys):
    (tmp_path / "sweep.csv").write_text("mine")
    assert guarded(run_main, ["-m", "model=gmm", "seed=0,1", f"out={tmp_path}"]) == 2
    assert "another sweep" in capsys.readouterr().err
    assert (tmp_path / "sweep.csv").read_text() == "mine"
