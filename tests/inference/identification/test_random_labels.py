"""The random permutation move: it is uniform, leaves the density alone, and moves all sites of a draw alike."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from naive import build, log_likelihood, log_prior, near, random_sites, table, two_groups

from inference import fit
from inference.certificates.laws import kernels
from inference.certificates.laws.kernel_law import law_check
from inference.certificates.laws.kernels_on_reals import PERMUTED
from inference.certificates.oracles import oracle_of
from inference.identification.random_labels import in_random_labellings, require_symmetry
from inference.methods.method import checked_options, method_named
from inference.results.triangles import sites_of
from models import MODELS, load_data
from models.base import ZooError
from models.symmetries import Permutation, Reflection, Rotation

DIMS = {"mean": ("component", "feature"), "probs": ("component",), "shared": ("feature",)}
FACTORS = {"loading": ("feature", "factor"), "strength": ("factor",), "mean": ("feature",)}
DRAWN = 6_000
DEVIATIONS = 4.5  # of a count: beyond it one time in 150,000


def codes(size: int) -> dict[str, np.ndarray]:
    """Two chains of draws whose entries say which component they belong to."""
    labels = np.arange(size, dtype=float)
    return {
        "mean": np.broadcast_to(labels[:, None] + [0.0, 10.0], (2, DRAWN, size, 2)),
        "probs": np.broadcast_to(labels, (2, DRAWN, size)),
        "shared": np.broadcast_to([5.0, 6.0], (2, DRAWN, 2)),
    }


def test_every_permutation_is_equally_frequent_and_moves_all_sites():
    """Counts of the 3! orders are binomial; what has no component stays."""
    moved = in_random_labellings(codes(3), Permutation("component"), DIMS, seed=1)
    orders = moved["probs"].astype(int)
    np.testing.assert_array_equal(moved["mean"], orders[..., None] + [0.0, 10.0])
    assert (moved["shared"] == [5.0, 6.0]).all()
    number, probability = 2 * DRAWN, 1 / 6
    for order in permutations(range(3)):
        count = (orders == order).all(-1).sum()
        assert abs(count - number * probability) < DEVIATIONS * np.sqrt(number * probability * (1 - probability))
    assert not np.array_equal(orders[0], orders[1])


def test_an_interrupted_run_is_the_beginning_of_a_longer_one():
    """Also equal seeds give equal draws, and others do not."""
    first = {name: value[:, :100] for name, value in codes(3).items()}
    for symmetry, dims, draws in (
        (Permutation("component"), DIMS, first),
        (Rotation("factor"), FACTORS, {"loading": np.ones((2, 100, 3, 2))}),
        (Reflection("factor"), FACTORS, {"loading": np.ones((2, 100, 3, 2))}),
    ):
        move = partial(in_random_labellings, symmetry=symmetry, dims=dims)
        short = move({name: value[:, :40] for name, value in draws.items()}, seed=3)
        for name, value in move(draws, seed=3).items():
            np.testing.assert_array_equal(short[name], value[:, :40])
        assert any((value != move(draws, seed=4)[name]).any() for name, value in move(draws, seed=3).items())


@pytest.mark.parametrize("covariance", ["full", "tied", "spherical"])
def test_permutations_leave_the_density_alone(covariance):
    """The naive log joint of every moved draw is that of the draw itself, to rounding; with one site forgotten it is not."""
    x = two_groups(20)
    model = build(x, covariance, num_components=3)
    one = random_sites(covariance, 3, x)
    draws = {name: np.broadcast_to(value, (1, 12, *value.shape)) for name, value in one.items()}
    moved = in_random_labellings(draws, model.symmetry, model.naming.dims, seed=0)

    def density(sites, draw):
        at = {name: value[0, draw] for name, value in sites.items()}
        return log_prior(covariance, model.hyper, at) + log_likelihood(covariance, at, x).sum()

    wanted = density(draws, 0)
    assert all(near(density(moved, draw), wanted, rtol=1e-12) for draw in range(12))
    forgotten = moved | {"mixture_probs": draws["mixture_probs"]}
    assert any(abs(density(forgotten, draw) - wanted) > 1e-3 for draw in range(12))


def test_rotations_and_reflections_keep_what_is_invariant():
    """Λ Λᵀ of every draw; strengths move with their factors and keep their sign; rotations are uniform: E[Q_ij²] = 1 / L."""
    rng = np.random.default_rng(0)
    loading = np.broadcast_to(rng.normal(size=(4, 3)), (1, DRAWN, 4, 3))
    draws = {"loading": loading, "strength": (loading**2).sum(2), "mean": loading[..., 0]}
    for symmetry in (Rotation("factor"), Reflection("factor")):
        moved = in_random_labellings({"loading": loading}, symmetry, FACTORS, seed=1)["loading"]
        np.testing.assert_allclose(moved @ np.swapaxes(moved, -1, -2), loading @ np.swapaxes(loading, -1, -2), atol=1e-12)
    moved = in_random_labellings(draws, Reflection("factor"), FACTORS, seed=1)
    np.testing.assert_allclose(moved["strength"], (moved["loading"] ** 2).sum(2), atol=1e-12)
    assert (moved["mean"] == draws["mean"]).all()
    turns = Rotation("factor").random(rng, DRAWN, 3)
    np.testing.assert_allclose(turns @ np.swapaxes(turns, -1, -2), np.broadcast_to(np.eye(3), turns.shape), atol=1e-12)
    squares = turns**2
    assert (np.abs(squares.mean(0) - 1 / 3) < DEVIATIONS * squares.std(0) / np.sqrt(DRAWN)).all()
    assert (np.abs(turns.mean(0)) < DEVIATIONS * turns.std(0) / np.sqrt(DRAWN)).all()


def test_a_model_without_symmetry_is_refused():
    model = MODELS["linear_discriminant"](load_data([[0.0], [1.0], [2.0], [4.0]], labels=["a", "b", "a", "b"]))
    assert model.symmetry is None
    with pytest.raises(ZooError, match="declares no such symmetry; leave permute_components out"):
        require_symmetry(model)


def test_neither_true_nor_false_is_refused():
    with pytest.raises(ZooError, match="permute_components must be true or false, got 1"):
        checked_options(method_named("gibbs"), {"permute_components": 1})
    assert checked_options(method_named("nuts"), {"permute_components": True}).permute_components


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_raw_draws_are_permuted_and_relabelling_undoes_it(method):
    """Draws of far groups in both labellings alike; relabelled ones are those of the run without the option."""
    data = table(two_groups(24, gap=12.0)[np.arange(24) % 6 != 1])  # one group is larger
    model, options = build(data, "diag"), {"num_warmup": 200, "num_samples": 300, "num_chains": 2, "seed": 3}
    plain, permuted, again = (fit(model, data, method, permute_components=p, **options) for p in (False, True, True))
    found, wanted = (sites_of(tree, "posterior") for tree in (permuted, plain))
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)
        np.testing.assert_array_equal(sites_of(again, "posterior_raw")[name], sites_of(permuted, "posterior_raw")[name])
    for tree, share in ((plain, 0.0), (permuted, 0.5)):
        other = (tree["sample_stats"]["permutation"].values[..., 0] == 1).mean(1)
        assert (np.abs(np.minimum(other, 1 - other) - share) <= DEVIATIONS * np.sqrt(0.25 / 300) * (share > 0)).all()
    np.testing.assert_allclose(permuted["sample_stats"]["lp"], plain["sample_stats"]["lp"], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gmm gibbs", "hmm gibbs", "factor_analysis gibbs", "gmm nuts"])
def test_permuted_kernels_have_the_right_law(cell):
    name, method = cell.split()
    assert law_check(PERMUTED[method], oracle_of(name), 1, 2_500).passed


@pytest.mark.slow
def test_a_move_that_forgets_a_site_is_rejected(monkeypatch):
    def forgetful(draws, symmetry, dims, seed):
        return in_random_labellings(draws, symmetry, dims, seed) | {"mixture_probs": draws["mixture_probs"]}

    monkeypatch.setattr(kernels, "in_random_labellings", forgetful)
    assert not law_check(PERMUTED["gibbs"], oracle_of("gmm"), 1, 2_500).passed
