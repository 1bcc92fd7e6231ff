"""Oracles: naive code of their own, whose simulators draw what their densities describe."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from two_stage import assert_standard_normal, of_means

from inference.certificates.cell import cells
from inference.certificates.laws.kernel_law import last_rows
from inference.certificates.laws.kernels_on_reals import KERNELS
from inference.certificates.oracles import ORACLES, VARIANTS, name_of, oracle_of, words_of
from inference.certificates.oracles.conjugate import dirichlet, log_dirichlet, repeated
from models import MODELS, ZooError

MAY_IMPORT = {"models.data.table", "models.data.documents"}  # how a table is handed over, no formula
EVERY = (*ORACLES, *VARIANTS)
SHARED = ("inference.certificates.oracles.oracle", "inference.certificates.oracles.conjugate")


@pytest.mark.parametrize("module", sorted({*ORACLES.values(), *SHARED, *(variant.module for variant in VARIANTS.values())}))
def test_oracles_import_no_formula_of_the_zoo(module):
    tree = ast.parse(Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    ours = {name for name in names if name.split(".")[0] in ("models", "inference")}
    assert {name for name in ours if not name.startswith("inference.certificates.oracles")} <= MAY_IMPORT


def test_every_model_has_an_oracle():
    assert set(ORACLES) == set(MODELS)


@pytest.mark.parametrize("name", EVERY)
def test_simulated_tables_have_the_density_of_the_oracle(name):
    """E[p(x | θ') / p(x | θ)] = 1 for any θ', as the sum over all tables of p(x | θ').

    θ' is θ with a little of another draw. Its square has a finite mean only where both are near, which they are made.
    """
    oracle = oracle_of(name)

    def ratios(seed, times):
        rng = np.random.default_rng(seed)
        number = 4_000 * times
        sites = oracle.draw_parameters(rng, number)
        other = oracle.draw_parameters(rng, number)
        near = {site: 0.97 * value + 0.03 * other[site] for site, value in sites.items()}
        tables = oracle.draw_tables(rng, sites)
        return of_means(np.exp(oracle.log_likelihood(near, tables) - oracle.log_likelihood(sites, tables)), 1.0)

    assert_standard_normal(ratios)


@pytest.mark.parametrize("name", [name for name in EVERY if oracle_of(name).latent is not None])
def test_drawn_latents_have_the_density_of_the_oracle(name):
    """E[p(x, z | θ') / p(x, z | θ) | x] = p(x | θ') / p(x | θ): the difference of both ratios has mean 0."""
    oracle = oracle_of(name)

    def ratios(seed, times):
        rng = np.random.default_rng(seed)
        sites, other = (oracle.draw_parameters(rng, 4_000 * times) for _ in range(2))
        near = {site: 0.97 * value + 0.03 * other[site] for site, value in sites.items()}
        tables = oracle.draw_tables(rng, sites)
        both = [np.exp(log(near, tables) - log(sites, tables)) for log in (oracle.log_complete, oracle.log_likelihood)]
        return of_means(both[0] - both[1], 0.0)

    assert_standard_normal(ratios)


@pytest.mark.parametrize("name", [name for name in ORACLES if not oracle_of(name).simplices])
def test_drawn_parameters_have_the_prior_density_of_the_oracle(name):
    """E[p(s θ) sᵈ / p(θ)] = 1 for a number s near 1, as the integral of the density of θ / s; of sites of free numbers."""
    oracle, scale = oracle_of(name), 1.02

    def ratios(seed, times):
        sites = oracle.draw_parameters(np.random.default_rng(seed), 2_000 * times)
        free = sum(value[0].size for value in sites.values())
        logs = oracle.log_prior({site: scale * value for site, value in sites.items()}) - oracle.log_prior(sites)
        return of_means(np.exp(logs + free * np.log(scale)), 1.0)

    assert_standard_normal(ratios)


@pytest.mark.parametrize("name", VARIANTS)
def test_evidence_on_a_grid_is_the_mean_likelihood_of_draws_from_the_prior(name):
    """E[p(x | θ)] over the prior is p(x), which importance sampling on the grid finds; and the draws have weights near 1."""
    oracle, rng = oracle_of(name), np.random.default_rng(1)
    table = oracle.draw_tables(rng, oracle.draw_parameters(rng, 1))
    posterior = oracle.posterior(rng, table, 4_000)
    assert posterior.effective_size > 3_000

    def ratios(seed, times):
        sites = oracle.draw_parameters(np.random.default_rng(seed), 20_000 * times)
        logs = oracle.log_likelihood(sites, repeated(table, 20_000 * times))
        return of_means(np.exp(logs - posterior.log_evidence), 1.0)  # the error of the evidence is a fifth of theirs

    assert_standard_normal(ratios)


@pytest.mark.parametrize("name", EVERY)
def test_a_variant_is_asked_for_by_its_options(name):
    model, *options = words_of(name).split()
    given = dict(option.removeprefix("model.").split("=") for option in options)
    assert name_of(model.removeprefix("model="), given) == name
    assert oracle_of(name).name == name
    with pytest.raises(ZooError, match="there are model=hmm"):
        name_of(oracle_of(name).model, {"emission": "student_t"})


def test_dirichlet_draws_and_density_are_those_of_scipy():
    """Means and mean squares of draws, and the density of every vector, whether they share a concentration or not."""
    concentration = np.array([[1.5, 2.0, 3.0], [0.7, 1.0, 1.3]])
    laws = [stats.dirichlet(row) for row in concentration]

    def moments(seed, times):
        probs = dirichlet(np.random.default_rng(seed), concentration, (4_000 * times, 2))
        first = [of_means(probs[:, place], law.mean()) for place, law in enumerate(laws)]
        return np.concatenate(
            [*first, *(of_means(probs[:, p] ** 2, law.var() + law.mean() ** 2) for p, law in enumerate(laws))]
        )

    assert_standard_normal(moments)
    probs = dirichlet(np.random.default_rng(0), concentration, (3, 2))
    wanted = [sum(law.logpdf(vector) for law, vector in zip(laws, pair, strict=True)) for pair in probs]
    np.testing.assert_allclose(log_dirichlet(concentration, probs), wanted, rtol=1e-12)


@pytest.mark.parametrize(("name", "method"), [cell for cell in cells(EVERY) if cell[1] in KERNELS])
def test_statistics_are_of_the_rows_that_a_kernel_runs_on(name, method):
    """Some kernels run on the last rows of a table alone, none of which has a label."""
    oracle, rng = oracle_of(name), np.random.default_rng(0)
    sites = oracle.draw_parameters(rng, 7)
    tables = last_rows(oracle.draw_tables(rng, sites), KERNELS[method].last_rows)
    statistics = oracle.statistics(sites, tables)
    assert {value.shape for value in statistics.values()} == {(7,)}
    assert all(np.isfinite(value).all() for value in statistics.values())
