"""Documents that were not fitted: their proportions, densities and perplexity against sums over the topics of all tokens."""

from functools import cache
from itertools import product

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import near
from scipy.special import gammaln, logsumexp
from topic_models import DOCUMENTS, build, random_sites
from two_stage import assert_standard_normal, in_blocks, of_means

from inference import fit, perplexity, predict, score
from inference.cli.main import guarded, run_main
from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import all_rows, execute
from inference.predictions.local_posterior import known_rows
from inference.report.remarks import holders
from inference.results import load
from inference.results.table import observed_data
from models import MODELS, ZooError, load_data
from models.data.documents import documents

NEW = [list("ab"), list("ccab"), [], list("b"), list("abcabc")]
WORDS = "abc"


@cache
def by_enumeration(kind):
    """Of every new document: E[θ | x, β] and log p(x | β), of counts, over all assignments of two topics to its tokens."""
    model, _ = build(kind)
    beta, alpha = random_sites()["word_probs"], np.asarray(model.hyper["topic_concentration"])
    means, logs = [], []
    for row in NEW:
        words = [WORDS.index(word) for word in row]
        weights, values = [], []
        for z in product(range(2), repeat=len(words)):
            a = alpha + np.bincount(z, minlength=2)
            likelihood = sum(np.log(beta[k, w]) for k, w in zip(z, words, strict=True))
            weights.append(likelihood + (gammaln(a) - gammaln(alpha)).sum() + gammaln(alpha.sum()) - gammaln(a.sum()))
            values.append(a / a.sum())
        counts = np.array([row.count(word) for word in WORDS])
        logs.append(logsumexp(weights) + gammaln(len(row) + 1) - gammaln(counts + 1).sum())
        means.append(np.exp(np.array(weights) - logsumexp(weights)) @ np.array(values))
    return np.array(means), np.array(logs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "asymmetric"])
def test_proportions_and_densities_of_new_documents(kind):
    """At given words of topics, by runs with seeds of their own. An estimate of p(x) is unbiased, and exact at one token."""
    model, _ = build(kind)
    means, logs = by_enumeration(kind)

    def once(seed):
        found = predict(model, random_sites(), documents(NEW), num_draws=400, seed=seed)
        assert found["topic_probs"].dims == ("row", "topic")
        low, high = (found[f"topic_probs_eti89_{side}"].values for side in ("lb", "ub"))
        assert ((low < means) & (means < high)).all()
        assert near(found["log_density"][2:4], logs[2:4], atol=1e-12)
        return found["topic_probs"].values[None, :, 0], np.exp(found["log_density"].values - logs)[None, [0, 1, 4]]

    def deviations(seed, times):
        probs, ratios = in_blocks(once, seed, 12 * times)
        return np.concatenate([of_means(probs, means[:, 0]), of_means(ratios, 1.0)])

    assert_standard_normal(deviations, 1)


@pytest.mark.slow
def test_perplexity_is_of_sequences_of_words():
    """exp(−Σ log p(w) / Σ N), without multinomial coefficients; the product of p(w) over documents is unbiased."""
    model, _ = build()
    logs = by_enumeration("default")[1]
    counts = np.array([[row.count(word) for word in WORDS] for row in NEW])
    logs = logs - gammaln(counts.sum(1) + 1) + gammaln(counts + 1).sum(1)

    def once(seed):
        found = perplexity(model, random_sites(), documents(NEW), particles=50, num_draws=1, seed=seed)
        total = found["log_probability"].values.sum()
        assert near(found["perplexity"], np.exp(-total / 13), rtol=1e-12)
        return np.exp(total - logs.sum())[None]

    assert_standard_normal(lambda seed, times: of_means(in_blocks(once, seed, 40 * times), 1.0))
    found = perplexity(model, random_sites(), documents(NEW), particles=50, num_draws=1)
    assert list(found["units"].values) == [2, 4, 0, 1, 6]
    assert found["perplexity_se"] > 0
    assert found.attrs["left_out"] == 0
    assert perplexity(model, random_sites(), documents([["a", "z", "z"]])).attrs["left_out"] == 2


def test_halves_are_the_whole():
    """Words of both sum to those of the document; halves differ by a token at most; one token at a time and carriers agree."""
    model, _ = build()
    rows = jax.tree.map(np.asarray, model.rows(documents(NEW)))
    first, second = model.abilities.held_out.halves(3, rows)
    np.testing.assert_array_equal(first.words.times + second.words.times, rows.words.times)
    for half, sizes in ((first, [1, 2, 0, 1, 3]), (second, [1, 2, 0, 0, 3])):
        np.testing.assert_array_equal(half.words.times.sum(1), sizes)
        np.testing.assert_array_equal(half.tokens.times.sum(1), sizes)
        for row, word, times in zip(half.tokens.word, half.words.word, half.words.times, strict=True):
            np.testing.assert_array_equal(np.sort(row[: times.sum()]), np.sort(np.repeat(word, times)))
        assert near(half.carrier, gammaln(half.words.times.sum(1) + 1) - gammaln(half.words.times + 1).sum(1), atol=1e-12)


def test_completion_is_a_mean_over_draws_token_by_token():
    model, _ = build()
    rng = np.random.default_rng(0)
    draws = {"topic_probs": rng.dirichlet(np.ones(2), (7, len(NEW))), "word_probs": rng.dirichlet(np.ones(3), (7, 2))}
    rows = jax.tree.map(np.asarray, model.rows(documents(NEW)))
    wanted = np.zeros(len(NEW))
    for d, row in enumerate(NEW):
        for word in row:
            probs = [draws["topic_probs"][s, d] @ draws["word_probs"][s][:, WORDS.index(word)] for s in range(7)]
            wanted[d] += np.log(np.mean(probs))
    assert near(model.abilities.held_out.completion(draws, rows), wanted, atol=1e-12)


@cache
def fitted(**options):
    model, data = build()
    return model, data, fit(model, data, "collapsed_gibbs", num_warmup=20, num_samples=30, num_chains=2, **options)


@pytest.mark.slow
def test_documents_of_the_fit_keep_their_draws():
    """`predict` of the fitted documents averages the result's own draws; in another order they are new ones."""
    model, data, tree = fitted()
    found = predict(model, tree, data)
    own = np.asarray(tree["posterior"]["topic_probs"]).reshape(-1, 4, 2)
    assert near(found["topic_probs"], own.mean(0), atol=1e-14)
    assert near(found["topic_probs_sd"], own.std(0), atol=1e-14)
    other = predict(model, tree, documents(DOCUMENTS[::-1]))
    assert np.abs(other["topic_probs"].values[::-1] - found["topic_probs"].values).max() > 1e-6


def own_means(tree):
    return np.asarray(tree["posterior"]["topic_probs"]).reshape(-1, 4, 2).mean(0)


@pytest.mark.slow
def test_fitted_is_obeyed_row_by_row():
    """Documents that are said to be fitted, or of which the fit had none but one of weight 0, keep the result's own draws."""
    model, data, tree = fitted()
    mask = np.array([True, True, False, True])
    weighed = tree.copy()
    weighed["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(weight=("row", mask.astype(float))))
    for source, said in ((tree, mask), (weighed, None), (weighed, mask)):
        found = predict(model, source, data, fitted=said, num_draws=60)["topic_probs"].values
        assert near(found[mask], own_means(tree)[mask], atol=1e-14)
        assert np.abs(found[2] - own_means(tree)[2]).max() > 1e-6
    everything = predict(model, tree, data, fitted=np.ones(4, bool), num_draws=60)["topic_probs"]
    assert near(everything, own_means(tree), atol=1e-14)


def by_hand():
    """A result that nothing fitted: enough for what is refused."""
    model, data = build()
    rng, dims = np.random.default_rng(0), {"topic_probs": ("row", "topic"), "word_probs": ("topic", "word")}
    sites = {"topic_probs": rng.dirichlet(np.ones(2), (1, 5, 4)), "word_probs": rng.dirichlet(np.ones(3), (1, 5, 2))}
    draws = xr.Dataset({name: (("chain", "draw", *dims[name]), value) for name, value in sites.items()})
    observed = observed_data(data, model.reading.layout)
    return model, data, xr.DataTree.from_dict({"/posterior": draws, "/observed_data": observed})


def test_a_fitted_that_says_nothing_is_refused():
    model, data, tree = by_hand()
    for mask in ([True] * 4, [True, False, True, False]):
        np.testing.assert_array_equal(known_rows(model, tree, data, np.array(mask)), mask)
    for wrong in ("yes", 1, np.ones(3, bool), np.ones(4)):
        with pytest.raises(ZooError, match="fitted must be true or false, or 4 of these"):
            predict(model, tree, data, fitted=wrong)
    with pytest.raises(ZooError, match="fitted: the result holds no draws of topic_probs of document 1 of these data"):
        predict(model, tree, documents(DOCUMENTS[::-1]), fitted=True)


@pytest.mark.slow
def test_learnt_concentrations_are_those_of_new_documents():
    """An empty document has the proportions of the prior: α / Σ α, which was learnt."""
    model, _, tree = fitted(learn="symmetric")
    assert tree.attrs["learnt"] == 1
    alpha = tree["constant_data"]["topic_concentration"].values[0]
    sd, kurtosis = 0.5 / np.sqrt(2 * alpha + 1), 3 - 6 / (2 * alpha + 3)

    def deviations(seed, times):
        found = predict(model, tree, documents([[], ["a"]]), num_draws=1000 * times, seed=seed)
        return (found["topic_probs_sd"].values[0, 0] / sd - 1) * np.sqrt(4000 * times / (kurtosis - 1))

    assert_standard_normal(deviations)


@pytest.mark.slow
def test_one_fit_serves_corpora_of_any_size():
    """Proportions of many new documents, of points and of draws, with words that the corpus lacks left out."""
    model, _, tree = fitted()
    for source in (tree, random_sites()):
        found = predict(model, source, documents([["a"], ["z"], list("abc") * 4]), num_draws=10)
        assert near(found["topic_probs"].sum("topic"), 1, atol=1e-12)
        assert np.isfinite(found["log_density"]).all()


@pytest.mark.slow
def test_what_has_no_perplexity():
    model, data, tree = fitted()
    iris = load_data("iris")
    with pytest.raises(ZooError, match="perplexity is of rows made of units"):
        perplexity(MODELS["gmm"](iris), {}, iris)
    with pytest.raises(ZooError, match="is not one of left_to_right, completion"):
        perplexity(model, tree, data, "chib")
    with pytest.raises(ZooError, match="no token to foretell"):
        perplexity(model, tree, documents([["z"]]))
    with pytest.raises(ZooError, match="particles must be a whole number above 0"):
        perplexity(model, tree, data, particles=0)
    with pytest.raises(ZooError, match="a document has topic_probs and belongs to no single class"):
        score(*labelled())


@pytest.mark.parametrize("number", [0, -5, True, 2.0])
def test_numbers_of_draws_that_are_none(number):
    model, data, tree = by_hand()
    with pytest.raises(ZooError, match="num_draws must be a whole number above 0"):
        predict(model, tree, data, num_draws=number)
    with pytest.raises(ZooError, match="num_draws must be a whole number above 0"):
        perplexity(model, tree, data, num_draws=number)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["left_to_right", "completion"])
@pytest.mark.filterwarnings("error")
def test_a_word_that_no_topic_has_makes_perplexity_infinite(how):
    """Density 0 of one document: ∞ with an error that is not a number, as `mean_and_error` has it, and without a warning."""
    model, _ = build()
    sites = random_sites() | {"word_probs": np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])}
    found = perplexity(model, sites, documents([list("abab"), list("cccc"), []]), how, num_draws=5)
    assert found["perplexity"] == np.inf
    assert np.isnan(found["perplexity_se"])
    assert list(np.isfinite(found["log_probability"].values)) == [True, False, True]


@pytest.mark.slow
def test_rows_are_called_what_they_are_to_the_model():
    tree = fitted()[2]
    assert (tree.attrs["row"], holders(tree)) == ("document", "topics that hold a token")
    blobs = load_data("blobs", num_rows=30)
    other = fit(MODELS["gmm"](blobs, num_components=2), blobs, "em", num_starts=1)
    assert (other.attrs["row"], holders(other)) == ("row", "components that hold a row")


def labelled():
    data = load_data(documents(DOCUMENTS), labels=["x", "y", "x", "y"])
    model = MODELS["latent_dirichlet"](data, num_topics=2, labelled=True)
    return model, random_sites(), data


@pytest.mark.slow
def test_documents_are_held_out_from_the_shell(tmp_path):
    """A fifth of the documents are scored and their perplexity is that of the densities of the group."""
    options = ["num_warmup=4", "num_samples=4", "num_chains=2", "data.num_rows=20", "data.length=10", "data.test_fraction=0.2"]
    given = ["model=latent_dirichlet", "model.num_topics=3", "method=collapsed_gibbs", "data=bars", *options]
    tree, folder = execute(compose([*given, "progress=false", "pictures=false", f"out={tmp_path / 'run'}"]))
    assert tree.attrs["held_out_rows"] == 4
    counts = tree["held_out"]["x"].values
    density = tree["held_out"]["log_density"].values - gammaln(counts.sum(1) + 1) + gammaln(counts + 1).sum(1)
    assert tree.attrs["held_out_perplexity"] == pytest.approx(np.exp(-density.sum() / counts.sum()), rel=1e-10)
    assert (folder / "results.nc").is_file()


def mail(folder):
    """Arguments for a model of labelled documents, two fifths of which are held out."""
    texts = {"sport": "ball game win", "trade": "price sale win", "sport|trade": "ball price game sale"}
    pd.DataFrame({"body": [*texts.values()] * 5, "kind": [*texts] * 5}).to_csv(folder / "mail.csv", index=False)
    data = [f"data={folder / 'mail.csv'}", "data.text=body", "data.label=kind", "data.test_fraction=0.4"]
    return ["model=latent_dirichlet", "model.num_topics=2", "model.labelled=true", "progress=false", "pictures=false", *data]


@pytest.mark.slow
def test_labelled_documents_are_held_out_from_the_shell(tmp_path, capsys, monkeypatch):
    """Labels are topics a document may have, no classes: those of documents held out are kept and change no figure."""
    monkeypatch.setenv("COLUMNS", "80")
    given = [*mail(tmp_path), "method=em", "num_starts=2", "max_iter=2000"]
    assert run_main([*given, f"out={tmp_path / 'run'}"]) in (0, 3)
    for name in ("results.nc", "summary.csv", "report.html", "environment.json", "config.yaml"):
        assert (tmp_path / "run" / name).is_file()
    printed = capsys.readouterr().out
    said = " ".join(printed.split())
    assert max(map(len, printed.splitlines()[:-1])) <= 80
    assert "6 documents held out, their labels ignored: log density" in said
    assert "perplexity (left to right)" in said
    assert "accuracy" not in said
    assert "topics, largest first: share of documents, most probable words; all: summary.csv" in printed  # in one line
    tree = load(tmp_path / "run")
    assert (tree["held_out"]["label"].values < 0).any()  # either topic
    assert "loss" not in tree["held_out"]
    _, training, held_out = all_rows(compose(expand(given, False)[0]))
    model = MODELS["latent_dirichlet"](training, num_topics=2, labelled=True)
    plain = perplexity(model, tree, held_out._replace(labels=None, label=None, levels=(), candidates=None))
    assert tree.attrs["held_out_perplexity"] == pytest.approx(float(plain["perplexity"]), rel=1e-12)


@pytest.mark.slow
def test_a_run_is_gone_on_with_from_the_shell(tmp_path, monkeypatch):
    """Its method is not the one that the command line has by default, whose options it lacks. The draws are those of one go."""
    given = [*mail(tmp_path), "method=collapsed_gibbs", "num_warmup=10", "num_samples=20", "num_chains=2"]
    assert run_main([*given, f"out={tmp_path / 'whole'}"]) in (0, 3)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("inference.results.tree.save", stop)
        assert guarded(run_main, [*given, f"out={tmp_path / 'parts'}"]) == 130
    assert not (tmp_path / "parts" / "results.nc").exists()
    assert guarded(run_main, [f"resume={tmp_path / 'parts'}"]) in (0, 3)
    whole, parts = (load(tmp_path / name) for name in ("whole", "parts"))
    np.testing.assert_array_equal(parts["posterior"]["word_probs"], whole["posterior"]["word_probs"])
    assert parts.attrs["held_out_perplexity"] == whole.attrs["held_out_perplexity"]
    assert (tmp_path / "parts" / "report.html").is_file()
