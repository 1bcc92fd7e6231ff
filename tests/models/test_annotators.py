"""Dawid and Skene's raters: rating-by-rating sums, the paper's own table, repeated and missing ratings, labelled items."""

import jax
import numpy as np
import pytest
from naive import distances_of_moments, draws_of
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import gammaln, logsumexp
from two_stage import assert_standard_normal

from inference import fit, log_likelihood, posterior_predictive, predict
from models import MODELS, Data, ZooError, load_data
from models.data.table import take

OCCASIONS = ["1", "1", "1", "2", "3", "4", "5"]  # observer 1 judged every patient three times
CLASSES = ("no", "yes")
TABLE = Data(
    "visits",
    np.array([[0, 0, 1], [1, 1, np.nan], [np.nan, np.nan, np.nan], [1, 0, 1], [0, np.nan, 0], [1, 1, 1.0]]),
    ("anna, first", "anna, second", "ben"),
    labels=np.array([-1, 1, -1, -1, 0, -1]),
    label="truth",
    levels=CLASSES,
    weight=np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
    categories=(CLASSES,) * 3,
    kinds=("category",) * 3,
)
RATERS = ["anna", "anna", "ben"]


ALIKE = TABLE._replace(x=np.zeros((6, 3)), categories=(CLASSES[:1],) * 3, labels=None, label=None, levels=())


def build(data=TABLE, raters=RATERS, **options):
    return MODELS["annotators"](data, raters=raters, **options)


def random_sites(num_raters=2, size=2, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "class_probs": rng.dirichlet(np.ones(size)),
        "confusion": rng.dirichlet(np.ones(size), (num_raters, size)),
    }


def naive_log_joint(data, rater_of, sites):
    """(N, C): log p(z = c) + Σ_d log confusion[rater of d, c, rating], rating by rating; −∞ where the label says otherwise."""
    size = len(sites["class_probs"])
    found = np.tile(np.log(sites["class_probs"]), (data.num_rows, 1))
    for n, row in enumerate(data.x):
        for c in range(size):
            for d, code in enumerate(row):
                if not np.isnan(code):
                    found[n, c] += np.log(sites["confusion"][rater_of[d], c, int(code)])
            if data.labels is not None and data.labels[n] not in (-1, c):
                found[n, c] = -np.inf
    return found


def test_program_algebra_and_the_sum_over_ratings_agree():
    """Marginal and complete density, with a rater of two columns, missing cells, labels, and a row of weight 0."""
    model, sites = build(), random_sites()
    joint = naive_log_joint(TABLE, [0, 0, 1], sites)
    right, wrong = (float(model.hyper[f"{name}_concentration"]) for name in ("right", "wrong"))
    prior = stats.dirichlet(model.hyper["concentration"]).logpdf(sites["class_probs"])
    for r in range(2):
        for c in range(2):
            concentration = np.where(np.arange(2) == c, right, wrong)
            prior += stats.dirichlet(concentration).logpdf(sites["confusion"][r, c])
    rows = model.rows(TABLE)

    def density(marginal, sites):
        @jax.jit  # NumPyro looks at weights that are numbers, and refuses 0
        def jitted(hyper, rows, sites):
            return log_density(model.spec, (hyper, rows), {"marginal": marginal}, sites)[0]

        with jax.enable_x64(True):
            return float(jitted(dict(model.hyper), rows, sites))

    assert density(True, sites) == pytest.approx(prior + (TABLE.weight * logsumexp(joint, axis=1)).sum(), rel=1e-12)
    z = joint.argmax(1)
    complete = prior + (TABLE.weight * joint[np.arange(6), z]).sum()
    assert density(False, sites | {"component": z}) == pytest.approx(complete, rel=1e-12)
    np.testing.assert_allclose(log_likelihood(model, sites, TABLE), logsumexp(joint, axis=1), rtol=1e-10, atol=1e-12)
    free = naive_log_joint(TABLE._replace(labels=None), [0, 0, 1], sites)  # what the ratings alone say
    probs = np.exp(free - logsumexp(free, axis=1, keepdims=True))
    np.testing.assert_allclose(predict(model, sites, TABLE)["probs"], probs, atol=1e-12)


def test_a_column_per_rater_is_naive_bayes():
    """Each column a rater: the likelihood is that of categorical naive Bayes with one list of levels."""
    complete = TABLE._replace(x=np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 1.0], [0, 1, 0]]), weight=None)
    sites = random_sites(3)
    bayes = MODELS["naive_bayes"](complete, emission="categorical")
    others = {f"probs_{column}": sites["confusion"][d] for d, column in enumerate(complete.columns)}
    wanted = log_likelihood(bayes, {"class_probs": sites["class_probs"]} | others, complete)
    np.testing.assert_allclose(log_likelihood(build(complete, None), sites, complete), wanted, rtol=1e-10)


def papers_em(counts, z, steps=5000):
    """Dawid and Skene's algorithm on counts (N, R, C), from their start z (N, C): (p, confusion, log-likelihood)."""
    for _ in range(steps):
        p = z.mean(0)
        confusion = np.einsum("nc,nrv->rcv", z, counts)
        confusion /= confusion.sum(-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(counts[:, :, None] > 0, counts[:, :, None] * np.log(confusion)[None], 0.0)
            joint = np.log(p) + terms.sum((1, 3))
        likelihood = logsumexp(joint, axis=1)
        z = np.exp(joint - likelihood[:, None])
    return p, confusion, likelihood.sum()


def test_the_papers_table_from_the_papers_start():
    """Maximum likelihood from shares of ratings, as published: classes of .40, .42, .11 and .07 (table 4), on the boundary."""
    data = load_data("anaesthetists")
    counts = np.zeros((45, 5, 4))
    for n, row in enumerate(data.x.astype(int)):
        for d, grade in enumerate(row):
            counts[n, int(OCCASIONS[d]) - 1, grade] += 1
    shares = counts.sum(1) / counts.sum((1, 2))[:, None]
    p, confusion, likelihood = papers_em(counts, shares)
    np.testing.assert_array_equal(p.round(2), [0.40, 0.42, 0.11, 0.07])
    model = build(data, OCCASIONS, prior="flat")
    first = papers_em(counts, shares, steps=1)
    start = {"class_probs": first[0], "confusion": np.maximum(first[1], 1e-300)}
    tree = fit(model, data, "em", start=start, tol=0, max_iter=3000)
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(likelihood, abs=1e-8)
    np.testing.assert_allclose(tree["point_estimate"]["class_probs"], p, atol=1e-6)
    np.testing.assert_allclose(tree["point_estimate"]["confusion"], confusion, atol=1e-6)


def test_starts_have_raters_better_than_chance():
    """So that classes keep their names: at the best optimum found from them, ratings are right more often than any other."""
    data = load_data("anaesthetists")
    tree = fit(build(data, OCCASIONS), data, "em", num_starts=4)
    confusion = tree["point_estimate"]["confusion"].values
    assert (confusion.mean(0).argmax(-1) == np.arange(4)).all()
    assert list(tree["point_estimate"]["confusion"].coords["rater"].values) == ["1", "2", "3", "4", "5"]
    assert list(tree["latent"]["class"].values) == ["1", "2", "3", "4"]


def test_an_item_that_nobody_rated_has_the_shares_of_the_classes():
    sites = random_sites()
    found = predict(build(), sites, take(TABLE, np.array([2])))["probs"].values
    np.testing.assert_allclose(found, sites["class_probs"][None], rtol=1e-10)


def test_raters_are_found():
    """On 2,000 items with all labels hidden: 45 probabilities of some 470 ratings each, whose sd is at most .023."""
    data = load_data("raters", num_rows=2000, seed=3)
    model = MODELS["annotators"](data._replace(labels=None, label=None, levels=()))
    found = fit(model, data._replace(labels=None, label=None, levels=()), "em", num_starts=3)["point_estimate"]
    rated = np.array([[(data.x[data.labels == c, r] == v).sum() for v in range(3)] for r in range(5) for c in range(3)])
    wanted = (rated / rated.sum(-1, keepdims=True)).reshape(5, 3, 3)
    # The classes are not known to the model, so its error is larger than that of counting them: by as much again, four times.
    assert np.abs(found["confusion"].values - wanted).max() < 4 * 0.023 * np.sqrt(2)


@pytest.mark.slow
def test_samplers_agree_with_the_exact_posterior():
    """Means of the functionals and their squares by gibbs and nuts, against draws over all assignments of four open items."""
    data = TABLE._replace(weight=None)

    def deviations(seed, times):
        exact, *others = (
            fit(build(data), data, method, num_warmup=300, num_samples=500 * times, num_chains=4, seed=seed)
            if method != "exact"
            else fit(build(data), data, method, num_samples=500 * times, num_chains=4, seed=seed)
            for method in ("exact", "gibbs", "nuts")
        )
        return np.concatenate(
            [
                distances_of_moments(draws_of(found, "functionals", name), draws_of(exact, "functionals", name))
                for name in ("log_joint", "log_likelihood", "class_probs")
                for found in others
            ]
        )

    assert_standard_normal(deviations, 1)


def test_a_flat_prior_has_no_names_for_its_classes():
    """Then the likelihood alone decides, which does not change when classes do."""
    data = load_data("anaesthetists")
    assert build(data, OCCASIONS, prior="flat").symmetry is not None
    assert build(data, OCCASIONS).symmetry is None
    sites = random_sites(5, 4)
    turned = {"class_probs": sites["class_probs"][::-1], "confusion": sites["confusion"][:, ::-1]}
    flat = build(data, OCCASIONS, prior="flat")
    np.testing.assert_allclose(log_likelihood(flat, sites, data), log_likelihood(flat, turned, data), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"raters": ["a", "b"]}, "expected the rater of each of the 3 columns"),
        ({"raters": {"a": 1, "b": 2, "c": 2}}, "expected the rater of each of the 3 columns"),
        ({"raters": 1}, "expected the rater of each of the 3 columns"),
        ({"raters": ["a", None, "b"]}, "expected the rater of each of the 3 columns"),
        ({"prior": {"class": {"right_concentration": 1}}}, "must be above wrong_concentration"),
        ({"raters": "abc"}, "expected the rater of each of the 3 columns"),
        ({"prior": {"class": {"right_concentration": -1}}}, "right_concentration must be above 0"),
        ({"prior": {"class": {"concentration": 1}}}, "right_concentration, wrong_concentration"),
        ({"data": ALIKE}, "only one rating"),
    ],
)
def test_wrong_input_is_named(options, message):
    with pytest.raises(ZooError, match=message):
        build(**options)


def test_new_rows_are_read_by_the_names_of_ratings():
    """Whatever the order of a table's own levels; a rating that the model does not know is named."""
    model, sites = build(), random_sites()
    other = Data("new", np.array([[1.0, 0, 1]]), TABLE.columns, categories=(("yes", "no"),) * 3, kinds=TABLE.kinds)
    same = take(TABLE._replace(labels=None, label=None, levels=()), np.array([0]))._replace(x=np.array([[0, 1.0, 0]]))
    np.testing.assert_allclose(log_likelihood(model, sites, other), log_likelihood(model, sites, same), rtol=1e-12)
    with pytest.raises(ZooError, match="'perhaps' is a level unknown to the model"):
        log_likelihood(model, sites, other._replace(categories=(("perhaps", "no"),) * 3))


def test_several_ratings_by_one_rater_are_dependent_in_the_predictive():
    """With parameters integrated out: Dirichlet-multinomial counts per rater, rating by rating (labels of all rows given)."""
    data = TABLE._replace(labels=np.array([0, 1, 0, 1, 0, 1]), weight=None)
    model = build(data)
    found = posterior_predictive(model, data, data)["log_density"].values
    a = {"p": np.full(2, 2.0), "c": np.tile(np.where(np.eye(2), 3.1, 1.1), (2, 1, 1))}
    for n, row in enumerate(data.x):
        a["p"][data.labels[n]] += 1
        for d, code in enumerate(row):
            if not np.isnan(code):
                a["c"][[0, 0, 1][d], data.labels[n], int(code)] += 1
    for n, row in enumerate(data.x):
        terms = np.log(a["p"] / a["p"].sum())
        counts = np.zeros((2, 2))
        for d, code in enumerate(row):
            if not np.isnan(code):
                counts[[0, 0, 1][d], int(code)] += 1
        for c in range(2):
            for r in range(2):
                mass = stats.dirichlet_multinomial(a["c"][r, c], int(counts[r].sum())).logpmf(counts[r].astype(int))
                orders = gammaln(counts[r].sum() + 1) - gammaln(counts[r] + 1).sum()
                terms[c] += mass - orders
        assert found[n] == pytest.approx(logsumexp(terms), abs=1e-10)


def test_the_prior_is_in_double_precision_wherever_it_is_made():
    with jax.enable_x64(False):
        prior = build().prior["class"]
    assert prior.dtype == np.float64
    assert set(np.unique(prior)) == {1.1 - 1, 3.1 - 1}


def test_a_column_of_numbers_is_no_rater():
    """An identifier that came along with a table: named, with the way to leave it out."""
    data = TABLE._replace(x=np.column_stack([np.arange(6.0), TABLE.x]), columns=("item", *TABLE.columns))
    data = data._replace(categories=((), *TABLE.categories), kinds=("number", *TABLE.kinds))
    with pytest.raises(ZooError, match="column 'item' shares no rating with another"):
        build(data, None)
