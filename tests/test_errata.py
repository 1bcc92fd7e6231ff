"""The slips of the documents (`docs/errata.md`): judges reject what is printed, and accept the right formula and the zoo.

The zoo's own code is compared here where no other test of the default tier does it; docs/errata.md names those. In each place
the slip is then planted, and the same comparison must reject it.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import errata_gaussians as gaussians
import errata_words as words
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from errata import ERRATA, MARGIN, Erratum, erratum
from errata_columns import expected_transformed
from numpyro.infer.util import log_density
from scipy.special import expit

from inference import discriminant, log_likelihood, predict
from models import MODELS, Data, load_data
from models.algebra import add
from models.topics.left_to_right import left_to_right
from models.topics.sampling.chains import start_chain, swept, topic_prior
from models.topics.sampling.corpus import corpus_of_documents

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "errata.md"
every_erratum = pytest.mark.parametrize("found", ERRATA, ids=lambda found: f"E{found.number}")


# ---------------------------------------------------------------------------------------------------------------------
# Formulas


def test_all_errata_are_here():
    assert [found.number for found in ERRATA] == list(range(1, 22))


@every_erratum
def test_the_right_formula_is_the_judges(found):
    assert found.right_error < found.tolerance


@every_erratum
def test_the_printed_formula_is_rejected(found):
    """By more than one per cent, which is a thousand times what the right one may be off, or ten where data have a decimal."""
    assert found.printed_error > MARGIN
    assert found.printed_error > 10 * found.tolerance


@every_erratum
def test_the_page_has_these_figures(found):
    """One row of the table: number, document, what the judge, the right and the printed formula give."""
    row = f"| [E{found.number}](#e{found.number}) | {found.document} | " + " | ".join(found.figures()) + " |"
    assert row in PAGE.read_text(encoding="utf-8"), row


def test_the_page_names_what_is_there():
    """Every erratum has a section, and every file and test that the page names exists."""
    page = PAGE.read_text(encoding="utf-8")
    assert [int(number) for number in re.findall(r"^### E(\d+)$", page, re.MULTILINE)] == [found.number for found in ERRATA]
    files = re.findall(r"`((?:models|inference|tests)/[\w/]+\.py)", page)
    assert len(files) > 20
    assert not [file for file in files if not (ROOT / file).is_file()]
    named = re.findall(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`", page)
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / (file or "tests/test_errata.py")).read_text(encoding="utf-8"), name


# ---------------------------------------------------------------------------------------------------------------------
# The zoo


def agrees(number: int, value: Any, tolerance: float | None = None) -> bool:
    """Whether what the zoo computes is the judge's, in units of the judge's largest number."""
    slip = erratum(number)
    return slip.off(lambda **_: value) < (slip.tolerance if tolerance is None else tolerance)


def rejected(number: int, value: Any) -> bool:
    return erratum(number).off(lambda **_: value) > MARGIN


def labelled(x: Any, y: Any) -> Data:
    return load_data(np.asarray(x, float), labels=[str(label) for label in y])


def mode_of(model: Any, data: Data) -> dict[str, np.ndarray]:
    """The M-step of the zoo where every label is given: prior + statistics, and the mode of every family."""

    @jax.jit
    def step(rows: Any, z: Any) -> Any:
        nu = add(dict(model.prior), model.algebra.statistics(jnp.ones(len(z)), z, model.algebra.features(model.hyper, rows)))
        families = dict(model.algebra.families)
        return model.algebra.sites(model.hyper, {name: family.mode(nu[name]) for name, family in families.items()})

    one_hot = np.eye(len(data.levels))[np.asarray(data.labels)]
    return {name: np.asarray(value) for name, value in step(model.rows(data), one_hot).items()}


def rows_with(ones: np.ndarray, size: np.ndarray) -> Data:
    """A table of binary rows with so many ones in every column of every class."""
    x = np.concatenate([np.arange(size[c])[:, None] < ones[c] for c in (0, 1)])
    return labelled(x, np.repeat([0, 1], size))


def log_odds_of(prior: Any) -> np.ndarray:
    """E2 by the zoo: its M-step, its discriminant, on all rows."""
    case = erratum(2).case()
    data = rows_with(case["ones"], case["size"])
    model = MODELS["naive_bayes"](data, prior=prior)
    found = discriminant(model, mode_of(model, data)).sel({"class": "1"})
    with np.errstate(invalid="ignore"):
        return float(found["bias"]) + words.all_rows(3) @ found["weight_x"].values


def test_binary_words_are_smoothed_on_both_sides():
    """E1 and E2: Beta(α, α). The document's Beta(α, 1), which the zoo has as a prior to look at, gives no finite log-odds."""
    alpha = erratum(2).case()["alpha"]
    shares = {"class_probs": {"concentration": 1.0}}
    assert agrees(2, log_odds_of(shares | {"class": {"a": alpha, "b": alpha}}))
    assert rejected(2, log_odds_of(f"one_sided({alpha})"))


@pytest.mark.parametrize("number", [3, 16])
def test_classes_given_words_are_bayes_rule(number):
    """E3 and E16: the classes count once, words that are absent count too. Planted: shares to the power of the columns."""
    sites = erratum(number).case()
    x = words.all_rows(3)
    model = MODELS["naive_bayes"](labelled(x, np.arange(8) % len(sites["class_probs"])))
    assert agrees(number, predict(model, sites, x)["probs"].values)
    planted = sites["class_probs"] ** 3
    assert rejected(number, predict(model, sites | {"class_probs": planted / planted.sum()}, x)["probs"].values)


def test_chains_of_words_have_weights_for_pairs():
    """E4: the zoo's discriminant of binary columns in order. Planted: the same without its weights for pairs."""
    case = erratum(4).case()
    x, steps = words.all_rows(4), case["step"]
    model = MODELS["markov_naive_bayes"](labelled(x, np.arange(16) % 2), homogeneous=False)
    start = np.stack([1 - case["start"], case["start"]], axis=1)
    sites = {"class_probs": np.array([0.5, 0.5]), "initial_probs": start, "transition_probs": np.stack([1 - steps, steps], -1)}
    found = discriminant(model, sites).sel({"class": "1"})
    alone = float(found["bias"]) + x @ found["weight_x"].values
    assert agrees(4, alone + (x[:, 1:] * x[:, :-1]) @ found["weight_xx"].values)
    assert rejected(4, alone)


def discriminant_sites(case: Any) -> dict[str, Any]:
    probs = np.array([1 - case["phi"], case["phi"]])
    return {"class_probs": probs, "mean": case["means"], "precision": np.linalg.inv(case["covariance"])}


def program_and_gradient() -> tuple[float, np.ndarray]:
    """log p(x, y) of the NumPyro program at the case of E6 and E14, and its gradient in the covariance."""
    case = erratum(14).case()
    data = labelled(case["x"], case["y"])
    model = MODELS["linear_discriminant"](data, prior="flat")
    rows = jax.tree.map(jnp.asarray, model.rows(data))

    def program(covariance: Any) -> Any:
        sites = discriminant_sites(case) | {"precision": jnp.linalg.inv(covariance)}
        return log_density(model.spec, (dict(model.hyper), rows), {"marginal": True}, sites)[0]

    value, found = jax.jit(jax.value_and_grad(program))(jnp.asarray(case["covariance"]))
    return float(value), np.asarray(found)


def test_the_program_has_the_gradient_of_the_covariance():
    """E6 and E14 by automatic differentiation of the program that MAP, Laplace and NUTS run on."""
    value, found = program_and_gradient()
    assert agrees(14, value)
    assert agrees(6, found)


def test_a_wrong_sign_in_the_program_is_rejected(monkeypatch):
    """E14 planted where the program takes its density: + (x − μ)ᵀ Σ⁻¹ (x − μ) for −½ of it."""
    right = dist.MultivariateNormal.log_prob

    def printed(self: Any, value: Any) -> Any:
        away = value - self.loc
        return right(self, value) + 1.5 * jnp.einsum("...i,...ij,...j->...", away, self.precision_matrix, away)

    monkeypatch.setattr(dist.MultivariateNormal, "log_prob", printed)
    value, found = program_and_gradient()
    assert value == pytest.approx(gaussians.printed_likelihood(**erratum(14).case()), rel=1e-12)
    assert rejected(14, value)
    assert rejected(6, found)


def test_log_odds_of_gaussians_have_an_intercept():
    """E15, by the zoo's discriminant; without its bias it is the printed one."""
    case = erratum(15).case()
    model = MODELS["linear_discriminant"](labelled(case["x"], case["y"]), prior="flat")
    found = discriminant(model, discriminant_sites(case)).sel({"class": "1"})
    slope = case["x"] @ found["weight_x"].values
    assert agrees(15, expit(float(found["bias"]) + slope))
    assert rejected(15, expit(slope))
    assert expit(slope) == pytest.approx(gaussians.printed_logistic(**case), rel=1e-12)


def test_log_odds_of_counts_have_an_intercept():
    """E15 of Poisson classes: log φ / (1 − φ) − (λ₁ − λ₀) + x log λ₁ / λ₀, against Bayes' rule."""
    rate, probs, x = np.array([[2.0], [5.0]]), np.array([0.6, 0.4]), np.arange(8.0)[:, None]
    model = MODELS["poisson_naive_bayes"](labelled(x, np.arange(8) % 2))
    found = predict(model, {"class_probs": probs, "rate": rate}, x)["probs"].values[:, 1]
    right = np.log(probs[1] / probs[0]) - (rate[1] - rate[0]) + x[:, 0] * np.log(rate[1] / rate[0])
    np.testing.assert_allclose(found, expit(right), rtol=1e-12)
    assert abs(found - expit(x[:, 0] * np.log(rate[1] / rate[0]))).max() > MARGIN


def test_units_move_the_likelihood_of_factors_by_their_jacobian_alone():
    """E7: the zoo's likelihood is immune to scalings but for the Jacobian; with loadings ~ N(0, 1) the log joint is not."""
    case = erratum(7).case()
    x, loading, noise, scale = (case[name] for name in ("x", "loading", "noise", "scale"))
    total = []
    for unit in (np.ones(3), scale):
        model = MODELS["factor_analysis"](load_data(x * unit), num_factors=1, prior="flat")
        sites = {"loading": loading * unit[:, None], "mean": np.zeros(3), "precision": 1 / (noise * unit**2)}
        total.append(log_likelihood(model, sites, x * unit).sum())
    change = total[1] - total[0]
    assert change == pytest.approx(gaussians.no_change(**case), rel=1e-12)
    of_prior = 0.5 * (loading**2).sum() - 0.5 * ((loading * scale[:, None]) ** 2).sum()
    assert agrees(7, change + of_prior)
    assert rejected(7, change)


def test_reconstructions_of_ppca_are_shrunk():
    """E8: at the closed form of maximum likelihood, `predict` gives W M⁻¹ Wᵀ x. Planted: noise of next to nothing, PCA."""
    x = erratum(8).case()["x"]
    values, vectors = gaussians.eigen(x)
    noise = values[1:].mean()
    sites = {"loading": vectors[:, :1] * np.sqrt(values[0] - noise), "mean": x.mean(0), "precision": np.array(1 / noise)}
    model = MODELS["ppca"](load_data(x), num_factors=1, prior="flat")
    assert agrees(8, predict(model, sites, x)["reconstruction"].values - x.mean(0))
    planted = predict(model, sites | {"precision": np.array(1e12)}, x)["reconstruction"].values - x.mean(0)
    assert rejected(8, planted)
    np.testing.assert_allclose(planted, gaussians.principal_components(x), atol=1e-9)


def test_words_of_a_document_are_integrated_over_proportions():
    """E12, by the estimator from left to right: its mean of 400 × 50 particles is right to six of its standard errors.

    Planted: the topics of the document's own index for all topics, which is what the printed integral comes to.
    """
    case = erratum(12).case()

    def estimate(beta: np.ndarray) -> tuple[float, float]:
        corpus = corpus_of_documents([case["words"]] * 400, beta.shape[1])
        found = np.exp(left_to_right(corpus, beta, case["alpha"], particles=50))
        return float(found.mean()), float(found.std() / 20)

    mean, error = estimate(case["beta"])
    truth, printed = (np.exp(formula(**case)) for formula in (words.integrated, words.printed_integral))
    assert 0 < error < MARGIN * truth
    assert abs(mean - truth) < 6 * error
    planted, _ = estimate(case["beta"][[0, 0]])
    assert planted == pytest.approx(printed, rel=1e-12)
    assert abs(planted - truth) > 6 * error
    assert rejected(12, np.log(planted))


def test_topics_of_tokens_are_drawn_given_the_words():
    """E13: the weights from which the sampler drew its last token, in ten states. Planted: words that say nothing, η = 1e12."""
    case = erratum(13).case()
    corpus, size = case["corpus"], int(case["topic"].max()) + 1

    def last_drawn(eta: float, seed: int) -> tuple[np.ndarray, Erratum]:
        """The weights, and the erratum in the state that they belong to."""
        prior = topic_prior(corpus, size, case["alpha"], eta)
        chain, found = swept(corpus, prior, start_chain(corpus, prior, seed), 3)
        state = dict(case) | {"topic": np.asarray(chain.topic), "size": size}
        return found / found.sum(), erratum(13)._replace(case=lambda: state)

    for seed in range(10):
        found, slip = last_drawn(case["eta"], seed)
        assert slip.off(lambda found=found, **_: found) < slip.tolerance
    planted = [last_drawn(1e12, seed) for seed in range(10)]
    for found, slip in planted:
        np.testing.assert_allclose(found, words.conditional_without_words(**slip.case()), atol=1e-10)
    assert sum(slip.off(lambda found=found, **_: found) > MARGIN for found, slip in planted) > 5


def test_ordered_normals_of_numpyro_are_no_sorted_normals():
    """E21: `OrderedTransform` is (u_1, u_1 + exp u_2), as its mutant says; the zoo relabels draws instead."""
    u = np.array([[0.3, -1.2], [-0.7, 0.4]])
    found = jax.jit(dist.transforms.OrderedTransform().__call__)(jnp.asarray(u))
    np.testing.assert_allclose(found, np.stack([u[:, 0], u[:, 0] + np.exp(u[:, 1])], axis=1), rtol=1e-14)
    nodes, weight = np.polynomial.hermite_e.hermegauss(40)  # E exp(u), exact but for terms below 1e-30
    gap = partial(np.dot, weight / weight.sum())(np.exp(nodes))
    np.testing.assert_allclose([0.0, gap], expected_transformed(1.0), atol=1e-12)
