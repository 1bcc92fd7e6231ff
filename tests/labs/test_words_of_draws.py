"""What students read of functions that draw: where the numbers come from, their law, their moments and their names."""

import numpy as np
import pytest
from judged_parts import result_of
from two_stage import assert_standard_normal, of_means

from labs.labs import lab_of
from labs.parts.draws import smooth_ranks
from labs.stub import key_of

GIBBS = key_of(lab_of("gibbs_gmm"))


def test_random_numbers_from_elsewhere_are_named():
    def draw_components(rng, x, means):
        return (np.random.random(len(x))[:, None] > GIBBS.assignment_probs(x, means).cumsum(1)[:, :-1]).sum(1)  # noqa: NPY002

    result = result_of("gibbs_gmm", "draw_components", draw_components)
    assert result.points == 0
    assert result.messages[0].startswith("does not draw from `rng` alone")


@pytest.mark.parametrize(
    "noise",
    [
        lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, shape),
        lambda rng, shape: rng.laplace(size=shape) / 2**0.5,
        lambda rng, shape: rng.exponential(size=shape) - 1,
        lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    ],
)
def test_noise_of_the_right_variance_and_another_law_wins_nothing(noise):
    def draw_means(rng, *given):
        centre, precision = GIBBS.mean_conditional(*given)
        return centre + noise(rng, centre.shape) / np.sqrt(precision)[:, None]

    result = result_of("gibbs_gmm", "draw_means", draw_means)
    assert result.points == 0
    assert "the averages are right, and the shape is not: is the noise of the right kind?" in result.messages[0]


def test_ranks_of_right_draws_are_standard_normal():
    """Also where entries of a draw are equal, and where all draws have few values."""

    def deviations(seed, times):
        rng, found = np.random.default_rng(seed), []
        for _ in range(100 * times):
            one, other = rng.normal(size=(100, 1)), rng.normal(size=(200, 1))
            pairs = [(one, other), (np.tile(one, 3), np.tile(other, 3)), (np.round(one), np.round(other))]
            found.append([v for pair in pairs for v in _rank_gaps(*pair)])
        return of_means(found, np.zeros(3 * 4))

    def _rank_gaps(one, other):
        first, second = smooth_ranks(one, other)
        return first.mean(0) - second.mean(0)

    assert_standard_normal(deviations)


@pytest.mark.parametrize(
    ("spread", "words"),
    [
        (lambda rng, shape: 1.5 * rng.normal(size=shape), "the variance of entry ["),
        (lambda rng, shape: rng.normal(size=(shape[0], 1)), "vary together: draw noise for each of them"),
    ],
)
def test_moments_are_variances_and_covariances(spread, words):
    def draw_means(rng, *given):
        centre, precision = GIBBS.mean_conditional(*given)
        return centre + spread(rng, centre.shape) / np.sqrt(precision)[:, None]

    result = result_of("gibbs_gmm", "draw_means", draw_means)
    assert words in result.messages[0]
    assert "square" not in result.messages[0]
    assert "product" not in result.messages[0]


def test_draws_of_a_gibbs_step_have_names():
    def gibbs_step(rng, *given):
        components, means = GIBBS.gibbs_step(rng, *given)
        return components, means + np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]])

    assert " means[1, 1] is " in result_of("gibbs_gmm", "gibbs_step", gibbs_step).messages[0]
