"""Markov naive Bayes: chains of tokens a class, against token-by-token sums; ragged rows; sequences of length 0 and 1."""

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import SHORT, is_finite
from numpyro.distributions import biject_to
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import gammaln, logsumexp

from inference import METHODS, discriminant, fit, log_likelihood, predict
from models import MODELS, Data, Model, ZooError, load_data
from models.data import allowed_labels
from models.documents import documents
from models.markov_naive_bayes import ALL_PAIRS
from models.ragged import RaggedDirichlet, RaggedSimplex, ragged_dirichlet
from models.transitions import Alphabet, concentrations, event_ids, markov, observed_pairs

TEXTS = ["abba", "ab", "bbab", "cacc", "c", "", "acca", "abab", "ccca", "ba", "cc", "abc"]
LABELS = ["x", "x", "x", "y", "y", None, "y", "x", "y", "x|y", "y", None]
SIZES = (3, 1, 4, 2)
FORMS = ("pairs", "seen", "positions")
every_form = pytest.mark.parametrize("form", FORMS)


def with_labels(data: Data, labels: list[str | None]) -> Data:
    return load_data(data, labels=labels)


@cache
def table(form: str) -> Data:
    if form == "positions":
        x = np.random.default_rng(0).integers(0, 2, (len(LABELS), 5))
        return load_data(x, labels=LABELS)
    return with_labels(documents([list(text) for text in TEXTS]), LABELS)


@pytest.fixture
def ragged(monkeypatch) -> None:
    """Any vocabulary is a large one."""
    monkeypatch.setattr("models.markov_naive_bayes.ALL_PAIRS", 0)


def build(form: str, **options) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        if form == "seen":
            patch.setattr("models.markov_naive_bayes.ALL_PAIRS", 0)
        return MODELS["markov_naive_bayes"](table(form), homogeneous=form != "positions", **options)


def random_sites(model: Model, form: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = 2 if form == "positions" else 3
    sites = {"class_probs": rng.dirichlet([3.0, 3.0]), "initial_probs": rng.dirichlet(np.full(size, 2.0), 2)}
    if form == "seen":
        sizes = alphabet("seen").sizes
        rows = [np.concatenate([rng.dirichlet(np.full(n, 2.0)) for n in sizes]) for _ in range(2)]
        return sites | {"transition_probs": np.array(rows)}
    return sites | {"transition_probs": rng.dirichlet(np.full(size, 2.0), (2, 3) if form == "pairs" else (2, 4, 2))}


def alphabet(form: str) -> Alphabet:
    if form == "positions":
        return Alphabet(2, positions=5)
    return Alphabet(3, seen=observed_pairs(table(form).x, 3)) if form == "seen" else Alphabet(3)


def rows_of(form: str) -> list[list[int]]:
    data = table(form)
    if form == "positions":
        return [[int(v) for v in row] for row in data.x]
    return [list(data.x[[n]].tokens) for n in range(data.num_rows)]


def naive(form: str, sites: dict[str, np.ndarray], row: list[int], c: int) -> float:
    """log p(row | class c), token by token."""
    total = 0.0
    for i, token in enumerate(row):
        if i == 0:
            total += np.log(sites["initial_probs"][c, token])
        elif form == "pairs":
            total += np.log(sites["transition_probs"][c, row[i - 1], token])
        elif form == "positions":
            total += np.log(sites["transition_probs"][c, i - 1, row[i - 1], token])
        else:
            seen = alphabet("seen")
            successors = [pair % 3 for pair in seen.seen if pair // 3 == row[i - 1]]
            start = sum(seen.sizes[: row[i - 1]])
            place = successors.index(token) if token in successors else len(successors)
            total += np.log(sites["transition_probs"][c, start + place])
    return total


def naive_prior(form: str, model: Model, sites: dict[str, np.ndarray]) -> float:
    hyper = model.hyper
    total = stats.dirichlet(hyper["concentration"]).logpdf(sites["class_probs"])
    total += sum(
        stats.dirichlet(np.full(len(p), float(hyper["initial_concentration"]))).logpdf(p) for p in sites["initial_probs"]
    )
    each = float(hyper["transition_concentration"])
    if form != "seen":
        rows = sites["transition_probs"].reshape(-1, sites["transition_probs"].shape[-1])
        return total + sum(stats.dirichlet(np.full(len(p), each)).logpdf(p) for p in rows)
    seen = alphabet("seen")
    for vector in sites["transition_probs"]:
        for token, (number, row) in enumerate(zip(seen.successors, np.split(vector, np.cumsum(seen.sizes)[:-1]), strict=True)):
            concentration = np.full(len(row), each)
            concentration[number:] = hyper["unseen_concentration"][token]
            total += stats.dirichlet(concentration).logpdf(row) if len(row) > 1 else 0.0
    return total


@every_form
def test_program_equals_algebra_equals_the_sum_over_tokens(form):
    """Marginal and complete program, log-likelihoods, sites there and back; with empty, one-token and half-labelled rows."""
    model, data = build(form), table(form)
    sites = random_sites(model, form)
    allowed = allowed_labels(data)
    density = np.array([[naive(form, sites, row, c) for c in range(2)] for row in rows_of(form)])
    local = np.where(allowed, density + np.log(sites["class_probs"]), -np.inf)
    np.testing.assert_allclose(log_likelihood(model, sites, data), logsumexp(local, axis=1), rtol=1e-10, atol=1e-12)
    rows, hyper = model.rows(data), dict(model.hyper)
    z = allowed.argmax(1)

    @jax.jit
    def both(sites):
        T = model.algebra.natural(hyper, sites)
        marginal = log_density(model.spec, (hyper, rows), {"marginal": True}, sites)[0]
        complete = log_density(model.spec, (hyper, rows), {"marginal": False}, sites | {"component": z})[0]
        algebra = model.algebra.local(T)(model.algebra.features(hyper, rows))
        return marginal, complete, models_log_prior(model, T), algebra, model.algebra.sites(hyper, T)

    marginal, complete, prior, found, back = both(sites)
    expected = naive_prior(form, model, sites)
    assert float(prior) == pytest.approx(expected, rel=1e-10)
    assert float(marginal) == pytest.approx(expected + logsumexp(local, axis=1).sum(), rel=1e-10)
    assert float(complete) == pytest.approx(expected + local[np.arange(len(z)), z].sum(), rel=1e-10)
    np.testing.assert_allclose(found, local, rtol=1e-10, atol=1e-12)
    for name, value in sites.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-12)


def models_log_prior(model: Model, T):
    from models.base import log_prior

    return log_prior(model.algebra, dict(model.prior), T)


@every_form
@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs(form, method):
    tree = fit(build(form), table(form), method=method, seed=1, **SHORT[method])
    assert is_finite(tree)
    if method == "map":
        em = fit(build(form), table(form), method="em", seed=1, **SHORT["em"])["functionals"]["log_joint"]
        assert float(tree["functionals"]["log_joint"]) == pytest.approx(float(em), rel=1e-6)


def test_maximum_likelihood_counts_transitions():
    """Shares of first tokens and of successors, class by class; rows never left stay undefined and are reported."""
    data = with_labels(documents([list(text) for text in ["abba", "ab", "cacc", "cab"]]), ["x", "x", "y", "y"])
    model = MODELS["markov_naive_bayes"](data, prior="laplace")
    found = fit(model, data, method="em")["point_estimate"]
    transitions = np.zeros((2, 3, 3))
    for text, c in zip(["abba", "ab", "cacc", "cab"], [0, 0, 1, 1], strict=True):
        for before, after in pairwise(text):
            transitions[c, "abc".index(before), "abc".index(after)] += 1
    smoothed = transitions + 1
    np.testing.assert_allclose(found["transition_probs"], smoothed / smoothed.sum(-1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(found["initial_probs"], [[3 / 5, 1 / 5, 1 / 5], [1 / 5, 1 / 5, 3 / 5]], rtol=1e-12)
    with pytest.raises(ZooError, match="no interior mode"):
        fit(MODELS["markov_naive_bayes"](data, prior="flat"), data, method="em")


def test_equal_rows_are_the_bag_of_words():
    """Transitions that forget the token before: the same class probabilities as multinomial naive Bayes (errata E4)."""
    data = table("pairs")
    model, bag = build("pairs"), MODELS["naive_bayes"](data, emission="multinomial")
    words = np.random.default_rng(1).dirichlet([2.0, 2.0, 2.0], 2)
    probs = np.array([0.4, 0.6])
    chain = {"class_probs": probs, "initial_probs": words, "transition_probs": np.repeat(words[:, None], 3, axis=1)}
    left = predict(model, chain, data)["probs"]
    np.testing.assert_allclose(left, predict(bag, {"class_probs": probs, "word_probs": words}, data)["probs"], rtol=1e-10)


@every_form
def test_discriminant_is_the_log_odds(form):
    """Linear in counts of events, or for binary columns in (1, x_i, x_i x_{i−1}): to 1e-10 (errata E4)."""
    model, data = build(form), table(form)
    sites = random_sites(model, form)
    found = discriminant(model, sites)
    odds = found["bias"].values[None]
    for name, value in model.discriminant.features(model.rows(data)).items():
        weight = found[f"weight_{name}"].values
        odds = odds + np.asarray(value).reshape(len(value), -1) @ weight.reshape(len(weight), -1).T
    logs = np.log(predict(model, sites, data)["probs"].values)
    np.testing.assert_allclose(odds, logs - logs[:, :1], atol=1e-10)
    if form == "positions":
        assert set(found.data_vars) == {"bias", "weight_x", "weight_xx"}


# ---------------------------------------------------------------------------------------------------------------------
# Large vocabularies


def test_pooling_what_was_not_seen_changes_no_evidence(ragged):
    """A pooled concentration for all that was not seen: the closed-form evidence of the chain over all pairs.

    And with the default the same modes: (1.1 − 1) for each token not seen.
    """
    labels = ["x", "y"] * 6
    data = with_labels(documents([list(text) for text in TEXTS]), labels)
    each, seen = 0.7, observed_pairs(data.x, 3)
    unseen = each * np.maximum(3 - Alphabet(3, seen=seen).successors, 1)
    numbers = {"initial_concentration": each, "transition_concentration": each}
    model = MODELS["markov_naive_bayes"](data, prior={"class": numbers | {"unseen_concentration": unseen}})
    evidence = fit(model, data, method="exact", num_samples=5).attrs["log_evidence"]
    count, first = np.zeros((2, 3, 3)), np.zeros((2, 3))
    for text, label in zip(TEXTS, labels, strict=True):
        c = "xy".index(label)
        for i, token in enumerate(text):
            if i == 0:
                first[c, "abc".index(token)] += 1
            else:
                count[c, "abc".index(text[i - 1]), "abc".index(token)] += 1
    expected = sum(dirichlet_multinomial(np.full(3, each), row) for row in [*first, *count.reshape(-1, 3)])
    expected += dirichlet_multinomial(np.full(2, 2.0), np.array([6, 6]))
    assert evidence == pytest.approx(expected, rel=1e-11)

    assert model.hyper["unseen_concentration"].shape == (3,)
    default = fit(MODELS["markov_naive_bayes"](data), data, method="em")["point_estimate"]["transition_probs"].values
    dense = (count + 0.1) / (count + 0.1).sum(-1, keepdims=True)
    for pair, place in zip(seen, ragged_places(seen), strict=True):
        np.testing.assert_allclose(default[:, place], dense[:, pair // 3, pair % 3], rtol=1e-12)


def ragged_places(seen: tuple[int, ...]) -> list[int]:
    sizes = Alphabet(3, seen=seen).sizes
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return [int(starts[pair // 3] + [p for p in seen if p // 3 == pair // 3].index(pair)) for pair in seen]


def dirichlet_multinomial(concentration: np.ndarray, count: np.ndarray) -> float:
    total = gammaln(concentration.sum()) - gammaln((concentration + count).sum())
    return float(total + (gammaln(concentration + count) - gammaln(concentration)).sum())


def test_ten_thousand_words():
    """A vocabulary whose square is 10⁸: arrays grow with the pairs seen, not with the square."""
    rng = np.random.default_rng(0)
    rows = [[f"w{w}" for w in rng.zipf(1.3, 30) % 10_000] + [f"w{9_999 - n}"] for n in range(200)]
    data = with_labels(documents([*rows, [f"w{n}" for n in range(10_000)]]), ["x", "y"] * 100 + [None])
    assert len(data.columns) == 10_000 > ALL_PAIRS
    model = MODELS["markov_naive_bayes"](data)
    tree = fit(model, data, method="em", num_starts=1, max_iter=3, tol=0)
    events = tree["point_estimate"]["transition_probs"].sizes["transition"]
    assert events < 10_000 + 2 * 16_200
    assert "(another)" in str(tree["point_estimate"]["transition"].values[1])
    rows = np.add.reduceat(tree["point_estimate"]["transition_probs"].values, starts_of(model), axis=1)
    np.testing.assert_allclose(rows, 1, rtol=1e-9)


def starts_of(model: Model) -> np.ndarray:
    names = [str(name).split(" → ")[0] for name in model.coords["transition"]]
    return np.flatnonzero([i == 0 or names[i] != names[i - 1] for i in range(len(names))])


def test_ragged_family_is_dirichlets_side_by_side():
    """log Z, its gradient, the mode and the moments of draws, row by row against SciPy's and NumPy's Dirichlet."""
    rng = np.random.default_rng(2)
    nu = jnp.asarray(rng.gamma(3.0, 1.0, sum(SIZES)))
    family = ragged_dirichlet(SIZES)
    rows = np.split(np.asarray(nu), np.cumsum(SIZES)[:-1])
    expected = sum(gammaln(row + 1).sum() - gammaln((row + 1).sum()) for row in rows)
    assert float(family.log_partition(nu)) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(jax.grad(family.log_partition)(nu), family.mean(nu), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.exp(family.mode(nu)), np.concatenate([row / row.sum() for row in rows]), rtol=1e-12)
    draws = np.exp(jax.vmap(lambda key: family.sample(key, nu))(jax.random.split(jax.random.PRNGKey(0), 20_000)))
    means = np.concatenate([(row + 1) / (row + 1).sum() for row in rows])
    errors = draws.std(0) / np.sqrt(20_000) + 1e-12
    assert (np.abs(draws.mean(0) - means) < 5 * errors).all()  # 10 means at 6e-7 each


def test_ragged_simplex_has_a_bijection():
    """Into the support and back; log |J| by autodiff of the free entries; SciPy's density."""
    transform = biject_to(RaggedSimplex(SIZES))
    x = np.random.default_rng(3).normal(size=sum(SIZES) - len(SIZES))
    y = transform(x)
    assert bool(RaggedSimplex(SIZES)(y))
    np.testing.assert_allclose(transform.inv(y), x, rtol=1e-10)
    free = transform._free()
    jacobian = jax.jacobian(lambda x: transform(x)[free])(x)
    assert float(transform.log_abs_det_jacobian(x, y)) == pytest.approx(float(np.linalg.slogdet(jacobian)[1]), rel=1e-10)
    concentration = np.random.default_rng(4).gamma(3.0, 1.0, sum(SIZES))
    cuts = np.cumsum(SIZES)[:-1]
    pairs = zip(np.split(concentration, cuts), np.split(np.asarray(y), cuts), strict=True)
    expected = sum(stats.dirichlet(a).logpdf(p / p.sum()) for a, p in pairs if len(a) > 1)
    found = float(RaggedDirichlet(jnp.asarray(concentration), SIZES).log_prob(y))
    assert found == pytest.approx(expected, rel=1e-10)
    assert bool(RaggedSimplex(SIZES)(RaggedSimplex(SIZES).feasible_like(jnp.zeros(sum(SIZES)))))


# ---------------------------------------------------------------------------------------------------------------------
# New documents, and mistakes


@pytest.mark.parametrize("form", ["pairs", "seen"])
def test_unknown_tokens_say_nothing(form):
    """A transition from or to a token outside the vocabulary is no event; an empty document has the classes' own odds."""
    model = build(form)
    sites = random_sites(model, form)
    new = documents([list("ab"), list("ab?"), list("ab?a"), list("?"), [], list("?ab"), list("c?ab")])
    probs = predict(model, sites, new)["probs"].values
    np.testing.assert_allclose(probs[1:3], np.tile(probs[0], (2, 1)), rtol=1e-12)
    np.testing.assert_allclose(probs[3:5], np.tile(sites["class_probs"], (2, 1)), rtol=1e-12)
    # Behind an unknown token comes no first token: "?ab" is the transition a → b alone, "c?ab" has c as its first.
    transition = sites["transition_probs"][:, 0, 1] if form == "pairs" else sites["transition_probs"][:, place_of_ab()]
    weights = sites["class_probs"] * transition
    np.testing.assert_allclose(probs[5], weights / weights.sum(), rtol=1e-12)
    weights = weights * sites["initial_probs"][:, 2]
    np.testing.assert_allclose(probs[6], weights / weights.sum(), rtol=1e-12)


def place_of_ab() -> int:
    return [pair % 3 for pair in alphabet("seen").seen if pair // 3 == 0].index(1)


def test_events_of_a_new_pair():
    """A pair that training did not see is "another token after it"; token by token."""
    seen = Alphabet(4, seen=(1, 2, 7, 8, 9, 10, 11))  # 0 → 1, 2; 1 → 3; 2 → all; 3 → nothing
    assert seen.sizes == (3, 2, 4, 1)
    x = documents([[0, 1, 3, 3, 2, 2, 0, 3, 1]], vocabulary=[0, 1, 2, 3]).x
    # first token 0; 0→1 its first entry; 1→3 (3), 3→another (9), 3→another (9), 2→2 (7), 2→0 (5), 0→another (2), 3→another
    assert list(event_ids(seen, x)) == [0, 4 + 0, 4 + 3, 4 + 9, 4 + 9, 4 + 7, 4 + 5, 4 + 2, 4 + 9]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MODELS["markov_naive_bayes"](load_data("iris")), "is a table: give documents"),
        (lambda: MODELS["markov_naive_bayes"](load_data("iris"), homogeneous=False), "takes 0 and 1"),
        (lambda: MODELS["markov_naive_bayes"](table("pairs"), homogeneous=False), "holds documents"),
        (lambda: MODELS["markov_naive_bayes"](load_data([[1.0], [0.0]], labels=["a", "b"]), homogeneous=False), "one column"),
        (lambda: MODELS["markov_naive_bayes"](table("pairs"), homogeneous="yes"), "must be true or false"),
        (lambda: build("pairs", prior={"class": {"unseen_concentration": 2}}), "the names in this block are"),
        (lambda: MODELS["markov_naive_bayes"](with_labels(documents([["a"], ["b"]]), ["x", "x"])), "one class only"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ZooError, match=words):
        make()


def test_one_block_for_equal_alphabets():
    """So that jitted code recognises it."""
    assert markov(Alphabet(3)) is markov(Alphabet(3))
    assert concentrations(Alphabet(3), 1.1).keys() == {"initial_concentration", "transition_concentration"}


def test_the_unit_of_new_texts_is_the_models():
    """Texts read as words mean nothing to a model of characters, and the other way round: said, not guessed."""
    lines, kinds = ["def f(x): return x", "the quick brown fox jumps"] * 4, ["code", "prose"] * 4
    for unit, other in (("character", "word"), ("word", "character")):
        data = load_data(lines, unit=unit, labels=kinds)
        model = MODELS["markov_naive_bayes"](data)
        tree = fit(model, data, method="em")
        with pytest.raises(ZooError, match=f"read it with unit={unit}"):
            predict(model, tree, load_data(lines, unit=other))
    assert predict(model, tree, load_data(["I"]))["probs"].shape == (1, 2)
