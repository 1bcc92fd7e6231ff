"""Models that are a NumPyro program only: a user's own, with any prior."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from naive import SHORT, is_finite, near, two_groups
from scipy import stats

from inference import fit, predict
from models import ZooError

X = two_groups(40)


def half_normal_mixture(x):
    """A user's program: scales with a prior that no conjugate family has."""
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.full(2, 2.0)))
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(jnp.full(2, 2.0)).to_event(1))
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(probs), dist.Normal(mean, scale)), obs=x)


def half_normal_log_joint(x, sites):
    """The same density by SciPy."""
    prior = stats.dirichlet([2.0, 2.0]).logpdf(sites["probs"]) + stats.norm(0, 5).logpdf(sites["mean"]).sum()
    prior += stats.halfnorm(scale=2).logpdf(sites["scale"]).sum()
    density = sites["probs"] * stats.norm(sites["mean"], sites["scale"]).pdf(x[:, None])
    return prior + np.log(density.sum(1)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "map", "laplace", "advi"])
def test_programs_are_fitted(method):
    """Labels found from the mixture, log joints equal to SciPy's, draws relabelled."""
    x = two_groups(40)[:, 0]
    tree = fit(half_normal_mixture, x, method=method, symmetry="component", **SHORT[method])
    assert is_finite(tree)
    sites = tree["point_estimate" if method == "map" else "posterior"].to_dataset()
    last = sites if method == "map" else sites.isel(chain=-1, draw=-1)
    log_joint = tree["functionals"]["log_joint"].values.reshape(-1)[-1]
    assert log_joint == pytest.approx(half_normal_log_joint(x, {k: v.values for k, v in last.items()}), rel=1e-10)
    assert last["scale"].dims == ("component",)
    assert "sorted_probs" in tree["functionals"]
    if method != "map":
        assert tree["sample_stats"]["permutation"].shape == (4, 64, 2)


def flat_program(x):
    """Improper sites, which cannot be drawn from."""
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), (2,)))
    numpyro.sample("x", dist.Normal(mean, 1.0).to_event(1).expand((x.shape[0],)), obs=x)


def test_improper_sites_are_fitted():
    """The mode under a flat prior is the mean of the rows, to the gradient's 1e-7."""
    tree = fit(flat_program, X, method="map", num_starts=1)
    assert near(tree["point_estimate"]["mean"], X.mean(0), atol=1e-6)


def discrete_program(x):
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.sample("x", dist.Normal(z, 1.0).expand((x.shape[0],)).to_event(1), obs=x)


def silent_program(x):
    numpyro.sample("mean", dist.Normal(0.0, 1.0))


def broken_program(x):
    raise RuntimeError("ouch")


def lone_mean(x):
    """Next to nothing: a program that is refused runs operation by operation."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0).expand((x.shape[0],)).to_event(1), obs=x)


@pytest.mark.parametrize(
    ("program", "options", "words"),
    [
        (lone_mean, {"method": "em"}, "lone_mean is a NumPyro program without the algebra.*map, laplace, advi or nuts"),
        (lone_mean, {"method": "gibbs"}, "without the algebra"),
        (lone_mean, {"method": "map", "dims": {"mean": ("a", "b")}}, "names 2 dimensions, but the site has shape"),
        (discrete_program, {"method": "map"}, r"discrete_program cannot be summed out \(are the rows on a numpyro\.plate"),
        (silent_program, {"method": "map"}, "observes nothing"),
        (broken_program, {"method": "map"}, "does not run on this data: RuntimeError: ouch"),
        ("gmm", {"method": "em"}, "expected a Model of the zoo or a NumPyro function, not str"),
    ],
)
def test_programs_that_do_not_fit(program, options, words):
    with pytest.raises(ZooError, match=words):
        fit(program, two_groups(10)[:, 0], **options)


@pytest.mark.slow
def test_checkpoints_know_a_programs_code(tmp_path):
    """Two programs of one name that differ in a constant: the second does not go on from the first one's draws."""

    def make(centre):
        def program(x):
            mean = numpyro.sample("mean", dist.Normal(centre, 0.001))
            with numpyro.plate("row", len(x)):
                numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)

        return program

    x = np.zeros(5)
    options = {"method": "nuts", "num_warmup": 50, "num_chains": 2, "folder": tmp_path}
    fit(make(0.0), x, num_samples=20, **options)
    with pytest.raises(ZooError, match="another folder"):
        fit(make(5.0), x, num_samples=40, **options)


HERE = Path(__file__).parent
TESTS = HERE.parents[1]
SHIFT = np.array([1.0, 2.0])
shift = jax.jit(lambda mean: mean + SHIFT)


def shifted(x):
    """With a helper that is jitted and holds a constant in double precision."""
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 5.0).to_event(1))
    numpyro.sample("x", dist.Normal(shift(mean), 1.0).to_event(1).expand((x.shape[0],)), obs=x)


def test_programs_are_fitted_in_a_process_of_single_precision():
    with jax.enable_x64(False):
        tree = fit(shifted, X, method="map", num_starts=1)
    assert near(tree["point_estimate"]["mean"], (X - SHIFT).sum(0) / (len(X) + 1 / 25), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "map", "laplace", "advi"])
def test_programs_are_fitted_in_a_process_of_their_own(method, tmp_path):
    """Where nothing but the fit sets the precision."""
    code = (
        f"import sys; sys.path[:0] = {[str(HERE), str(TESTS), str(TESTS / 'oracles')]}\n"
        "from inference import fit\nfrom naive import SHORT\nfrom test_programs import X, shifted\n"
        "import jax; jax.config.update('jax_enable_x64', False)\n"
        f"fit(shifted, X, method={method!r}, predictive=True, folder={str(tmp_path)!r}, **SHORT[{method!r}])\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_functions_that_need_a_model_say_so():
    with pytest.raises(ZooError, match="program_model"):
        predict(print, {}, np.zeros(3))
