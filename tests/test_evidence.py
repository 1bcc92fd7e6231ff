"""The evidence by thermodynamic integration: the rule of quadrature, and everything that a row may leave open."""

from itertools import product
from typing import Any

import naive_mixed
import numpy as np
import pandas as pd
import pytest
from naive import build, table
from scipy import stats
from scipy.special import logsumexp
from test_mixed_columns import cell_predictive

from inference.evidence import POWER, log_evidence
from inference.results import load
from inference.shell import compare_main, guarded


def one_mean(x: np.ndarray, temperature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E_t[U] and Var_t[U] of U = log Π_n Normal(x_n | μ, 1) under the density Normal(μ | 0, 1) exp(t U), at every t.

    U = c − N/2 (μ − x̄)² and μ ~ Normal(m, v), so that (μ − x̄)² / v is a noncentral χ² of one degree of freedom.
    """
    size = len(x)
    v = 1 / (1 + size * temperature)
    away = v * size * temperature * x.mean() - x.mean()
    constant = -size / 2 * np.log(2 * np.pi) - size * x.var() / 2
    return constant - size / 2 * (v + away**2), size**2 / 4 * (2 * v**2 + 4 * v * away**2)


def test_the_rule_of_quadrature_is_of_second_order():
    """One mean under Normal(0, 1), ten steps of temperature: log p(x) is SciPy's Normal with covariance 1 + 11ᵀ.

    With one component sweeps are independent draws, so that the standard error is known: 0.0046. Five of them, a false alarm in
    a million seeds, and 0.005 for the rule itself, which errs by 0.0034 in closed form; the trapezium alone by −0.078.
    """
    x = np.random.default_rng(0).normal(1.5, 1.0, 6)
    sizes = {"num_temperatures": 10, "num_sweeps": 8000, "num_chains": 8}
    steps = (np.arange(11) / 10) ** POWER
    (mean, variance), step = one_mean(x, steps), np.diff(steps)
    truth = stats.multivariate_normal(np.zeros(6), np.eye(6) + 1).logpdf(x)
    trapezium = (step * (mean[1:] + mean[:-1]) / 2).sum()
    rule = trapezium - (step**2 * np.diff(variance)).sum() / 12
    nodes = (np.append(step, 0) + np.append(0, step)) / 2
    error = np.sqrt((nodes**2 * variance).sum() / (0.75 * sizes["num_sweeps"] * sizes["num_chains"]))
    assert abs(rule - truth) < 0.005
    assert abs(trapezium - truth) > 15 * error
    prior = {"component": {"location": 0.0, "strength": 1.0}}
    found = log_evidence(build(x[:, None], "unit", 1, prior=prior), table(x[:, None]), seed=1, **sizes)
    assert abs(found.log_evidence - truth) < 5 * error + 0.005


def complete_evidence(hyper: Any, x: np.ndarray, z: tuple[int, ...]) -> float:
    """Log p(x, z) of a survey: every row given those before it, cell by cell in closed form."""
    total, z = 0.0, np.array(z)
    for n, row in enumerate(x):
        own = x[:n][z[:n] == z[n]]
        total += np.log((hyper["concentration"][z[n]] + len(own)) / (hyper["concentration"].sum() + n))
        for d in np.flatnonzero(~np.isnan(row)):
            total += cell_predictive(hyper, d, own[~np.isnan(own[:, d]), d], row[d])
    return float(total)


def test_labels_candidates_and_columns_of_all_kinds():
    """Three classes, rows with a label, candidates or neither, cells missing, one row without weight: summed over completions.

    Six of its standard errors, which eight chains tell within a factor of two: a false alarm in a thousand seeds. Log Z(0) with
    all classes for every row would be 8 log 3 + 2 log 1.5 = 9.6 too high, and with the row without weight log 3.
    """
    labels = ["a", "b", None, "a|c", "b", "c", None, "b|c", "c", "b", "a", "b"]
    weight = np.ones(12)
    weight[6] = 0
    data = naive_mixed.survey(labels=labels)._replace(weight=weight)
    model = naive_mixed.build(data, labelled=True)
    choices = [["abc".index(name) for name in (label or "a|b|c").split("|")] for label in np.array(labels)[weight > 0]]
    truth = logsumexp([complete_evidence(model.hyper, naive_mixed.X[weight > 0], z) for z in product(*choices)])
    found = log_evidence(model, data, num_temperatures=100, seed=1)
    assert found.standard_error < 0.15
    assert abs(found.log_evidence - truth) < 6 * found.standard_error


def test_evidence_on_the_command_line(tmp_path, capsys):
    """Estimated where a method does not bring it, and kept with the result: one mean, as above, and `exact` has SciPy's number.

    Within six standard errors, a false alarm in a thousand seeds.
    """
    x = np.random.default_rng(3).normal(2.0, 1.0, 12)
    pd.DataFrame({"a": x}).to_csv(tmp_path / "table.csv", index=False, float_format="%.17g")
    arguments = ["model=gmm_simple", "model.num_components=1", "method=em,exact", "num_starts=1", "num_samples=400"]
    arguments += [f"data={tmp_path}/table.csv", "progress=false"]
    assert guarded(compare_main, [*arguments, "evidence=perhaps"]) == 2
    assert "evidence must be true or false" in capsys.readouterr().err
    out = tmp_path / "out"
    assert guarded(compare_main, [*arguments, "evidence=true", f"out={out}"]) == 0
    table = pd.read_csv(out / "comparison.csv", index_col="result")
    hyper = load(out / "em")["constant_data"]
    spread = np.eye(12) + 1 / float(hyper["strength"])
    truth = stats.multivariate_normal(np.full(12, float(hyper["location"][0])), spread).logpdf(x)
    estimate, error = table.loc["em", ["log evidence", "evidence se"]].astype(float)
    assert 0 < error < 0.15
    assert abs(estimate - truth) < 6 * error
    assert table["log evidence"]["exact"] == pytest.approx(truth, rel=1e-10)
    assert np.isnan(table["evidence se"]["exact"])
    attrs = load(out / "em").attrs
    assert (attrs["log_evidence_estimate"], attrs["log_evidence_se"]) == pytest.approx((estimate, error), rel=1e-12)
