"""The evidence by thermodynamic integration: the rule of quadrature, and everything that a row may leave open."""

from itertools import product
from typing import Any, NamedTuple

import naive_mixed
import numpy as np
import pandas as pd
import pytest
from cell_predictive import cell_predictive
from naive import build, table
from scipy import stats
from scipy.special import logsumexp
from two_stage import assert_standard_normal, of_student

from inference import fit
from inference.cli.main import compare_main, guarded
from inference.evidence import thermodynamic
from inference.evidence.thermodynamic import POWER, of_both_ways, thermodynamic_evidence
from inference.results import load
from models import MODELS, load_data
from models.base import Initial
from models.rows.encoded import Rows


def one_mean(x: np.ndarray, temperature: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean, variance, third central moment and kurtosis of U = log Π_n Normal(x_n | μ, 1), at every t.

    Its density is that of μ under Normal(μ | 0, 1) exp(t U).

    U = c − N/2 (μ − x̄)² and μ ~ Normal(m, v), so that (μ − x̄)² / v is a noncentral χ² of one degree of freedom.
    """
    size = len(x)
    v = 1 / (1 + size * temperature)
    away = v * size * temperature * x.mean() - x.mean()
    constant, more = -size / 2 * np.log(2 * np.pi) - size * x.var() / 2, away**2 / v
    variance = size**2 / 4 * (2 * v**2 + 4 * v * away**2)
    third, kurtosis = -((size * v / 2) ** 3) * 8 * (1 + 3 * more), 3 + 12 * (1 + 4 * more) / (1 + 2 * more) ** 2
    return constant - size / 2 * (v + away**2), variance, third, kurtosis


@pytest.mark.slow
def test_the_rule_of_quadrature_is_of_second_order():
    """One mean under Normal(0, 1), ten steps of temperature: log p(x) is SciPy's Normal with covariance 1 + 11ᵀ.

    The rule errs by 0.0034 in closed form, the trapezium alone by −0.078. With one component sweeps are independent draws, so
    that the estimate has the rule's mean, and the standard error of its weighted means and variances is known.
    """
    x = np.random.default_rng(0).normal(1.5, 1.0, 6)
    steps = (np.arange(11) / 10) ** POWER
    (mean, variance, third, kurtosis), step = one_mean(x, steps), np.diff(steps)
    truth = stats.multivariate_normal(np.zeros(6), np.eye(6) + 1).logpdf(x)
    trapezium = (step * (mean[1:] + mean[:-1]) / 2).sum()
    rule = trapezium - (step**2 * np.diff(variance)).sum() / 12
    weight, other = (np.append(step, 0) + np.append(0, step)) / 2, (np.append(step**2, 0) - np.append(0, step**2)) / 12
    spread = (weight**2 * variance + 2 * weight * other * third + other**2 * (kurtosis - 1) * variance**2).sum()
    assert abs(rule - truth) < 0.005
    model = build(x[:, None], "unit", 1, prior={"component": {"location": 0.0, "strength": 1.0}})

    def deviations(seed: int, times: int) -> float:
        sizes = {"num_temperatures": 10, "num_sweeps": 4000 * times, "num_chains": 8, "reference": 0.0}
        found = thermodynamic_evidence(model, table(x[:, None]), seed=seed, **sizes)
        error = np.sqrt(spread / (0.75 * sizes["num_sweeps"] * sizes["num_chains"]))
        assert abs(trapezium - truth) > 10 * error
        return float((found.log_evidence - rule) / error)

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
def test_few_sweeps_at_a_temperature_are_unbiased():
    """Of four sweeps the first is dropped, whose parameters are those of the temperature before, and variances divide by n − 1.

    One mean as above; 40,000 chains tell the rule in closed form to 0.004. Kept, the first sweep would be off by 0.1 and more,
    variances divided by n by 0.026.
    """
    x = np.random.default_rng(0).normal(1.5, 1.0, 6)
    steps = (np.arange(11) / 10) ** POWER
    (mean, variance, *_), step = one_mean(x, steps), np.diff(steps)
    rule = (step * (mean[1:] + mean[:-1]) / 2).sum() - (step**2 * np.diff(variance)).sum() / 12
    prior = {"component": {"location": 0.0, "strength": 1.0}}
    model = build(x[:, None], "unit", 1, prior=prior)

    def deviations(seed: int, times: int) -> float:
        sizes = {"num_temperatures": 10, "num_sweeps": 4, "num_chains": 40_000 * times, "reference": 0.0}
        found = thermodynamic_evidence(model, table(x[:, None]), seed=seed, **sizes)
        assert found.standard_error < 0.005
        return float((found.log_evidence - rule) / found.standard_error)

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
def test_the_stated_error_covers_chains_that_lag():
    """Four kinds of long documents in two classes. One downward chain in four starts in wrong groups.

    It stays there until it is hot, and ends hundreds of nats too low. So half the gap is the error of the mean, up to the noise
    of the upward mean: one nat, of which four are allowed. Where two or more of the four chains lag, the spread over all chains
    is two thirds of that error or less. Sums over all assignments tell the truth.
    """
    kinds = np.array([[6, 2, 1, 1], [2, 6, 1, 1], [1, 1, 6, 2], [1, 1, 2, 6]])
    data = load_data(200.0 * np.repeat(kinds, 3, axis=0))
    model = MODELS["naive_bayes"](data, emission="multinomial", num_classes=2)
    truth = fit(model, data, "exact", num_samples=4, num_chains=1).attrs["log_evidence"]
    found = [
        thermodynamic_evidence(model, data, num_temperatures=80, num_sweeps=4, seed=seed, reference=0.0) for seed in range(8)
    ]
    for one in found:
        assert abs(one.log_evidence - truth) <= one.standard_error + 4
        assert one.standard_error >= abs(one.up - one.down) / 2
    assert max(one.standard_error for one in found) > 100


def complete_evidence(hyper: Any, x: np.ndarray, z: tuple[int, ...]) -> float:
    """Log p(x, z) of a survey: every row given those before it, cell by cell in closed form."""
    total, z = 0.0, np.array(z)
    for n, row in enumerate(x):
        own = x[:n][z[:n] == z[n]]
        total += np.log((hyper["concentration"][z[n]] + len(own)) / (hyper["concentration"].sum() + n))
        for d in np.flatnonzero(~np.isnan(row)):
            total += cell_predictive(hyper, d, own[~np.isnan(own[:, d]), d], row[d])
    return float(total)


@pytest.mark.slow
def test_labels_candidates_and_columns_of_all_kinds():
    """Three classes, rows with a label, candidates or neither, cells missing, one row without weight: summed over completions.

    In standard errors of independent chains, of eight or more. Log Z(0) with all classes for every row would be
    8 log 3 + 2 log 1.5 = 9.6 too high, and with the row without weight log 3.
    """
    labels = ["a", "b", None, "a|c", "b", "c", None, "b|c", "c", "b", "a", "b"]
    weight = np.ones(12)
    weight[6] = 0
    data = naive_mixed.survey(labels=labels)._replace(weight=weight)
    model = naive_mixed.build(data, labelled=True)
    choices = [["abc".index(name) for name in (label or "a|b|c").split("|")] for label in np.array(labels)[weight > 0]]
    truth = logsumexp([complete_evidence(model.hyper, naive_mixed.X[weight > 0], z) for z in product(*choices)])

    def deviations(seed: int, times: int) -> np.ndarray:
        found = thermodynamic_evidence(model, data, num_temperatures=100, num_chains=8 * times, seed=seed)
        assert found.standard_error < 0.15
        return of_student((found.log_evidence - truth) / found.standard_error, 8 * times - 1)

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
def test_evidence_on_the_command_line(tmp_path, capsys):
    """Estimated where a method does not bring it, and kept with the result: one mean, and `exact` has SciPy's number."""
    x = np.random.default_rng(3).normal(2.0, 1.0, 12)
    pd.DataFrame({"a": x}).to_csv(tmp_path / "table.csv", index=False, float_format="%.17g")
    arguments = ["model=gmm_simple", "model.num_components=1", "method=em,exact", "num_starts=1", "num_samples=400"]
    arguments += [f"data={tmp_path}/table.csv", "progress=false", "pictures=false"]
    assert guarded(compare_main, [*arguments, "evidence=perhaps"]) == 2
    assert "evidence must be true or false" in capsys.readouterr().err
    out = tmp_path / "out"
    assert guarded(compare_main, [*arguments, "evidence=true", f"out={out}"]) == 0
    table = pd.read_csv(out / "comparison.csv", index_col="result")
    hyper = load(out / "em")["constant_data"]
    spread = np.eye(12) + 1 / float(hyper["strength"])
    truth = stats.multivariate_normal(np.full(12, float(hyper["location"][0])), spread).logpdf(x)
    estimate, error = table.loc["em", ["log evidence", "evidence se"]].astype(float)
    assert estimate == pytest.approx(truth, abs=1e-8)  # one component: the proposal is the posterior
    assert 0 <= error < 1e-8
    assert table["log evidence"]["exact"] == pytest.approx(truth, rel=1e-10)
    assert np.isnan(table["evidence se"]["exact"])
    attrs = load(out / "em").attrs
    assert (attrs["log_evidence_estimate"], attrs["log_evidence_se"]) == pytest.approx((estimate, error), rel=1e-12)


class Groups(NamedTuple):
    """As much of an algebra as the integration reads, apart from its sweeps."""

    initial: Initial


def test_the_integral_over_temperatures_drops_the_warm_up(monkeypatch):
    """Sweeps whose energies are 0, 1, 2, …: eight at each of two temperatures, of which the first quarter is dropped.

    The means of the others are 4.5 and 12.5 and their variances equal, so the trapezium alone is left.
    """

    def counting(algebra: Any, hyper: Any, prior: Any, temperature: Any, key: Any, T: Any, rows: Any) -> tuple[Any, Any]:
        return T + 1, T

    monkeypatch.setattr(thermodynamic, "tempered_sweep", counting)
    ladder, begin, keys = np.array([0.0, 1.0]), np.zeros(2), np.zeros((2, 2), np.uint32)
    up = thermodynamic._chains(Groups(Initial(num_groups=3)), 8, {}, {}, Rows(np.zeros((4, 1))), {}, ladder, begin, keys)
    np.testing.assert_allclose(up, (4.5 + 12.5) / 2)


@pytest.mark.slow
def test_both_paths_have_one_evidence():
    """From the prior and from a reference, against the sum over all assignments of eight rows to two components.

    The prior of strength 1 is one from which the path is short, so that both errors are small. Under the weak prior of two full
    covariances on iris only the path from the reference has a small error: less than a fifth of the other.
    """
    x = np.random.default_rng(1).normal(0.0, 2.0, (8, 1))
    model = build(x, "unit", 2, prior={"component": {"location": 0.0, "strength": 1.0}})
    truth = fit(model, table(x), "exact", num_samples=4, num_chains=1).attrs["log_evidence"]
    for reference in (0.0, 0.3, 1.0):

        def deviations(seed: int, times: int, reference: float = reference) -> np.ndarray:
            found = thermodynamic_evidence(model, table(x), 100, 24, 8 * times, seed=seed, reference=reference)
            return of_student((found.log_evidence - truth) / found.standard_error, 8 * times - 1)

        assert_standard_normal(deviations)
    iris = load_data("iris")
    far = MODELS["gmm"](iris, num_components=2)
    errors = [thermodynamic_evidence(far, iris, reference=reference).standard_error for reference in (0.3, 0.0)]
    assert errors[0] < errors[1] / 5


def test_the_stated_error_is_that_of_a_mean_or_half_the_gap():
    """Chains that agree in both directions, and chains that lag behind."""
    one = np.array([0.0, 2.0, 0.0, 2.0])
    found = of_both_ways(one, one)
    assert found.standard_error == pytest.approx(np.concatenate([one, one]).std(ddof=1) / np.sqrt(8))
    assert of_both_ways(one - 10, one + 10).standard_error == pytest.approx(10)
