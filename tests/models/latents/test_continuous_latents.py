"""Gaussian scores and missing cells as latents: energies and entropies by hand, draws that are independent."""

import jax
import numpy as np
import pytest
from naive import near
from two_stage import assert_standard_normal, in_blocks, of_means

from models.latents.gaussian import Scores, scores
from models.latents.missing_cells import Completed, Completion, missing_cells

RNG = np.random.default_rng(0)
ROWS, SIZE = 6, 2
ROOT = np.array([[1.5, 0.0], [-2.0, 0.7]])
LOCAL = Scores(RNG.normal(size=ROWS), RNG.normal(size=(ROWS, SIZE)), ROOT)


def test_draws_of_scores_have_their_precision():
    """Draws are centre + A ε with A Aᵀ the inverse of the precision, ε those of the unit precision and the same key."""
    draw = jax.jit(lambda root: scores.sample(jax.random.PRNGKey(0), LOCAL._replace(root=root)).mean - LOCAL.centre)
    away, noise = np.asarray(draw(ROOT)), np.asarray(draw(np.eye(SIZE)))
    map_of = np.linalg.lstsq(noise, away, rcond=None)[0].T
    assert near(noise @ map_of.T, away, atol=1e-12)
    assert near(map_of @ map_of.T, np.linalg.inv(ROOT @ ROOT.T), rtol=1e-11)


@pytest.mark.parametrize("root", [ROOT, np.broadcast_to(ROOT, (ROWS, SIZE, SIZE))], ids=["shared", "by_row"])
def test_entropy_of_scores_is_log_partition_minus_energy(root):
    """½ log det 2πe precision⁻¹, where the energy is that of the expected scores with their covariance."""
    local = LOCAL._replace(root=root)

    def both(local):
        return scores.log_partition(local), scores.energy(scores.mean(jax.random.PRNGKey(0), local), local)

    log_partition, energy = jax.jit(both)(local)
    wanted = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * np.linalg.inv(ROOT @ ROOT.T))[1]
    assert near(np.asarray(log_partition) - np.asarray(energy), np.full(ROWS, wanted), rtol=1e-12)


def test_component_and_missing_cells_are_drawn_independently():
    """Given a row's natural parameters a cell has the same mean whichever component is drawn with it: 0 here, by symmetry."""
    local = Completion(np.zeros((1, 2)), np.zeros((1, 2, 1)), np.ones((1, 2, 1, 1)), np.ones((1, 1)))

    @jax.jit
    def draw(seed):
        return jax.vmap(lambda key: missing_cells.latent.sample(key, local))(jax.random.split(jax.random.PRNGKey(seed), 400))

    def deviations(seed, times):
        z = in_blocks(draw, seed, times)
        assert isinstance(z, Completed)
        first, cells = np.asarray(z.component)[:, 0, 0] == 1, np.asarray(z.centre)[:, 0, :, 0]
        assert 0 < first.sum() < len(first)
        return np.concatenate([of_means(cells[first], 0.0), of_means(cells[~first], 0.0)])

    assert_standard_normal(deviations)
