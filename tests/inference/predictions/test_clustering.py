"""Groups of rows: how many components are occupied, which rows belong together, which are uncertain; and their pictures."""

from itertools import product
from math import lgamma

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread
from two_stage import assert_standard_normal, in_blocks, of_frequencies

from inference import co_clustering, fit, plot_co_clustering, plot_profile, uncertain_rows
from inference.cli.main import compare_main, run_main
from inference.diagnostics.occupancy import COUNTED, _numbers_occupied, in_words, occupied, occupied_probs
from inference.plots.components import MOST_COLUMNS, MOST_LEVELS, profile
from inference.predictions.classes import probabilities
from inference.predictions.predict import log_likelihood
from inference.results import load
from models import MODELS, ZooError, load_data
from models.data import Data
from models.data.documents import documents

RNG = np.random.default_rng(4)
ROWS = Data("rows", RNG.normal(0, 1, (5, 2)), ("u", "v"))
APART = Data("apart", np.concatenate([RNG.normal(0, 1, (60, 2)), RNG.normal(9, 1, (60, 2))]), ("u", "v"))


def diag_sites(probs, mean):
    """(S, …) sites of `gmm` with unit precision."""
    mean = np.broadcast_to(mean, (len(probs), probs.shape[1], 2))
    return {"mixture_probs": probs, "mean": mean, "precision": np.ones_like(mean)}


def counted(data, sites, fewest=0.0):
    size = sites["mixture_probs"].shape[1]
    model = MODELS["gmm"](data, num_components=size, covariance="diag")
    return occupied_probs(model.algebra, dict(model.hyper), jax.tree.map(np.asarray, model.rows(data)), sites, size, fewest)


def occupied_once(sites, seed):
    """(K,) how often so many components hold a row, in one draw of all memberships at each of the sites."""
    model, size = MODELS["gmm"](ROWS, num_components=3, covariance="diag"), len(sites["mean"])
    rows, keys = jax.tree.map(np.asarray, model.rows(ROWS)), jax.random.split(jax.random.PRNGKey(seed), size)
    return np.bincount(_numbers_occupied(model.algebra, dict(model.hyper), rows, keys, sites), minlength=4)[1:]


def naive_law(probs):
    """P(number of different z) of independent rows, from all assignments: ``probs`` (N, K)."""
    law = np.zeros(probs.shape[1])
    for z in product(range(probs.shape[1]), repeat=len(probs)):
        law[len(set(z)) - 1] += np.prod([probs[n, k] for n, k in enumerate(z)])
    return law


def test_occupied_components_of_one_point():
    """Against all 3⁵ assignments."""
    mean = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    sites = diag_sites(np.tile([0.6, 0.3, 0.1], (COUNTED, 1)), mean)
    model = MODELS["gmm"](ROWS, num_components=3, covariance="diag")
    law = naive_law(probabilities(model, {name: leaf[0] for name, leaf in sites.items()}, ROWS)["probs"].values)
    assert law.min() > 0.02
    np.testing.assert_allclose(counted(ROWS, sites) * COUNTED, occupied_once(sites, 0), rtol=1e-12)

    def deviations(seed, times):
        return of_frequencies(in_blocks(lambda one: occupied_once(sites, one)[None], seed, times).sum(0), law)

    assert_standard_normal(deviations)


def test_documents_without_a_token_occupy_no_topic():
    """Proportions of 1 and 0: one topic holds the tokens of the one document that has any, the other none."""
    data = documents([["a", "a"], []])
    model = MODELS["latent_dirichlet"](data, num_topics=2)
    sites = {"topic_probs": np.array([[[1.0, 0.0], [0.5, 0.5]]]), "word_probs": np.ones((1, 2, 1))}
    rows = jax.tree.map(np.asarray, model.rows(data))
    assert list(occupied_probs(model.algebra, dict(model.hyper), rows, sites, 2, 0.0)) == [1.0, 0.0]


def test_occupied_components_of_the_prior():
    """Components that are equal tell nothing of rows: the law is that of Dirichlet-multinomial counts."""
    alpha, size, rows = 0.5, 3, 5
    law = np.zeros(size)
    for z in product(range(size), repeat=rows):
        counts = np.bincount(z, minlength=size)
        log_prob = lgamma(size * alpha) - lgamma(size * alpha + rows) + sum(lgamma(alpha + n) - lgamma(alpha) for n in counts)
        law[np.count_nonzero(counts) - 1] += np.exp(log_prob)

    def once(seed):
        sites = diag_sites(np.random.default_rng(seed).dirichlet([alpha] * size, COUNTED), np.zeros(2))
        return occupied_once(sites, seed)[None]

    assert_standard_normal(lambda seed, times: of_frequencies(in_blocks(once, seed, times).sum(0), law), 3)


def test_rows_of_weight_zero_occupy_nothing():
    """Whatever is drawn: the far rows alone hold the second component, and count for nothing."""
    sites = diag_sites(np.tile([0.5, 0.5], (10, 1)), np.array([[0.0, 0.0], [9.0, 9.0]]))
    weighted = APART._replace(weight=np.repeat([1.0, 0.0], 60))
    np.testing.assert_array_equal(counted(APART, sites), [0, 1])
    np.testing.assert_array_equal(counted(weighted, sites, fewest=60.0), [1, 0])


def test_what_is_certain_is_not_drawn():
    sites = diag_sites(np.tile([0.5, 0.5], (10, 1)), np.array([[0.0, 0.0], [9.0, 9.0]]))
    np.testing.assert_array_equal(counted(APART, sites, fewest=60.0), counted(APART, sites))


@pytest.mark.slow
def test_sparse_dirichlet_leaves_components_empty():
    """Two groups 9 sd apart and five components: two are held for sure, and empty ones have a probability."""
    model = MODELS["gmm"](APART, num_components=5, covariance="diag", prior={"mixture_probs": {"concentration": 0.01}})
    tree = fit(model, APART, "gibbs", num_warmup=300, num_samples=200, num_chains=2)
    number = occupied(tree)
    assert number.sum() == pytest.approx(1)
    assert number[1] == 0
    assert number[2] > 0.5
    assert "2 (" in in_words(number)


def test_co_clustering_is_the_average_of_products():
    """Against a loop over draws, and equal for draws whose labels have been permuted."""
    model = MODELS["gmm"](ROWS, num_components=3, covariance="diag")
    rng = np.random.default_rng(0)
    points = [
        {"mixture_probs": rng.dirichlet([1.0] * 3), "mean": rng.normal(0, 1, (3, 2)), "precision": rng.gamma(2, 1, (3, 2))}
        for _ in range(4)
    ]
    naive = np.zeros((5, 5))
    for sites in points:
        probs = probabilities(model, sites, ROWS)["probs"].values
        naive += np.array([[probs[i] @ probs[j] if i != j else 1.0 for j in range(5)] for i in range(5)]) / len(points)
    for order in ([0, 1, 2], [2, 0, 1]):
        draws = {name: np.stack([sites[name][order] for sites in points])[None] for name in points[0]}
        dims = {"mixture_probs": ["k"], "mean": ["k", "d"], "precision": ["k", "d"]}
        posterior = xr.Dataset({name: (["chain", "draw", *dims[name]], value) for name, value in draws.items()})
        found = co_clustering(model, xr.DataTree.from_dict({"/posterior": posterior}), ROWS)
        np.testing.assert_allclose(found, naive, atol=4e-7)  # products of two numbers of single precision
    few = co_clustering(model, points[0], ROWS, max_rows=3)
    np.testing.assert_array_equal(few["row"], [0, 2, 4])
    assert few.attrs["num_rows"] == 5
    with pytest.raises(ZooError, match="max_rows must be a whole number above 1, got 1"):
        co_clustering(model, points[0], ROWS, max_rows=1)


def test_uncertain_rows_are_listed_by_certainty():
    probs = np.array([[0.99, 0.01, 0.0], [0.5, 0.1, 0.4], [0.2, 0.8, 0.0], [0.3, 0.35, 0.35]])
    latent = xr.Dataset({"responsibilities": (("row", "component"), probs)}, coords={"component": ["a", "b", "c"]})
    found = uncertain_rows(xr.DataTree.from_dict({"/latent": latent}))
    assert found.index.tolist() == [3, 1, 2]
    assert found["component"].tolist() == ["b", "a", "b"]
    assert found["runner-up"].tolist() == ["c", "c", "a"]
    np.testing.assert_allclose(found["its probability"], [0.35, 0.4, 0.2])
    assert uncertain_rows(xr.DataTree.from_dict({"/latent": latent}), below=0.45).index.tolist() == [3]
    with pytest.raises(ZooError, match="no probabilities of components"):
        uncertain_rows(xr.DataTree())


# ---------------------------------------------------------------------------------------------------------------------
# Pictures


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical", "unit"])
def test_profile_of_gaussians_is_mean_and_spread(covariance):
    """Against rows drawn by the model, of each component."""
    model = MODELS["gmm"](APART, num_components=2, covariance=covariance)
    tree = fit(model, APART, "em", num_starts=1)
    sites = {name: np.asarray(value) for name, value in tree["point_estimate"].to_dataset().data_vars.items()}

    def deviations(seed, times):
        size, found = 4000 * times, []
        for k in range(2):
            one = sites | {"mixture_probs": np.eye(2)[k]}
            drawn = np.asarray(model.abilities.simulate(jax.random.PRNGKey(seed + k), model.hyper, one, size).x)
            for d, column in enumerate(profile(model, sites)):
                found.append((drawn[:, d].mean() - column.expected[k]) / column.sd[k] * np.sqrt(size))
                found.append((drawn[:, d].std() / column.sd[k] - 1) * np.sqrt(2 * size))
        return found

    assert_standard_normal(deviations)


@pytest.mark.slow
def test_profile_of_a_mixed_table():
    data = load_data("martians_survey", num_rows=80, seed=1)
    model = MODELS["mixed_mixture"](data, num_components=2)
    tree = fit(model, data, "gibbs", num_warmup=10, num_samples=10, num_chains=2)
    found = {column.name: column for column in profile(model, tree)}
    assert list(found) == list(data.columns)
    posterior = tree["posterior"].to_dataset()
    np.testing.assert_allclose(found["weight"].expected, posterior["mean"].mean(("chain", "draw"))[:, 0])
    np.testing.assert_allclose(found["planet"].expected, posterior["probs_planet"].mean(("chain", "draw")))
    np.testing.assert_allclose(found["moons"].sd, np.sqrt(posterior["rate"]).mean(("chain", "draw"))[:, 0])
    draws = posterior["mean"].values[..., 0].reshape(20, 2)
    np.testing.assert_allclose(found["weight"].interval, np.quantile(draws, [0.055, 0.945], axis=0))
    assert all(0 <= column.separation <= 1 for column in found.values())


def test_profile_shows_the_columns_that_tell_most(tmp_path):
    """A level apart and a mean apart count; columns without a difference go first where there are too many."""
    names = tuple(f"x{d}" for d in range(MOST_COLUMNS + 2))
    x = RNG.normal(0, 1, (40, len(names)))
    x[20:, 1:] += 20
    data = Data("wide", x, names)
    model = MODELS["gmm"](data, num_components=2, covariance="diag")
    mean = np.stack([x[:20].mean(0), x[20:].mean(0)])
    sites = {"mixture_probs": np.ones(2) / 2, "mean": mean, "precision": np.ones((2, len(names)))}
    figure = plot_profile(model, sites, tmp_path / "profile.png")
    titles = [axis.get_title() for axis in figure.axes]
    assert len(titles) == MOST_COLUMNS
    assert "x0" not in titles
    assert f"{MOST_COLUMNS} of {len(names)} columns" in figure.get_suptitle()
    assert imread(tmp_path / "profile.png").std() > 0


@pytest.mark.slow
def test_rare_levels_share_a_bar():
    levels = tuple("abcdefghijkl")
    codes = np.concatenate([np.repeat(np.arange(9.0), 5), [9.0, 10.0, 11.0]])[:, None]
    data = Data("levels", codes, ("c",), categories=(levels,), kinds=("category",))
    model = MODELS["mixed_mixture"](data, num_components=1)
    axis = plot_profile(model, fit(model, data, "em", num_starts=1)).axes[0]
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == [*levels[:MOST_LEVELS], f"{12 - MOST_LEVELS} other levels"]
    widths = np.array([bar.get_width() for bar in axis.patches])
    assert widths.sum() == pytest.approx(1)


def test_profiles_need_columns():
    data = load_data("python_lines", num_rows=30)
    model = MODELS["markov_naive_bayes"](data)
    with pytest.raises(ZooError, match="markov_naive_bayes are not made of columns"):
        profile(model, {})


def test_heat_map_puts_groups_together():
    """Rows of two groups far apart, shuffled: the picture is two blocks."""
    shuffled = APART._replace(x=APART.x[np.random.default_rng(0).permutation(120)])
    model = MODELS["gmm"](shuffled, num_components=2, covariance="diag")
    sites = {"mixture_probs": np.ones(2) / 2, "mean": np.array([[0.0, 0.0], [9.0, 9.0]]), "precision": np.ones((2, 2))}
    assert np.isfinite(log_likelihood(model, sites, shuffled)).all()
    image = np.asarray(plot_co_clustering(model, sites, shuffled).axes[0].images[0].get_array())
    blocks = np.kron(np.eye(2), np.ones((60, 60)))
    np.testing.assert_allclose(image, blocks, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [None, True, False])
def test_runs_draw_what_is_asked_for(tmp_path, wanted, capsys):
    """Pictures, unless they are not wanted; the page holds them, and the rows that are not sure."""
    options = [] if wanted is None else [f"pictures={str(wanted).lower()}"]
    arguments = ["model=gmm", "model.num_components=4", "model.covariance=diag", "method=em", "num_starts=1", "progress=false"]
    run_main([*arguments, f"out={tmp_path / 'run'}", *options])
    names = {path.name for path in (tmp_path / "run").glob("*.svg")}
    assert names == (set() if wanted is False else {"pairs.svg", "profile.svg", "co_clustering.svg", "checks.svg"})
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<img") == len(names)
    uncertain = uncertain_rows(load(tmp_path / "run"))
    assert len(uncertain)
    assert f"{uncertain.index[0] + 1} ({uncertain['probability'].iloc[0]:.2f})" in capsys.readouterr().out
    assert "is below 90%" in page


@pytest.mark.slow
def test_comparison_prints_the_number_of_occupied_components(tmp_path, capsys):
    sparse = "model.prior={mixture_probs: {concentration: 0.01}}"
    arguments = ["model=gmm", "model.covariance=diag", "model.num_components=4,6", sparse, "method=gibbs"]
    compare_main([*arguments, "num_warmup=20", "num_samples=20", "num_chains=2", "progress=false", f"out={tmp_path / 'c'}"])
    out = capsys.readouterr().out
    assert "number of components that hold a row, with its posterior probability" in out
    assert "num_components=6: " in out
