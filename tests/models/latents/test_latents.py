"""The verbs of categorical latents against NumPy, with every kind of label."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import near
from scipy.special import entr, logsumexp, softmax
from two_stage import assert_standard_normal, in_blocks, of_counts

from models.latents.categorical import categorical, restrict

log_partition, mean, mode, energy = map(
    jax.jit, (categorical.log_partition, categorical.mean, categorical.mode, categorical.energy)
)  # one program each, for all tests

RNG = np.random.default_rng(0)
LOCAL = 2 * RNG.normal(size=(6, 4)) - 700 * np.arange(6)[:, None]  # probabilities that underflow, unless shifted
KEY = jax.random.PRNGKey(0)
ALLOWED = np.array(
    [[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], dtype=bool
)  # observed, a set of candidates, missing


@pytest.fixture(params=["free", "restricted"])
def local(request):
    """Natural parameters, as they are and under labels; ranks never broadcast by accident."""
    allowed = None if request.param == "free" else ALLOWED
    with jax.numpy_rank_promotion("raise"):
        yield np.asarray(restrict(LOCAL, allowed))


def test_restrict_keeps_allowed_values():
    """Row by row: an allowed value keeps its parameter, the others have probability zero."""
    found = np.asarray(restrict(LOCAL, ALLOWED))
    assert (found[ALLOWED] == LOCAL[ALLOWED]).all()
    assert (found[~ALLOWED] == -np.inf).all()
    assert restrict(LOCAL, None) is LOCAL


def test_row_without_allowed_values_has_no_mass():
    nothing = restrict(LOCAL, np.zeros((6, 4), bool))
    assert (np.asarray(log_partition(nothing)) == -np.inf).all()


def test_log_partition_and_mean(local):
    """log Σ exp and softmax, by SciPy."""
    assert near(log_partition(local), logsumexp(local, axis=1), rtol=1e-14)
    assert near(mean(KEY, local), softmax(local, axis=1), rtol=1e-12, atol=1e-300)


def test_gradient_of_the_log_partition_is_the_mean(local):
    gradient = jax.jit(jax.grad(lambda local: categorical.log_partition(local).sum()))(local)
    assert near(gradient, mean(KEY, local), rtol=1e-12, atol=1e-300)


def test_mode_is_the_largest(local):
    found = np.asarray(mode(KEY, local))
    assert (found.sum(1) == 1).all()
    assert (found.argmax(1) == local.argmax(1)).all()


def test_energy_of_hard_and_soft_latents(local):
    """< z, local >, where a value of probability zero counts for nothing."""
    for z in map(np.asarray, (mode(KEY, local), mean(KEY, local))):
        naive = [sum(p * v for p, v in zip(zs, vs, strict=True) if p > 0) for zs, vs in zip(z, local, strict=True)]
        assert near(energy(z, local), naive, rtol=1e-13)


def test_entropy_is_log_partition_minus_energy(local):
    """H(q) = log Z − < E[z], local >: −Σ p log p, term by term; rounding is 1e-16 of local's 4000."""
    probs = softmax(local, axis=1)
    naive = -(probs * np.log(np.where(probs > 0, probs, 1))).sum(1)
    found = np.asarray(log_partition(local)) - np.asarray(energy(mean(KEY, local), local))
    assert near(found, naive, atol=1e-11)


def test_draws_have_the_right_frequencies(local):
    """24 frequencies, twice; impossible values never come."""
    probs = softmax(local, axis=1)

    @jax.jit
    def counts(seed):
        draws = jax.vmap(lambda key: categorical.sample(key, local))(jax.random.split(jax.random.PRNGKey(seed), 15_000))
        return draws.sum(0)[None], (draws.sum(-1) == 1).all()[None]

    def deviations(seed, times):
        found, whole = in_blocks(lambda one: jax.tree.map(np.asarray, counts(one)), seed, times)
        assert whole.all()
        return of_counts(found.sum(0), 15_000 * times, np.minimum(probs, 1.0))

    assert_standard_normal(deviations)


def test_impossible_values_are_never_drawn():
    """First, middle and last values of probability zero, a million uniform numbers."""

    @jax.jit
    def counted(key, probs):
        return categorical.sample(key, jnp.broadcast_to(jnp.log(probs), (1_000_000, 5))).sum(0)

    counts = np.asarray(counted(KEY, np.array([0.0, 0.3, 0.0, 0.7, 0.0])))
    assert (counts[[0, 2, 4]] == 0).all()
    assert counts.sum() == 1_000_000


def test_entropy_of_the_mean(local):
    """Σ −p log p, by SciPy."""
    wanted = entr(softmax(local, axis=1)).sum(1)
    assert near(jax.jit(categorical.reported.entropy)(mean(KEY, local), local), wanted, atol=1e-11)
