"""A kernel of one's own under `fit`: the same posterior as the zoo's sampler, and a clear word on every mistake."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import compare, fit
from inference.certificates.oracles import ORACLES, oracle_of
from inference.engine.task import Kind, kind_of
from inference.methods.user_kernel import PADDING, table_of
from inference.results.draws import one_axis
from inference.results.triangles import sites_of
from inference.samplers.kernels import data_of, entry_of
from models import MODELS, ZooError, load_data
from models.data.documents import documents

ROWS = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[0.0, 0.0], [3.0, 1.0]], 6, axis=0)
DATA = load_data(ROWS)
SHORT = {"num_warmup": 3, "num_samples": 4, "num_chains": 2, "seed": 1}


def model():
    return MODELS["gmm_simple"](DATA, num_components=2, prior={"component": {"location": [0.0, 0.0], "strength": 0.25}})


class Host:
    """Gibbs of the means of two components of unit variance, in NumPy."""

    strength = 0.25

    def init(self, rng, data):
        return rng.normal(size=(2, data["x"].shape[1]))

    def step(self, rng, mean, data):
        log_density = -0.5 * ((data["x"][:, None] - mean) ** 2).sum(-1)
        one_hot = np.eye(2)[(log_density + rng.gumbel(size=log_density.shape)).argmax(1)]
        precision = self.strength + one_hot.sum(0)[:, None]
        mean = one_hot.T @ data["x"] / precision + rng.normal(size=mean.shape) / np.sqrt(precision)
        return mean, {"mean": mean, "component": one_hot.argmax(1)}


class Device:
    """The same in JAX."""

    strength = 0.25

    def init(self, key, data):
        return jax.random.normal(key, (2, data["x"].shape[1]))

    def step(self, key, mean, data):
        latents, means = jax.random.split(key)
        one_hot = jax.nn.one_hot(jax.random.categorical(latents, -0.5 * ((data["x"][:, None] - mean) ** 2).sum(-1)), 2)
        precision = self.strength + one_hot.sum(0)[:, None]
        mean = one_hot.T @ data["x"] / precision + jax.random.normal(means, mean.shape) / jnp.sqrt(precision)
        return mean, {"mean": mean}


@pytest.mark.slow
def test_the_posterior_is_that_of_the_zoos_sampler():
    """Means of the log joint of three samplers: the deviation is at most 4 standard errors, missed with probability 2e-4."""
    own = {
        "host": fit(model(), DATA, Host(), compiled=False, num_samples=2_000, seed=1),
        "device": fit(model(), DATA, Device(), num_samples=2_000, seed=2),
    }
    reference = fit(model(), DATA, "gibbs", num_samples=2_000, seed=3)
    assert "host" in str(compare(own | {"gibbs": reference}))
    wanted = reference["functionals"]["log_joint"].values
    for tree in own.values():
        found = tree["functionals"]["log_joint"].values
        error = np.hypot(*(each.std() / np.sqrt(each.size / 20) for each in (wanted, found)))
        assert abs(found.mean() - wanted.mean()) < 4 * error


def test_a_result_of_a_kernel_in_numpy():
    tree = fit(model(), DATA, Host(), compiled=False, **SHORT)
    assert kind_of(tree) is Kind.CHAINS
    assert tree.attrs["method"] == "Host"
    assert tree["posterior"]["mean"].shape == (2, 4, 2, 2)
    again = fit(model(), DATA, Host(), compiled=False, **SHORT)
    other = fit(model(), DATA, Host(), compiled=False, **SHORT | {"seed": 2})
    first, second, third = (one_axis(sites_of(each, "posterior_raw"))["mean"] for each in (tree, again, other))
    np.testing.assert_array_equal(first, second)
    assert not np.isclose(first, third).any()


def test_a_kernel_may_write_into_its_state_but_not_into_the_data():
    class InPlace(Host):
        def step(self, rng, mean, data):
            found, _ = super().step(rng, mean, data)
            mean[:] = found
            return mean, {"mean": mean}

    class Greedy(Host):
        def step(self, rng, mean, data):
            data["x"] -= 1.0
            return mean, {"mean": mean}

    tree, plain = (fit(model(), DATA, kernel, compiled=False, **SHORT) for kernel in (InPlace(), Host()))
    np.testing.assert_array_equal(tree["posterior_raw"]["mean"], plain["posterior_raw"]["mean"])
    with pytest.raises(ZooError, match="Greedy writes into data"):
        fit(model(), DATA, Greedy(), compiled=False, **SHORT)


def of(step, init=lambda key, data: np.zeros(())):
    """A kernel of two functions."""
    return type("Mine", (), {"init": lambda self, key, data: init(key, data), "step": lambda self, *given: step(*given)})()


@pytest.mark.parametrize(
    ("kernel", "options", "said"),
    [
        (Host(), {}, "Host cannot be compiled: .*compiled=False"),
        (
            of(lambda key, state, data: state),
            {"compiled": False},
            r"step of Mine returns a ndarray; it returns two: \(state, sites\)",
        ),
        (of(lambda key, state, data: (state, {"means": 1.0})), {"compiled": False}, "returns means, and lacks mean.*mean"),
        (of(lambda key, state, data: (state, {"mean": np.zeros(3)})), {"compiled": False}, "mean has shape"),
        (of(lambda key, state, data: (state, {"mean": np.full((2, 2), np.nan)})), {"compiled": False}, "finite numbers"),
        (
            of(lambda key, state, data: (state[None], {"mean": jnp.zeros((2, 2))})),
            {},
            r"float64 \(\) before, and float64 \(1,\)",
        ),
        (of(lambda key, state, data: ((state,), {"mean": jnp.zeros((2, 2))})), {}, "its structure is"),
        (of(lambda key, state, data: (state, {"mean": [0, 1][state.astype(int)]})), {}, "Mine cannot be compiled"),
        (type("gibbs", (Host,), {})(), {}, "call it something else"),
        (namedtuple("Algorithm", ["init", "step"])(None, None), {}, "wrap it in a class"),
        (Host, {}, "Host is a class; give an object of it"),
        (Host(), {"folder": "runs"}, "folder= is for methods of the zoo"),
        (Host(), {"tol": 1.0}, "method=Host has no option 'tol'"),
        (3, {}, "method: int is not one of"),
    ],
)
def test_mistakes(kernel, options, said):
    with pytest.raises(ZooError, match=said):
        fit(model(), DATA, kernel, **SHORT | options)


def test_a_program_of_the_users_is_refused():
    import numpyro
    from numpyro import distributions as dist

    def program(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)

    with pytest.raises(ZooError, match=r"inference\.as_result"):
        fit(program, ROWS[:, 0], Host(), compiled=False, **SHORT)


class Seen:
    """A task of which only the table is asked."""

    def __init__(self, table):
        self.table = table


def test_what_a_kernel_sees():
    found = table_of(Seen(load_data([[1.0, 5.0], [2.0, np.nan]], labels=["b", None])))
    np.testing.assert_array_equal(found["x"], [[1.0, 5.0], [2.0, np.nan]])
    np.testing.assert_array_equal(found["label"], [0, -1])
    assert "weight" not in found
    ragged = table_of(Seen(documents([["a", "b", "b"], ["b"]])))
    np.testing.assert_array_equal(ragged["x"], [[0, 1, 1], [1, PADDING, PADDING]])
    np.testing.assert_array_equal(ragged["length"], [3, 1])
    steps = table_of(Seen(load_data([[1.0], [2.0], [5.0]])._replace(starts=np.array([0, 1, 3]))))
    np.testing.assert_array_equal(steps["x"], [[[1.0], [np.nan]], [[2.0], [5.0]]])
    np.testing.assert_array_equal(steps["length"], [1, 2])
    np.testing.assert_array_equal(steps["label"], np.full((2, 2), -1))


@pytest.mark.parametrize("name", ORACLES)
def test_a_kernel_sees_the_same_table_when_it_is_certified(name):
    oracle, rng = oracle_of(name), np.random.default_rng(0)
    tables = oracle.draw_tables(rng, oracle.draw_parameters(rng, 1))
    certified = entry_of(data_of(oracle, tables), 0)
    found = table_of(Seen(oracle.table(tables, 0)))
    for what in set(certified) - set(oracle.known):
        np.testing.assert_array_equal(found[what], certified[what])
