"""Targets: densities of the oracle on ℝᵈ, gradients, vectors; entries of a posterior database."""

import json
import zipfile

import jax
import numpy as np
import pytest
from scipy import optimize

from inference import certify, check_draws, export_posteriordb, fit, target
from inference.certificates.oracles import oracle_of
from inference.fitting.prepare import x64
from models import MODELS
from models.errors import ZooError


@pytest.mark.parametrize("name", ["gmm_simple", pytest.param("gmm", marks=pytest.mark.slow)])
def test_density_is_that_of_the_oracle_with_the_jacobian(name):
    """The Jacobian by differences: |det ∂θ/∂z| of as many free coordinates as there are dimensions."""
    posterior, oracle = target(name), oracle_of(name)
    with x64(64):
        start = posterior.start(0)
        sites = {key: np.asarray(value)[None] for key, value in posterior.constrain(start).items()}
        tables = {key: np.asarray(value)[None] for key, value in posterior.data.items()} | {"component": np.zeros((1, 6), int)}
        wanted = float((oracle.log_prior(sites) + oracle.log_likelihood(sites, tables))[0])

        def free(vector):
            found = posterior.constrain(posterior.as_position(vector))
            parts = [found["mean"].ravel()]
            if "precision" in found:
                parts += [found["precision"][:, *np.tril_indices(2)].ravel(), found["mixture_probs"][:-1]]
            return np.concatenate([np.asarray(part) for part in parts])

        vector = np.asarray(posterior.as_vector(start))
        jacobian = optimize.approx_fprime(vector, free, 1e-7)
        found = float(posterior.log_density(start))
    assert jacobian.shape == (posterior.size, posterior.size)
    np.testing.assert_allclose(found, wanted + np.linalg.slogdet(jacobian)[1], atol=1e-5)  # of forward differences


@pytest.mark.slow
def test_gradient_and_vectors():
    posterior = target("gmm_simple")
    with x64(64):
        start = posterior.start(1)
        vector = np.asarray(posterior.as_vector(start))
        back = posterior.as_position(vector)
        found = np.asarray(posterior.as_vector(posterior.gradient(start)))
        wanted = optimize.approx_fprime(vector, lambda at: float(posterior.log_density_of_vector(at)), 1e-6)
    assert jax.tree.all(jax.tree.map(np.array_equal, dict(start), back))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert posterior.draws(np.tile(vector, (2, 3, 1)))["mean"].shape == (2, 3, 2, 2)
    assert posterior.symmetry.dim == "component"
    assert "4 dimensions" in repr(posterior)


@pytest.mark.slow
def test_a_target_says_what_it_is():
    """Sites, latents, data, the generative program, and the numbers of the prior by what they are."""
    said = repr(target("gmm"))
    for part in (
        "z_n ~ Categorical(mixture_probs)",
        "precision (3, 2, 2), positive definite",
        "mixture_probs (3,), simplex",
        "component (6,), whole numbers from 0",
        "x (6, 2)",
        "strength 0.4: a mean has precision strength × precision",
        "not of the prior:\n  origin [",
        "constant centre of the columns",
    ):
        assert part in said, said


@pytest.mark.slow
def test_own_draws_are_marked_until_they_are_checked():
    posterior = target("gmm_simple")
    sites = {"mean": fit(posterior.model, posterior.table, "exact", seed=1, num_samples=1_000)["posterior"]["mean"].values}
    tree = posterior.result(sites=sites)
    assert "draws given by the user: not checked" in tree.attrs["warnings"]
    found = check_draws(posterior.model, posterior.table, tree)
    assert found.verdict == "draws agree", found
    assert "not checked" not in found.marked(tree).attrs["warnings"]
    wrong = check_draws(posterior.model, posterior.table, posterior.result(sites={"mean": sites["mean"] + 1.0}))
    assert "draws given by the user: draws differ" in wrong.marked(tree).attrs["warnings"]
    with pytest.raises(ZooError, match="one of the two"):
        posterior.result()


def test_what_has_no_target_is_refused():
    with pytest.raises(ZooError, match="data is missing"):
        target(MODELS["gmm_simple"]([[1.0], [2.0]]))
    with pytest.raises(ZooError, match="did you mean gmm_simple"):
        target("gmm_simpel")
    with pytest.raises(ZooError, match="has a table of its own"):
        target("gmm", [[1.0]])


@pytest.mark.slow
def test_entries_of_a_posterior_database(tmp_path):
    """Read with posteriordb, where it is installed, and by their files."""
    posterior = target("gmm_simple")
    tree = fit(posterior.model, posterior.table, "exact", num_samples=100, num_chains=2)
    certificate = certify("exact", model="gmm_simple")
    path = export_posteriordb(tree, posterior.model, posterior.table, tmp_path, "six-rows", certificate)
    assert json.loads(path.read_text())["dimensions"] == {"mean": 4}
    draws = tmp_path / "reference_posteriors/draws/draws/six-rows-gmm_simple.json.zip"
    with zipfile.ZipFile(draws) as archive:
        chains = json.loads(archive.read("six-rows-gmm_simple.json"))
    assert [len(chain["mean[2,1]"]) for chain in chains] == [100, 100]
    np.testing.assert_array_equal(chains[1]["mean[2,1]"], tree.posterior["mean"].values[1, :, 1, 0])
    kept = json.loads((tmp_path / "reference_posteriors/draws/certificates/six-rows-gmm_simple.json").read_text())
    assert (kept["model"], kept["method"], kept["verdict"]) == ("gmm_simple", "exact", "exact")
    other = fit(posterior.model, posterior.table, "gibbs", num_warmup=10, num_samples=10, num_chains=2)
    with pytest.raises(ZooError, match="the certificate is of gmm_simple exact, and the result of gmm_simple gibbs"):
        export_posteriordb(other, posterior.model, posterior.table, tmp_path, "six-rows", certificate)
    namespace: dict = {}
    exec((tmp_path / "models/numpyro/six-rows-gmm_simple.py").read_text(), namespace)
    assert namespace["program"](posterior.table).options == posterior.model.options
    with pytest.raises(ZooError, match="is to be the name of a file"):
        export_posteriordb(tree, posterior.model, posterior.table, tmp_path, "../rows")
    posteriordb = pytest.importorskip("posteriordb")
    entry = posteriordb.PosteriorDatabase(str(tmp_path)).posterior("six-rows-gmm_simple")
    np.testing.assert_allclose(entry.data.values()["x"], posterior.data["x"])
    assert entry.reference_draws() == chains
    assert entry.reference_draws_info()["diagnostics"]["nchains"] == 2
