"""Criteria of size: weights are repeated rows, when random starts disagree, what is best, and their picture."""

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from naive import build, random_sites, table, two_groups

from inference import fit
from inference.comparison.criteria import best_sizes, criteria, plot_criteria
from inference.diagnostics.checks import problems_of
from models import MODELS, load_data


@pytest.mark.slow
def test_weights_are_repeated_rows():
    """AIC, BIC and ICL of a weighted table and of the table with its rows repeated, at one maximum: Σ weight rows, not N.

    From one start both take the same steps but for rounding; the entropy is kept in single precision, 1e-7 of 24 rows.
    """
    x, weight = two_groups(12), np.array([1, 3, 2] * 4)
    start = random_sites("diag", 2, x)
    found = []
    for data in (table(x, weight.astype(float)), table(np.repeat(x, weight, axis=0))):
        model = build(data, "diag", prior="flat")
        found.append(criteria(fit(model, data, "em", start=start)))
    for name in ("parameters", "AIC", "BIC"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-9)
    assert found[0]["ICL"] == pytest.approx(found[1]["ICL"], abs=1e-4)
    assert found[1]["BIC"] - found[1]["AIC"] == pytest.approx(9 * (np.log(24) - 2), rel=1e-9)


@pytest.mark.parametrize(
    ("behind", "alone"),
    [([0.0, 1e-8], False), ([0.0, 1e-4], True), ([0.0, 1e-5, 1e-5], True), ([0.0], False)],
)
def test_starts_at_one_optimum(behind, alone):
    """Objectives of 1000 rows that differ by 1e-8 nats a row are one optimum and rounding; by 1e-5 or 1e-4, two of them.

    A single start has nothing to disagree with.
    """
    final = -1000 * (1 + np.array(behind))
    start = {"final_objective": final, "converged": np.ones(len(final)), "iterations": np.ones(len(final))}
    groups = {
        "optimization": xr.Dataset({name: ("start", value) for name, value in start.items()}),
        "functionals": xr.Dataset({"log_joint": ((), final.max())}),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"best_start": int(final.argmax()), "options": '{"max_iter": 5}', "total_weight": 1000.0}
    assert any("starts reached the best" in problem.sentence for problem in problems_of(tree)) == alone


TABLE = pd.DataFrame(
    {
        "parameters": [4.0, 9.0, 14.0],
        "AIC": [50.0, 40.0, 41.0],
        "BIC": [52.0, 51.0, 58.0],
        "ICL": [52.0, 55.0, 60.0],
        "ELBO": [np.nan] * 3,
        "elpd": [-30.0, -22.0, -21.0],
        "se": [3.0, 2.0, np.nan],
        "log evidence": [-30.0, -29.0, np.nan],
        "evidence se": [0.1, 0.2, np.nan],
        "held out": [np.nan, -2.0, np.nan],
    },
    index=["one", "two", "three"],
)


def test_best_sizes_by_hand():
    """AIC, BIC and ICL prefer the smallest, the others the largest; what fewer than two results have says nothing."""
    assert best_sizes(TABLE) == ["AIC: two", "BIC: two", "ICL: one", "elpd: three", "log evidence: two"]
    assert best_sizes(TABLE.drop(columns=["AIC", "elpd"])) == ["BIC: two", "ICL: one", "log evidence: two"]
    assert best_sizes(TABLE.iloc[:1]) == []


def test_the_picture_has_one_panel_a_criterion(tmp_path, monkeypatch):
    """Each with the numbers of the table against the parameters, a line a method; criteria that say nothing have none."""
    drawn = []
    save = Figure.savefig

    def spy(figure, *args, **kwargs):
        drawn.append(figure)
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", spy)
    methods = {"one": "em", "two": "em", "three": "map"}
    plot_criteria(TABLE.iloc[::-1], methods, tmp_path / "criteria.png")
    assert matplotlib.image.imread(tmp_path / "criteria.png").std() > 0.01  # something is drawn
    panels = {axis.get_title().split(" (")[0]: axis for axis in drawn[0].axes}
    assert list(panels) == ["AIC", "BIC", "ICL", "elpd", "log evidence"]
    assert ["small" in axis.get_title() for axis in panels.values()] == [True, True, True, False, False]
    for name, axis in panels.items():
        curves = {bars.get_label(): bars.lines[0].get_xydata() for bars in axis.containers}
        assert set(curves) == ({"em"} if name == "log evidence" else {"em", "map"})
        np.testing.assert_array_equal(curves["em"], TABLE.iloc[:2][["parameters", name]])


@pytest.mark.slow
def test_bic_of_sequences_counts_their_steps():
    """Of one sequence too, and of weighted ones as often as they count."""
    data = load_data("casino", num_rows=60, num_sequences=3)
    model = MODELS["hmm"](data, boundary=False)
    weighted = data._replace(weight=np.repeat([1.0, 0.0, 2.0], 20))
    for rows, size in ((data, 60), (data._replace(starts=np.array([0, 60])), 60), (weighted, 60)):
        assert fit(model, rows, "em", num_starts=1, max_iter=2).attrs["sample_size"] == size
    tree = fit(model, weighted, "em", num_starts=1, max_iter=2)
    found = criteria(tree)
    assert found["ICL"] - found["BIC"] == pytest.approx(2 * 3 * float(tree["functionals"]["entropy"]))  # of 3 sequences
    assert found["BIC"] - found["AIC"] == pytest.approx(tree.attrs["num_parameters"] * (np.log(60) - 2))
