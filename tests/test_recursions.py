"""The recursions in blocks of steps are the recursions step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import models.recursions as recursions
from models.chain import Chain, chain, filtered


def random_chain(size, lengths, boundary, seed=0):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(size + boundary), size)
    emission = rng.normal(size=(max(lengths), len(lengths), size))
    emission[3, 0, 0] = -np.inf
    stop = np.log(transition[:, size]) if boundary else np.zeros(size)
    start = np.log(rng.dirichlet(np.ones(size)))
    return Chain(*map(jnp.asarray, (start, np.log(transition[:, :size]), stop, emission, np.array(lengths))))


@pytest.mark.parametrize("boundary", [True, False])
@pytest.mark.parametrize(("size", "lengths"), [(2, (50, 49, 7, 1)), (3, (41,)), (1, (30, 12)), (20, (33, 20))])
def test_blocks_change_nothing(size, lengths, boundary, monkeypatch):
    """Rows that end in any block, at its edge, or before the first is full; also more states than are written out."""
    local = random_chain(size, lengths, boundary)
    wanted = chain.mean(None, local), filtered(local)[2:]
    for blocks in (2, 5, 6):
        monkeypatch.setattr(recursions, "num_blocks", lambda *sizes, blocks=blocks: blocks)
        found = chain.mean(None, local), filtered(local)[2:]
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_impossible_rows_stay_impossible_in_blocks(monkeypatch):
    local = random_chain(2, (20, 20), True)
    local = local._replace(emission=local.emission.at[9, 1].set(-jnp.inf))
    monkeypatch.setattr(recursions, "num_blocks", lambda *sizes: 4)
    values = np.asarray(chain.log_partition(local))
    assert np.isfinite(values[0])
    assert values[1] == -np.inf


def test_blocks_are_for_long_and_narrow_rows(monkeypatch):
    assert recursions.num_blocks(10**6, 1, 3) == 1  # on a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert recursions.num_blocks(10**6, 1, 3) == 1000
    assert recursions.num_blocks(100, 1, 3) == 1
    assert recursions.num_blocks(10**6, 10**4, 3) == 1
