"""One posterior by every backend and every sampler on ℝᵈ: moments of a Gaussian, statistics, and what is refused."""

import signal

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gaussian_program import COVARIANCE, MEAN, of_rows

from inference import fit
from inference.certificates.checks.figure import two_stages
from inference.unconstrained import nutpie_nuts
from inference.unconstrained.nuts import BACKENDS
from models import ZooError

X = np.zeros(1)
STATISTICS = {"energy", "lp", "tree_depth", "n_steps", "diverging", "acceptance_rate", "step_size", "reached_max_treedepth"}
NUTS = [{"method": "nuts", "backend": name} for name in BACKENDS]
SAMPLERS = [*NUTS, {"method": "mclmc"}, {"method": "chees"}]


def named(options):
    return " ".join(options.values())


def moments(options, draws):
    """Deviations of means and second moments of each coordinate, and of one product, by the spread of the chains' means."""

    def run(seed, times):
        tree = fit(of_rows, X, **options, num_warmup=200, num_samples=draws * times, num_chains=16, seed=seed)
        away = tree["posterior"]["z"].values - MEAN
        products = {"product": (away[..., 0] * away[..., 1], COVARIANCE[0, 1])}
        first = {f"mean {i}": (away[..., i], 0.0) for i in range(3)}
        second = {f"square {i}": (away[..., i] ** 2, COVARIANCE[i, i]) for i in range(3)}
        found = {}
        for name, (values, wanted) in (first | second | products).items():
            of_chains = values.mean(1)  # 16 independent chains: a t statistic of 15 degrees of freedom, made normal
            t = (of_chains.mean() - wanted) / (of_chains.std(ddof=1) / 4)
            found[name] = float(_normal(t))
        return found

    return run


def _normal(t):
    from scipy import stats

    return -np.sign(t) * stats.norm.ppf(stats.t.sf(abs(t), 15))


@pytest.mark.parametrize("options", SAMPLERS, ids=named)
@pytest.mark.slow
def test_moments_of_a_gaussian(options):
    assert all(figure.passed for figure in two_stages(moments(options, 250), 3))


@pytest.mark.parametrize("options", NUTS, ids=named)
def test_statistics_have_the_names_of_arviz(options):
    """And say what they are: a tree of depth k has 2ᵏ⁻¹ to 2ᵏ − 1 steps; nutpie's last doubling may have been given up."""
    tree = fit(of_rows, X, **options, num_warmup=30, num_samples=40, num_chains=2, max_tree_depth=2)
    stats = tree["sample_stats"]
    assert set(stats.data_vars) >= STATISTICS
    assert stats["diverging"].dtype == bool
    depth, steps = stats["tree_depth"].values, stats["n_steps"].values
    given_up = options["backend"] == "nutpie"
    assert (steps <= 2.0 ** (depth + given_up) - 1).all()
    assert (steps >= 2.0 ** (depth - 1)).all()
    if not given_up:
        np.testing.assert_array_equal(stats["reached_max_treedepth"], depth >= 2)
    assert stats["reached_max_treedepth"].values.any()
    z = tree["posterior"]["z"].values
    log_joint = dist.MultivariateNormal(MEAN, COVARIANCE).log_prob(z) + dist.Normal(0, 1).log_prob(0.0)
    np.testing.assert_allclose(stats["lp"], log_joint, rtol=1e-9)


@pytest.mark.parametrize(("method", "num_chains"), [("chees", 4), ("mclmc", 2)])
def test_a_seed_makes_the_draws(method, num_chains):
    one, same, other = (
        fit(of_rows, X, method, num_chains=num_chains, num_warmup=30, num_samples=10, seed=seed)["posterior"]["z"].values
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_seed_makes_the_draws_of_nutpie():
    """Whatever the order of its threads."""
    options = {"method": "nuts", "backend": "nutpie", "num_warmup": 30, "num_samples": 10, "num_chains": 5}
    one, same = (fit(of_rows, X, **options, seed=1)["posterior"]["z"].values for _ in range(2))
    np.testing.assert_array_equal(one, same)


def test_a_backend_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(nutpie_nuts, "find_spec", lambda name: None)
    with pytest.raises(ZooError, match=r"not installed; install it with: pip install 'bayes-model-zoo\[nutpie\]'"):
        fit(of_rows, X, "nuts", backend="nutpie")


def test_ctrl_c_keeps_what_all_chains_of_nutpie_have(monkeypatch):
    """A signal ends them; each has as many draws as the shortest."""
    followed, sent = nutpie_nuts._Chain.finished, []

    def finished(chain):
        if not sent and chain.progress is not None and chain.progress.finished_draws > 200:
            sent.append(signal.raise_signal(signal.SIGINT))
        return followed(chain)

    monkeypatch.setattr(nutpie_nuts._Chain, "finished", finished)
    tree = fit(of_rows, X, "nuts", backend="nutpie", num_warmup=100, num_samples=1_000_000, num_chains=2)
    assert 0 < tree["posterior"].sizes["draw"] < 1_000_000
    assert tree.attrs["exit_status"] != 0


def test_a_start_without_a_slope_is_moved_and_a_flat_density_is_refused():
    """nutpie takes its first scales from gradients."""
    start, random = np.array([0.0, 1.0]), np.random.default_rng(0)
    moved = nutpie_nuts.sloping(lambda flat: (-flat @ flat / 2, -flat), start, random)
    assert moved[1] == 1
    assert 0 < abs(moved[0]) < 6 * nutpie_nuts.NUDGE
    with pytest.raises(ZooError, match="flat in a coordinate"):
        nutpie_nuts.sloping(lambda flat: (0.0, np.array([0.0, 1.0])), start, random)


def test_one_dimension_is_too_few_for_a_velocity_of_length_one():
    def one(x):
        numpyro.sample("x", dist.Normal(numpyro.sample("z", dist.Normal(0.0, 1.0)), 1.0), obs=x)

    with pytest.raises(ZooError, match="needs two dimensions"):
        fit(one, X, "mclmc")


def test_one_chain_is_no_ensemble():
    with pytest.raises(ZooError, match="num_chains must be at least 2, got 1"):
        fit(of_rows, X, "chees", num_chains=1)


def test_no_warm_up():
    """Chains of `chees` keep their first step size; nutpie cannot do without."""
    tree = fit(of_rows, X, "chees", num_warmup=0, num_samples=5, num_chains=2)
    assert np.isfinite(tree["posterior"]["z"]).all()
    assert np.ptp(tree["sample_stats"]["step_size"].values) == 0
    with pytest.raises(ZooError, match="needs a warm-up"):
        fit(of_rows, X, "nuts", backend="nutpie", num_warmup=0)
