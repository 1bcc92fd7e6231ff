"""Accelerated sweeps: exact on a linear map, monotone, to the fixed points of plain ones, in fewer E-steps; and safeguarded."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import build, table, two_groups

from inference import fit, log_likelihood
from inference.convergence import acceleration
from inference.convergence.acceleration import Point, advance, at_rest, begin, rejected
from inference.engine.sweep import Updates
from inference.fitting.prepare import make_task, x64
from inference.fixed_points.climbing import climb
from inference.methods import em
from inference.runtime.progress import Silent
from models import MODELS, ZooError, load_data
from models.algebra import at_mode

YES, NO = np.asarray(True), np.asarray(False)
accelerated = jax.jit(advance, static_argnums=7)
begun = jax.jit(begin, static_argnums=1)


def unchanged(nu):
    return nu


def logged(nu):
    return {"a": jnp.log(-nu["a"])}


def plain(x):
    """The map 3 + 0.9 (x − 3): its fixed point is 3."""
    return Point(*({"a": 3 + 0.9 * (np.asarray(leaf["a"]) - 3)} for leaf in x))


def at(value):
    return Point({"a": np.asarray(value)}, {"a": np.asarray(value)})


def on_trial(first, longest=100.0):
    """(the trial after two plain sweeps from ``first``, the point before it, its cycle)."""
    second = plain(first)
    cycle = begun(first, 1)._replace(linked=YES, trial=NO, longest=np.asarray(longest))
    return accelerated(cycle, first.T, second, plain(second), YES, YES, NO, unchanged)


def test_one_extrapolation_solves_a_linear_map():
    """x_0 + r / (1 − ρ) is the fixed point of a map with one rate ρ."""
    point, before, cycle = on_trial(at(1.0))
    assert cycle.trial
    assert cycle.length == pytest.approx(1 / 0.1)
    assert point.nu["a"] == pytest.approx(3.0, abs=1e-12)
    assert before["a"] == plain(at(1.0)).T["a"]


def test_a_lower_trial_gives_way_to_the_plain_point():
    """The plain point is where the method goes on, shorter steps are allowed; a trial that is no number is refused too."""
    second = plain(at(1.0))
    trial, before, cycle = on_trial(at(1.0))
    assert [bool(jax.jit(rejected)(cycle, 1.0, value, sound)) for value, sound in ((0.9, YES), (1.0, YES), (np.nan, NO))] == [
        1,
        0,
        1,
    ]
    back, still, after = accelerated(cycle, before, trial, plain(trial), YES, YES, YES, unchanged)
    assert back.nu["a"] == plain(second).nu["a"]
    assert still["a"] == second.T["a"]
    assert not after.trial
    assert after.longest == 25.0
    on, _, _ = accelerated(cycle, before, trial, plain(trial), YES, YES, NO, unchanged)
    assert on.nu["a"] == plain(trial).nu["a"]


def test_a_step_out_of_the_space_of_nu_is_not_taken():
    """log of a negative count is NaN: the plain point follows, at no cost of a sweep."""
    second = plain(at(1.0))
    cycle = begun(at(1.0), 1)._replace(linked=YES, trial=NO, longest=np.asarray(100.0))
    here, _, after = accelerated(cycle, at(1.0).T, second, plain(second), YES, YES, NO, logged)
    assert here.nu["a"] == plain(second).nu["a"]
    assert not after.trial


def test_a_run_that_ends_on_trial_returns_the_plain_point():
    cycle = begun(Point(*({"a": np.zeros((2, 3))},) * 2), 2)._replace(trial=np.array([True, False]))
    found = jax.jit(at_rest)(cycle, Point(*({"a": np.ones((2, 3))},) * 2))
    assert np.array_equal(found.nu["a"], [[0.0] * 3, [1.0] * 3])


def close_groups():
    return two_groups(60, num_columns=1, gap=1.5)


@pytest.mark.slow
def test_same_maximum_in_fewer_steps():
    """Overlapping groups, from several starts in lockstep and from given sites: monotone, to the points of plain EM."""
    x = close_groups()
    model, data = build(x, "diag"), table(x)
    slow, fast = (fit(model, data, "em", num_starts=3, tol=1e-13, accelerate=a)["optimization"] for a in (False, True))
    assert fast["converged"].all()
    assert np.nanmin(np.diff(fast["objective"])) >= -1e-9
    assert np.allclose(fast["final_objective"], slow["final_objective"], atol=1e-8)
    assert (fast["iterations"] < 0.6 * slow["iterations"]).all()


def climbed(accelerate, max_iter, updates=em.FIXED_POINT.updates, tol=0.0, start=None):
    """EM of two starts, or from one; updates of its own compile what a test has changed."""
    x = close_groups()
    with x64(64):
        task = make_task(build(x, "tied", prior="flat"), table(x), 0, start, Silent())
        return climb(task, em.FIXED_POINT._replace(updates=updates, accelerate=accelerate), max_iter, tol, 2)[0]


@pytest.mark.slow
def test_any_number_of_steps_ends_no_lower_than_fewer(monkeypatch):
    """A run that ends between a trial and its verdict is at a point that is known to be no lower."""
    monkeypatch.setattr("inference.fixed_points.fixed_point.NEAR", 1e9)
    start = {"mixture_probs": [0.5, 0.5], "mean": [[0.0], [1.0]], "precision": [[1.0]]}
    updates = Updates(parameters=partial(at_mode), latents="mean")
    x = close_groups()
    model = build(x, "tied", prior="flat")

    def height(steps):
        sites = {name: value[0] for name, value in climbed(True, steps, updates, start=start).sites.items()}
        return float(np.asarray(log_likelihood(model, sites, table(x))).sum())

    assert (np.diff([height(steps) for steps in range(1, 12)]) > -1e-9).all()


@pytest.mark.slow
def test_wrong_extrapolations_are_rejected(monkeypatch):
    """Steps that are far too long cost E-steps and nothing else: the trace is monotone, and the maximum is that of EM."""
    slow = climbed(False, 3000, tol=1e-13)
    monkeypatch.setattr(acceleration, "step_length", lambda *points: jnp.asarray(64.0))
    wrong = climbed(True, 3000, Updates(parameters=partial(at_mode), latents="mean"), tol=1e-13)
    assert np.nanmin(np.diff(wrong.objective)) >= -1e-9
    assert (np.diff(wrong.objective) == 0).any()
    assert np.allclose(np.nanmax(wrong.objective, axis=1), np.nanmax(slow.objective, axis=1), atol=1e-7)


def test_what_acceleration_does_not_take():
    data = load_data(close_groups())
    with pytest.raises(ZooError, match="use batch_size=0, or accelerate=false"):
        fit(MODELS["gmm"](data, covariance="diag"), data, "cavi", accelerate=True, batch_size=10)
    words = load_data([["a", "b"], ["b", "c"]])
    with pytest.raises(ZooError, match="parameters of their own"):
        fit(MODELS["latent_dirichlet"](words, num_topics=2), words, "cavi", accelerate=True)


def with_gaps(name, columns=slice(None)):
    data = load_data(name)
    x = np.array(data.x[:, columns], dtype=float)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    return load_data(x)


CASES = {
    "mixed_mixture": ("diabetes", {"num_components": 3}, "em"),
    "factor_analysis": ("wine", {"num_factors": 3}, "em"),
    "factor_analysis, relevance": ("wine", {"num_factors": 2, "relevance": True}, "cavi"),
    "gmm, gaps": (partial(with_gaps, "iris"), {"num_components": 3}, "cavi"),
    "factor_analysis, gaps": (partial(with_gaps, "iris"), {"num_factors": 1}, "em"),
    "hmm": ("casino", {"num_states": 2, "boundary": False}, "em"),
    "hmm, gaps": (partial(with_gaps, "earthquakes"), {"num_states": 3, "boundary": False, "emission": "poisson"}, "em"),
    "logistic_regression": ("breast_cancer", {}, "em"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_model_that_climbs(case):
    source, options, method = CASES[case]
    data = source() if callable(source) else load_data(source)
    model = MODELS[case.split(",")[0]](data, **options)
    shared = {"num_starts": 2, "tol": 1e-12, "max_iter": 20_000} | ({"num_samples": 10} if method == "cavi" else {})
    slow, fast = (fit(model, data, method, accelerate=a, **shared)["optimization"] for a in (False, True))
    assert fast["converged"].all()
    steps = np.diff(fast["criterion"])
    assert (np.isnan(steps) | (steps >= -1e-8)).all()
    assert np.allclose(np.nanmax(fast["criterion"], axis=1), np.nanmax(slow["criterion"], axis=1), atol=1e-4)
    assert fast["iterations"].sum() <= 1.1 * slow["iterations"].sum()
