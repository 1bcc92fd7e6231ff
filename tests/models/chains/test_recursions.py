"""The recursions in blocks of steps are the recursions step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive_chain import all_paths

import models.chains.forward_backward as recursions
from models.chains.latent import Chain, _draw, chain, filtered, within
from models.chains.posterior_counts import pair_counts
from models.rows.packing import side_by_side


def random_chain(size, lengths, boundary, seed=0):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(size + boundary), size)
    emission = rng.normal(size=(max(lengths), len(lengths), size))
    emission[3, 0, 0] = -np.inf
    stop = np.log(transition[:, size]) if boundary else np.zeros(size)
    start = np.log(rng.dirichlet(np.ones(size)))
    return Chain(
        *map(jnp.asarray, (start, np.log(transition[:, :size]), stop, emission)), side_by_side(jnp.array(lengths), max(lengths))
    )


@pytest.mark.slow
@pytest.mark.parametrize("boundary", [True, False])
@pytest.mark.parametrize(("size", "lengths"), [(2, (50, 49, 7, 1)), (3, (41,)), (1, (30, 12)), (20, (33, 20))])
def test_blocks_change_nothing(size, lengths, boundary, monkeypatch):
    """Rows that end in any block, at its edge, or before the first is full; also more states than are written out."""
    local = random_chain(size, lengths, boundary)
    wanted = compiled(local)
    for blocks in (2, 5, 6):
        monkeypatch.setattr(recursions, "num_blocks", lambda *sizes, blocks=blocks: blocks)
        for one, other in zip(compiled(local), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def compiled(local):
    """`everything` by one program, traced anew with the number of blocks now in force."""
    return jax.jit(lambda local: everything(local))(local)


def everything(local):
    """What both directions bring, 0 where there is no step."""
    known, mean = filtered(local), chain.mean(None, local)
    there = within(local)[..., None]
    pairs = [pair_counts(mean, jnp.arange(len(local.packing.length)) == n) for n in range(len(local.packing.length))]
    return [mean.state, *pairs, known.states.state * there, known.density, known.end]


def test_impossible_rows_stay_impossible_in_blocks(monkeypatch):
    local = random_chain(2, (20, 20), True)
    local = local._replace(emission=local.emission.at[9, 1].set(-jnp.inf))
    monkeypatch.setattr(recursions, "num_blocks", lambda *sizes: 4)
    values = np.asarray(jax.jit(chain.log_partition)(local))
    assert np.isfinite(values[0])
    assert values[1] == -np.inf


def test_blocks_are_for_long_and_narrow_rows(monkeypatch):
    assert recursions.num_blocks(10**6, 1, 3) == 1  # on a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert recursions.num_blocks(10**6, 1, 3) == 1000
    assert recursions.num_blocks(100, 1, 3) == 1
    assert recursions.num_blocks(10**6, 10**4, 3) == 1


def test_nothing_impossible_is_drawn_at_the_edges():
    """Uniform numbers of 0 and next to 1 fall on the first and the last state that is possible."""
    weights = np.array([[0.0, 0.25, 0.75, 0.0]])
    edges = np.array([[0.0], [1 - 2.0**-53]])
    assert [int(jax.jit(_draw)(edge, weights)[0]) for edge in edges] == [1, 2]


def test_paths_are_in_the_order_of_their_numbers():
    """What the draws of `test_chain.py` are counted by."""
    paths = all_paths(3, 4)
    assert (paths @ 3 ** np.arange(4)[::-1] == np.arange(81)).all()
