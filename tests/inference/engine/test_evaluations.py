"""Quasi-Newton searches that go on from the evaluations of a checkpoint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inference.engine.quasi_newton import SMALL, _curvature, _products, _value_and_grad, hessian_at, minimise
from inference.runtime.checkpoints import Checkpoint, CheckpointTimer
from inference.runtime.progress import Silent

STARTS = {"x": np.array([[-1.2, 1.0], [2.0, 2.0]])}


def rosenbrock(static, arrays, point):
    """(1 − x)² + 100 (y − x²)²: a curved valley, along which a search takes many iterations."""
    x, y = point["x"]
    return (arrays - x) ** 2 + 100 * (y - x**2) ** 2


class Stopping(Silent):
    """Ends the process at one of all updates, as a kill does: nothing is written afterwards."""

    def __init__(self, last):
        self.left = last

    def update(self, done, note, chains):
        self.left -= 1
        if self.left == 0:
            raise MemoryError


def search(checkpoint=None, reporter=None, max_iter=100, starts=STARTS):
    return minimise(rosenbrock, None, np.ones(()), starts, max_iter, 1e-14, reporter or Silent(), checkpoint)


def assert_same(found, wanted):
    for one, other in zip(jax.tree.leaves(found[:5]), jax.tree.leaves(wanted[:5]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_programs_are_compiled_once_wherever_the_starts_are():
    """Starts that a program has shared out to devices, while points of the search come from the host."""
    shared = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("start",)), PartitionSpec())

    def anew(static, arrays, point):
        return rosenbrock(static, arrays, point)

    before = [program._cache_size() for program in (_value_and_grad, _products)]
    minimise(anew, None, np.ones(()), jax.device_put(STARTS, shared), 3, 1e-14, Silent())
    assert [program._cache_size() for program in (_value_and_grad, _products)] == [size + 1 for size in before]


def chain(static, arrays, point):
    """Of any dimension, with a Hessian of three diagonals."""
    x = point["x"]
    return (jnp.cosh(x) * arrays).sum() + (x[1:] * x[:-1]).sum() ** 2


@pytest.mark.parametrize("size", [1, 5, SMALL, SMALL + 1])
def test_the_hessian_at_an_end_is_by_the_program_of_the_search(size):
    """It is JAX's, and nothing is compiled for it; of a large one there is the diagonal alone."""
    random = np.random.default_rng(0)
    scales, starts = 1 + random.random(size), {"x": jnp.asarray(random.normal(size=(2, size)))}
    found = minimise(chain, None, scales, starts, 2, 1e-14, Silent())
    end = {"x": found.points["x"][1]}
    wanted = jax.jit(jax.hessian(lambda x: chain(None, scales, {"x": x})))(end["x"])
    before = _products._cache_size()
    if size <= SMALL:
        np.testing.assert_allclose(hessian_at(chain, None, scales, end), wanted, atol=1e-9)
    else:
        with pytest.raises(ValueError, match=f"{size} coordinates"):
            hessian_at(chain, None, scales, end)
    flat, unravel = ravel_pytree(end)
    np.testing.assert_allclose(_curvature(chain, None, unravel, scales, flat), np.diagonal(wanted), atol=1e-9)
    assert _products._cache_size() == before


@pytest.mark.parametrize("last", [1, 7, 40])
def test_a_search_that_was_killed_goes_where_it_would_have_gone(tmp_path, monkeypatch, last):
    """To the last bit, in the first start and in the second; what was evaluated before is not evaluated again."""
    monkeypatch.setattr(CheckpointTimer, "is_due", lambda self: True)
    whole, checkpoint = search(), Checkpoint(tmp_path / "checkpoint-evaluations-abc.npz")
    with pytest.raises(MemoryError):
        search(checkpoint, Stopping(last))
    with np.load(checkpoint.path) as file:
        assert int(file["finished"]) >= last
    assert_same(search(checkpoint), whole)


def test_a_search_goes_on_beyond_its_last_iteration(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint-evaluations-abc.npz")
    first = search(checkpoint, max_iter=5)
    assert not first.converged.any()
    assert_same(search(checkpoint), search())


def test_evaluations_at_other_points_are_dropped(tmp_path):
    """As of a processor that rounds otherwise: the search computes them, and ends at its own minimum."""
    checkpoint = Checkpoint(tmp_path / "checkpoint-evaluations-abc.npz")
    search(checkpoint, max_iter=5)
    elsewhere = minimise(
        rosenbrock, None, np.array(1.5), STARTS, 5, 1e-14, Silent(), Checkpoint(tmp_path / "checkpoint-evaluations-def.npz")
    )
    assert not np.array_equal(elsewhere.points["x"], search(max_iter=5).points["x"])
    checkpoint.path.write_bytes((tmp_path / "checkpoint-evaluations-def.npz").read_bytes())
    np.testing.assert_allclose(search(checkpoint).points["x"], 1.0, rtol=1e-5)
