"""The table at the end of a sweep, and its picture, on hand-made lines."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from inference.comparison.sweep import FIGURES, line_without_result, plot_sweep, print_sweep, settings_of, titles_of


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


def test_settings_are_as_typed():
    """A file is rewritten as an option of its own; the table says what the user said."""
    overrides = [["data=file", "data.path='a b.csv'", "seed=0"], ["data=iris", "seed=0"]]
    assert settings_of(overrides) == ["data=a b.csv", "data=iris"]
    assert settings_of([["model=program", "model.path='f.py:g'"], ["model=gmm"]]) == ["model=f.py:g", "model=gmm"]


def test_titles_are_short_and_differ():
    sizes = [["model=gmm", "method=em", f"model.num_components={size}"] for size in (2, 3)]
    assert titles_of(sizes) == ["num_components=2", "num_components=3"]
    assert titles_of([*sizes, ["model=gmm", "method=map", "model.num_components=2"]])[2] == "map num_components=2"
    assert titles_of([["seed=0"], ["seed=0"], ["seed=1"]]) == ["seed=0 0", "seed=0 1", "seed=1"]
    assert titles_of([["seed=0"]]) == ["0"]


def test_the_picture_shows_every_run(tmp_path):
    """A panel for every figure that a run has, a dot for every run that has it, a row for each, also one without a result."""
    refused = line_without_result("seed=9", "refused", Path("s/3"))
    figure = plot_sweep([*lines(bic=1.5), refused], tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").read_bytes().startswith(b"<?xml")
    panels = {axis.get_title(): axis for axis in figure.axes}
    assert set(panels) == {*FIGURES} - {"elpd"}
    dots = panels["log joint"].collections[0].get_offsets()
    np.testing.assert_allclose(dots, [(line["log joint"], row) for row, line in enumerate(lines())])
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert len(labels) == 4
    assert max(map(len, labels)) <= 60
    assert labels[3] == "seed=9"
    assert plot_sweep([refused, refused]).axes  # nothing to show
