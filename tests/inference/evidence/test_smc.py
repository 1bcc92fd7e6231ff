"""Sequential Monte Carlo as `fit` runs it: the evidence and the masses of modes, refusals, checkpoints."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from interrupting import Interrupting
from naive import table
from scipy import stats
from scipy.special import logsumexp
from two_modes import LOWER_LEFT, ROWS, UPPER_LEFT, divisions, probability_together
from two_stage import assert_standard_normal, of_means

from inference import fit
from inference.evidence.estimates import Evidence
from inference.evidence.smc import RARELY, doubts
from inference.report.remarks import remarks
from models import MODELS
from models.base import ZooError

X = np.array([0.5, 1.5, -0.2, 0.9])
RUNS = {"num_chains": 16, "num_samples": 256}
MOVES = ["hmc", "independent"]


def gaussian(x):
    """The mean of rows with unit variance, Normal(0, 3²)."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0))
    numpyro.sample("x", dist.Normal(mean, 1.0).expand((len(x),)).to_event(1), obs=x)


def log_evidence(x):
    """Rows are jointly Normal(0, I + 9 · 1 1ᵀ)."""
    return stats.multivariate_normal(np.zeros(len(x)), np.eye(len(x)) + 9.0).logpdf(x)


def of_evidence(tree, wanted):
    """The mean of Ẑ / Z over the runs, against 1: it is biased by O(1 / N), which is small beside the error of 16 runs."""
    ratios = np.exp(np.array(json.loads(tree.attrs["log_evidence_of_runs"])) - wanted)
    return of_means(ratios, 1.0)


@pytest.mark.parametrize("moves", MOVES)
def test_evidence_and_posterior_of_a_gaussian(moves):
    """Mean and variance of the posterior are 9 Σ x / (1 + 9 N) and 9 / (1 + 9 N); runs are independent."""
    variance = 9 / (1 + 9 * len(X))

    def deviations(seed, times):
        tree = fit(gaussian, X, "smc", moves=moves, seed=seed, **RUNS | {"num_chains": 16 * times})
        mean = tree["posterior"]["mean"].values
        of_draws = np.stack([mean.mean(1), mean.var(1)], axis=1)
        return [of_evidence(tree, log_evidence(X)), *of_means(of_draws, [variance * X.sum(), variance])]

    assert_standard_normal(deviations)


def separated(weights, places):
    """A density of well separated Gaussians with these masses, as a factor of a wide prior: its integral is 1."""

    def program(rows):
        place = numpyro.sample("place", dist.Normal(0.0, 10.0))
        mixture = jax.nn.logsumexp(jnp.log(jnp.asarray(weights)) + dist.Normal(jnp.asarray(places), 0.5).log_prob(place))
        numpyro.factor("modes", mixture - dist.Normal(0.0, 10.0).log_prob(place))
        numpyro.sample("rows", dist.Normal(0.0, 1.0), obs=rows)

    return program


TWO, THREE = separated((0.3, 0.7), (-5.0, 5.0)), separated((0.2, 0.3, 0.5), (-8.0, 0.0, 8.0))


@pytest.mark.parametrize(
    ("program", "weights", "borders", "moves"),
    [
        (TWO, (0.3, 0.7), (0.0,), "hmc"),
        pytest.param(TWO, (0.3, 0.7), (0.0,), "independent", marks=pytest.mark.slow),
        pytest.param(THREE, (0.2, 0.3, 0.5), (-4.0, 4.0), "hmc", marks=pytest.mark.slow),
        pytest.param(THREE, (0.2, 0.3, 0.5), (-4.0, 4.0), "independent", marks=pytest.mark.slow),
    ],
)
def test_modes_have_their_masses(program, weights, borders, moves):
    """Shares of the particles at each mode, and the evidence, which is that of the observed row."""

    def deviations(seed, times):
        tree = fit(program, np.zeros(()), "smc", moves=moves, seed=seed, **RUNS | {"num_chains": 16 * times})
        mode = np.digitize(tree["posterior"]["place"].values, borders)
        shares = np.stack([(mode == number).mean(1) for number in range(len(weights) - 1)], axis=1)
        return [of_evidence(tree, stats.norm.logpdf(0.0)), *of_means(shares, weights[:-1])]

    assert_standard_normal(deviations)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "weights"), [(TWO, (0.3, 0.7)), (THREE, (0.2, 0.3, 0.5))])
@pytest.mark.parametrize("options", [{"method": "nuts"}, {"method": "nuts", "backend": "blackjax"}, {"method": "chees"}])
def test_chains_stay_at_modes_and_the_verdict_says_so(program, weights, options):
    """No chain crosses, so that the share of a mode is a number of chains. R-hat sees it: they start at draws of the prior."""
    tree = fit(program, np.zeros(()), **options, num_warmup=300, num_samples=300, num_chains=8, seed=1)
    place = tree["posterior"]["place"].values
    assert place.std(axis=1).max() < 1.0
    assert len({int(mode) for mode in np.digitize(place.mean(1), (-4.0, 4.0))}) > 1
    assert tree.attrs["exit_status"] != 0
    assert "R-hat" in tree.attrs["problems"]


@pytest.mark.parametrize("moves", ["default", pytest.param("hmc", marks=pytest.mark.slow)])
def test_a_conjugate_model_with_two_divisions(moves):
    """The evidence is a sum over all assignments, and two rows are in one component with the probability that the sum has."""
    data = table(ROWS)
    model = MODELS["gmm_simple"](data, num_components=2)
    pair = f"rows {LOWER_LEFT + 1}, {UPPER_LEFT + 1}"

    def deviations(seed, times):
        tree = fit(model, data, "smc", moves=moves, seed=seed, **RUNS | {"num_chains": 16 * times})
        assert tree.attrs["moves"] == ("gibbs" if moves == "default" else moves)
        together = tree["functionals"]["co_clustering"].sel(pair=pair).values.mean(1)
        evidence = of_evidence(tree, logsumexp(divisions()[1]))
        return [evidence, of_means(together, probability_together(LOWER_LEFT, UPPER_LEFT))]

    assert_standard_normal(deviations)


@pytest.fixture(scope="module")
def result():
    return fit(gaussian, X, "smc", seed=1, **RUNS)


def test_the_result_says_the_evidence_and_how_it_was_found(result):
    attrs = result.attrs
    of_runs = np.array(json.loads(attrs["log_evidence_of_runs"]))
    assert attrs["log_evidence_smc"] == pytest.approx(logsumexp(of_runs) - np.log(16), abs=1e-6)
    assert attrs["moves"] == "hmc"
    assert any("log evidence by sequential Monte Carlo" in line for line in remarks(result))
    ancestor = result["sample_stats"]["ancestor"].values
    counts = [np.unique(one, return_counts=True)[1] / ancestor.shape[1] for one in ancestor]
    assert json.loads(attrs["effective_ancestors"]) == pytest.approx([1 / (share**2).sum() for share in counts], rel=1e-3)
    assert not attrs["warnings"]


def test_a_single_run_has_the_error_of_its_families():
    tree = fit(gaussian, X, "smc", num_chains=1, num_samples=256)
    assert tree.attrs["log_evidence_smc_se"] == pytest.approx(json.loads(tree.attrs["log_evidence_se_of_runs"])[0], rel=1e-3)
    assert "one chain cannot show that it has missed a mode" in tree.attrs["problems"]


def test_an_interrupted_run_goes_on_as_if_unbroken(tmp_path, result):
    """Bit for bit; particles on the way are no draws of the posterior. The checkpoint is that of so many particles."""
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        fit(gaussian, X, "smc", seed=1, folder=tmp_path, progress=Interrupting("tempering"), **RUNS)
    (checkpoint,) = tmp_path.glob("checkpoint-stages-256-*.npz")
    with np.load(checkpoint) as stored:
        assert 0 < int(stored["finished"]) < max(json.loads(result.attrs["stages"]))
    again = fit(gaussian, X, "smc", seed=1, folder=tmp_path, **RUNS)
    np.testing.assert_array_equal(again["posterior"]["mean"], result["posterior"]["mean"])
    assert again.attrs["log_evidence_of_runs"] == result.attrs["log_evidence_of_runs"]


def improper(x):
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("x", dist.Normal(mean, 1.0).expand((len(x),)).to_event(1), obs=x)


def masked(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0).mask(False))
    numpyro.sample("x", dist.Normal(mean, 1.0).expand((len(x),)).to_event(1), obs=x)


def counted(x):
    number = numpyro.sample("number", dist.Poisson(3.0))
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0))
    numpyro.sample("x", dist.Normal(mean + number, 1.0).expand((len(x),)).to_event(1), obs=x)


def impossible(x):
    rate = numpyro.sample("rate", dist.Exponential(1.0))
    numpyro.factor("never", jnp.where(rate < 0, 0.0, -jnp.inf))
    numpyro.sample("x", dist.Normal(rate, 1.0).expand((len(x),)).to_event(1), obs=x)


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        (improper, {}, "the prior of mean is improper"),
        (masked, {}, "the prior of mean is masked"),
        (counted, {}, "cannot be enumerated"),
        (gaussian, {"start": {"mean": 0.0}}, "leave out start"),
        (gaussian, {"moves": "gibbs"}, "moves=gibbs is not possible, as a NumPyro program has no conjugate structure"),
        (gaussian, {"moves": "nuts"}, "not one of default, gibbs, hmc, independent"),
        (impossible, {}, "density 0 at every draw from the prior"),
    ],
)
def test_refusals(program, options, message):
    with pytest.raises(ZooError, match=message):
        fit(program, X, "smc", num_samples=20, num_chains=2, **options)


def test_what_a_model_of_the_zoo_is_refused_for():
    flat = MODELS["ppca"](table(ROWS), num_factors=1, prior="flat")
    with pytest.raises(ZooError, match="prior=flat makes no proper posterior"):
        fit(flat, table(ROWS), "smc")
    weighted = table(ROWS)._replace(weight=np.full(len(ROWS), 2.0))
    with pytest.raises(ZooError, match="moves=gibbs is not possible, as row 1 of the data weighs 2"):
        fit(MODELS["gmm_simple"](weighted, num_components=2), weighted, "smc", moves="gibbs")


def test_doubts_are_said():
    """Each at its limit, and none for a run without them."""
    sound = (Evidence(-3.0, 0.1, 0.5), np.array([-3.0, -3.1]), np.array([0.8, 0.9]))
    assert doubts(*sound) == []
    (apart,) = doubts(sound[0]._replace(agreement=1e-4), *sound[1:])
    assert apart.startswith("the runs disagree about the log evidence (-3.10 to -3.00)")
    (rarely,) = doubts(*sound[:2], np.array([RARELY / 2, 0.9]))
    assert rarely.startswith("the moves at the posterior are rarely accepted (5.0%)")


@pytest.mark.slow
def test_a_run_of_other_particles_starts_anew(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        fit(gaussian, X, "smc", seed=1, folder=tmp_path, progress=Interrupting("tempering"), **RUNS)
    fewer = RUNS | {"num_samples": 200}
    found, wanted = fit(gaussian, X, "smc", seed=1, folder=tmp_path, **fewer), fit(gaussian, X, "smc", seed=1, **fewer)
    np.testing.assert_array_equal(found["posterior"]["mean"], wanted["posterior"]["mean"])


@pytest.mark.slow
def test_the_stated_errors_are_those_of_two_hundred_tables():
    """Of 800 runs the mean of (error / stated error)² is 1 within 0.3: its own error is 0.05, and systematic resampling may
    make families say up to a fifth too much. So it is of the 200 evidences of four runs together, whose own error is 0.1.
    """
    rng = np.random.default_rng(0)
    of_runs, together = [], []
    for seed in range(200):
        x = rng.normal(3 * rng.standard_normal(), 1.0, len(X))
        attrs = fit(gaussian, x, "smc", seed=seed, num_samples=500).attrs
        values, errors = (np.array(json.loads(attrs[f"log_evidence_{what}of_runs"])) for what in ("", "se_"))
        of_runs.append((values - log_evidence(x)) / errors)
        together.append((attrs["log_evidence_smc"] - log_evidence(x)) / attrs["log_evidence_smc_se"])
    assert 0.7 < np.mean(np.square(of_runs)) < 1.3
    assert 0.6 < np.mean(np.square(together)) < 1.4


def test_few_ancestors_fail_and_have_no_error():
    """A vague prior: of eight draws from it one or two have descendants."""
    vague = MODELS["gmm_simple"](table(ROWS * 100), num_components=2)
    tree = fit(vague, table(ROWS * 100), "smc", num_samples=8, num_chains=2, num_moves=2)
    assert "descend from effectively" in tree.attrs["problems"]
    assert np.isnan(tree.attrs["log_evidence_smc_se"])
    assert tree.attrs["exit_status"] != 0
