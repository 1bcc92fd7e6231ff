"""Fingerprints of programs: what computes something else is another run, wherever the difference is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from inference import fit
from inference.fitting.fit import fingerprint_of
from models import ZooError

X = np.zeros(3)


def called(function, y):
    return jax.pure_callback(function, jax.ShapeDtypeStruct((), np.float64), y)


def plain(c):
    return lambda y: y + jnp.asarray(c)


def jitted(c):
    return jax.jit(lambda y: y + np.asarray(c))


def nested(c):
    return jax.jit(lambda y: jax.jit(lambda y: (y + np.full(2, c)).sum())(y))


def branch(c):
    return lambda y: jax.lax.cond(y > 0, lambda y: (y * np.full(2, c)).sum(), lambda y: y, y)


def loop(c):
    return lambda y: jax.lax.scan(lambda s, v: (s + v + np.full(2, c).sum(), None), y, np.ones(3))[0]


def by_closure(c):
    return lambda y: called(lambda v: np.asarray(v) + c, y)


def by_constant(c):
    return lambda y: called((lambda v: np.asarray(v) + 1.0) if c == 0 else (lambda v: np.asarray(v) + 2.0), y)


def by_argument(c):
    return lambda y: called(functools.partial(np.add, np.float64(c)), y)


def by_array(c):
    table = {"a": [np.array([c])]}
    return lambda y: called(lambda v: np.asarray(v) + table["a"][0][0], y)


GLOBAL = 0.0


def helper(v):
    return np.asarray(v) + GLOBAL


def by_name(c):
    globals()["GLOBAL"] = c
    return lambda y: called(lambda v: helper(v), y)


def program_of(inner):
    def program(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.factor("f", jax.lax.stop_gradient(inner(mean)))
        numpyro.sample("x", dist.Normal(mean, 1.0).expand((3,)).to_event(1), obs=x)

    return program


KINDS = [plain, jitted, nested, branch, loop, by_closure, by_constant, by_argument, by_array, by_name]


@pytest.mark.parametrize("kind", KINDS)
def test_constants_are_seen_wherever_they_are(kind):
    first, again, other = (fingerprint_of(program_of(kind(c)), X, "nuts") for c in (0.0, 0.0, 5.0))
    assert first == again
    assert first != other


class Shift:
    def __call__(self, v):
        return np.asarray(v)


@pytest.mark.parametrize(("function", "kind"), [(Shift(), "Shift"), (np.poly1d([1.0, 2.0]), "poly1d")])
def test_what_cannot_be_told_is_refused(tmp_path, function, kind):
    program = program_of(lambda y: called(lambda v: np.float64(function(v)), y))
    with pytest.raises(ZooError, match=f"calls Python from inside its density, which uses {kind} objects"):
        fit(program, X, method="nuts", folder=tmp_path)


@pytest.mark.slow
def test_no_draws_of_another_programs_are_returned(tmp_path):
    options = {"method": "nuts", "num_warmup": 20, "num_samples": 20, "num_chains": 2, "folder": tmp_path}
    fit(program_of(jitted(0.0)), X, **options)
    with pytest.raises(ZooError, match="another folder"):
        fit(program_of(jitted(5.0)), X, **options)
