"""Large vocabularies: rows of unequal length, with what was not seen pooled; the family and its support."""

import jax
import numpy as np
import pytest
from naive_markov import TEXTS, with_labels
from numpyro.distributions import biject_to
from scipy import stats
from scipy.special import gammaln
from two_stage import assert_standard_normal, of_means

from inference import fit
from models import MODELS, Model
from models.data.documents import documents
from models.emissions.markov import Alphabet, event_ids, observed_pairs
from models.families.ragged_dirichlet import RaggedDirichlet, RaggedSimplex, ragged_dirichlet
from models.markov_naive_bayes import ALL_PAIRS

SIZES = (3, 1, 4, 2)


@pytest.fixture
def ragged(monkeypatch) -> None:
    """Any vocabulary is a large one."""
    monkeypatch.setattr("models.markov_naive_bayes.ALL_PAIRS", 0)


@pytest.mark.slow
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


@pytest.mark.slow
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
    names = [str(name).split(" → ")[0] for name in model.naming.coords["transition"]]
    return np.flatnonzero([i == 0 or names[i] != names[i - 1] for i in range(len(names))])


def test_events_of_a_new_pair():
    """A pair that training did not see is "another token after it"; token by token."""
    seen = Alphabet(4, seen=(1, 2, 7, 8, 9, 10, 11))  # 0 → 1, 2; 1 → 3; 2 → all; 3 → nothing
    assert seen.sizes == (3, 2, 4, 1)
    x = documents([[0, 1, 3, 3, 2, 2, 0, 3, 1]], vocabulary=[0, 1, 2, 3]).x
    # first token 0; 0→1 its first entry; 1→3 (3), 3→another (9), 3→another (9), 2→2 (7), 2→0 (5), 0→another (2), 3→another
    assert list(event_ids(seen, x)) == [0, 4 + 0, 4 + 3, 4 + 9, 4 + 9, 4 + 7, 4 + 5, 4 + 2, 4 + 9]


# ---------------------------------------------------------------------------------------------------------------------
# The family and its support


def test_ragged_family_is_dirichlets_side_by_side():
    """log Z, its gradient, the mode and the moments of draws, row by row against SciPy's and NumPy's Dirichlet."""
    rng = np.random.default_rng(2)
    nu = rng.gamma(3.0, 1.0, sum(SIZES))
    family = ragged_dirichlet(SIZES)
    rows = np.split(nu, np.cumsum(SIZES)[:-1])
    expected = sum(gammaln(row + 1).sum() - gammaln((row + 1).sum()) for row in rows)

    @jax.jit
    def verbs(nu):
        return *jax.value_and_grad(family.log_partition)(nu), family.mean(nu), family.mode(nu)

    value, gradient, mean, mode = map(np.asarray, verbs(nu))
    assert float(value) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.exp(mode), np.concatenate([row / row.sum() for row in rows]), rtol=1e-12)
    means = np.concatenate([(row + 1) / (row + 1).sum() for row in rows])

    def deviations(seed, times):
        keys = jax.random.split(jax.random.PRNGKey(seed), 10_000 * times)
        return of_means(np.exp(jax.jit(jax.vmap(lambda key: family.sample(key, nu)))(keys)), means)

    assert_standard_normal(deviations)


def test_ragged_simplex_has_a_bijection():
    """Into the support and back; log |J| by autodiff of the free entries; SciPy's density."""
    transform = biject_to(RaggedSimplex(SIZES))
    x = np.random.default_rng(3).normal(size=sum(SIZES) - len(SIZES))
    free = transform._free()

    @jax.jit
    def there_and_back(x):
        y = transform(x)
        jacobian = jax.jacobian(lambda x: transform(x)[free])(x)
        return y, RaggedSimplex(SIZES)(y), transform.inv(y), jacobian, transform.log_abs_det_jacobian(x, y)

    y, inside, back, jacobian, log_volume = there_and_back(x)
    assert bool(inside)
    np.testing.assert_allclose(back, x, rtol=1e-10)
    assert float(log_volume) == pytest.approx(float(np.linalg.slogdet(jacobian)[1]), rel=1e-10)
    concentration = np.random.default_rng(4).gamma(3.0, 1.0, sum(SIZES))
    cuts = np.cumsum(SIZES)[:-1]
    pairs = zip(np.split(concentration, cuts), np.split(np.asarray(y), cuts), strict=True)
    expected = sum(stats.dirichlet(a).logpdf(p / p.sum()) for a, p in pairs if len(a) > 1)
    found = float(jax.jit(lambda a, y: RaggedDirichlet(a, SIZES).log_prob(y))(concentration, y))
    assert found == pytest.approx(expected, rel=1e-10)
    assert bool(jax.jit(lambda like: RaggedSimplex(SIZES)(RaggedSimplex(SIZES).feasible_like(like)))(np.zeros(sum(SIZES))))
