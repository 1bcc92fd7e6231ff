"""No retracing: a second fit of the same shapes, on new data and a new model, traces and compiles nothing."""

import jax
import jax.numpy as jnp
import naive_logistic
import numpy as np
import pytest
from naive import SHORT, build, table, two_groups
from release import some
from tracing import counted

from inference import fit
from models import MODELS, load_data


def test_counter_counts():
    """A new function is counted once, a second call not at all."""
    function = jax.jit(lambda x: x + 1)
    with counted() as first:
        function(jnp.ones(3)).block_until_ready()
    with counted() as second:
        function(jnp.ones(3)).block_until_ready()
    assert first
    assert second == []


QUICK = {"em", "gibbs"}  # to compile: one that climbs, one that draws
every_method = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in SHORT if name != "exact"]


@pytest.mark.parametrize("method", every_method)
def test_second_fit_traces_nothing(method):
    for seed in (0, 1):
        x = two_groups(40, seed=seed)
        with counted() as events:
            tree = fit(build(x, "diag"), table(x), method=method, seed=seed, **SHORT[method])
    assert np.isfinite(float(tree["functionals"]["log_joint"].mean()))
    assert events == []


@pytest.mark.slow
def test_another_number_of_assignments_traces_nothing():
    """Two rows without a label, four, then three with candidates: 9, 81 and 18 assignments are summed over by one program."""
    x = (two_groups(12) > 1).astype(float)
    known = ["a", "b", "c", "a", "b", "c", "a", "b"]
    for unknown in (["c", "a", None, None], [None] * 4, ["a|b", "c", None, None]):
        data = load_data(x, labels=known + unknown)
        model = MODELS["naive_bayes"](data, emission="bernoulli")
        with counted() as events:
            fit(model, data, method="exact", **SHORT["exact"])
    assert events == []


@pytest.mark.slow
@pytest.mark.parametrize(("method", "size"), some(naive_logistic.RUNS, 3))
def test_second_logistic_regression_traces_nothing(method, size):
    for seed in (0, 1):
        data = naive_logistic.table(size)._replace(x=naive_logistic.X + seed * np.sin(naive_logistic.X))
        with counted() as events:
            fit(naive_logistic.build(size, data), data, method=method, seed=seed, **SHORT[method])
    assert events == []
