"""Methods on the hidden Markov model: EM is Baum and Welch's, hard EM Viterbi training; bounds, labels, results."""

import warnings
from functools import cache
from typing import Any

import arviz_stats
import jax
import numpy as np
import pytest
from chain_cells import STATES, cell_of
from identities import climbed
from naive import SHORT, equal, m_step, near, neighbours_increase
from naive_chain import STARTS, WEIGHT, Weights, build, exact_posterior, random_sites, steps, summed, weights_of
from scipy.special import digamma
from xarray import DataTree

from inference import compare, fit, results
from inference.engine.evaluate import evaluate, latents_of_draws, num_latents
from inference.engine.sweep import BLOCK, local_step
from inference.identification.relabel import identify_draws
from inference.methods import cavi, hard_em
from inference.results.table import data_of
from inference.results.triangles import sites_of
from models import MODELS, Data, Model, load_data
from models.data.documents import Sequences, documents
from models.rows.encoded import spread
from models.symmetries import Permutation

TEXTS = [[0, 0, 1], [1], [1, 0]]  # codes of three sequences of two symbols: 2⁶ paths


def texts() -> Data:
    return documents([["ab"[code] for code in row] for row in TEXTS])


# ---------------------------------------------------------------------------------------------------------------------
# EM


def baum_welch(found: Any, sites: dict[str, np.ndarray], hard: bool) -> dict[str, np.ndarray]:
    """One step of MAP-EM on symbols or Poisson counts: expected counts of all paths, or of the best one, and the prior's."""
    name = "categorical" if "emission_probs" in sites else "poisson"
    hyper, size = found.model.hyper, len(sites["start_probs"])
    start, transition = hyper["start_concentration"] - 1, hyper["transition_concentration"] - 1
    start, transition = start.copy(), transition.copy()
    weight = np.zeros((len(found.data.x), size))
    for n, weights in enumerate(weights_of(name, sites, found.data, found.allowed)):
        row = summed(weights)
        state, pair = (np.eye(size)[row.best], np.zeros((size, size))) if hard else (row.state, row.pair)
        if hard:
            np.add.at(pair, (row.best[:-1], row.best[1:]), 1)
        start += found.weight[n] * state[0]
        transition += found.weight[n] * np.column_stack([pair, state[-1]])[:, : transition.shape[1]]
        weight[STARTS[n] : STARTS[n + 1]] = found.weight[n] * state
    sites = {"start_probs": start / start.sum(), "transition_probs": transition / transition.sum(1, keepdims=True)}
    x = found.data.x
    seen = ~np.isnan(x)
    if name == "categorical":
        codes = np.where(seen, x, 0).astype(int)[:, 0]
        emitted = (weight * seen).T @ np.eye(3)[codes] + hyper["emission_concentration"] - 1
        return sites | {"emission_probs": emitted / emitted.sum(1, keepdims=True)}
    events = hyper["shape"] - 1 + weight.T @ np.where(seen, x, 0)
    return sites | {"rate": events / (hyper["inverse_scale"] + weight.T @ seen)}


@pytest.mark.parametrize("name", ["categorical", "poisson"])
def test_em_is_baum_and_welchs(name):
    """Three steps with labels, weights, missing steps and cells, by counting along every path (document 002)."""
    found = cell_of(name, False)
    points = climbed(found.model, found.data, found.sites, max_iter=3, tol=0)
    sites = found.sites
    for _ in range(3):
        sites = baum_welch(found, sites, hard=False)
    assert all(near(points.sites[site][0], value, rtol=1e-10) for site, value in sites.items())


@pytest.mark.slow
def test_em_of_gaussians():
    """The M-step is the mixture's, with the expected states of all paths in the place of memberships."""
    found = cell_of("diag", True)
    points = climbed(found.model, found.data, found.sites, max_iter=1, tol=0)
    state = np.concatenate([row.state for row in found.wanted])
    wanted = m_step("diag", found.model.hyper, state, found.data.x, learned=False)
    assert all(near(points.sites[site][0], value, rtol=1e-10) for site, value in wanted.items())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "plain"), [("categorical", False), ("diag", True)])
def test_em_climbs_to_the_map(name, plain):
    """The log joint never falls by more than rounding; where it ends MAP on the program ends as well, to 1e-6."""
    found = cell_of(name, plain)
    points = climbed(found.model, found.data, found.sites)
    assert points.converged.all()
    assert neighbours_increase(points.objective[0], 1e-11)
    best = {site: value[0] for site, value in points.sites.items()}
    tree = fit(found.model, found.data, "map", start=best)
    assert float(tree["functionals"]["log_joint"]) == pytest.approx(points.objective[0][-1], rel=1e-6)
    for site, value in best.items():
        assert near(tree["point_estimate"][site], value, atol=1e-3)


def test_hard_em_is_viterbi_training():
    """Three steps by the best of all paths; the log joint of data and path never falls, and settles."""
    found = cell_of("poisson", False)
    points = climbed(found.model, found.data, found.sites, max_iter=3, tol=0, method=hard_em.FIXED_POINT)
    sites = found.sites
    for _ in range(3):
        sites = baum_welch(found, sites, hard=True)
    assert all(near(points.sites[site][0], value, rtol=1e-10) for site, value in sites.items())
    points = climbed(found.model, found.data, found.sites, method=hard_em.FIXED_POINT)
    assert points.converged.all()
    assert neighbours_increase(points.criterion[0], 1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Variational Bayes


@cache
def bounds(num_states: int, boundary: bool) -> tuple[np.ndarray, float]:
    """(the trace of the bound from a start of the zoo, the exact log evidence)."""
    model = MODELS["hmm"](texts(), num_states=num_states, boundary=boundary)
    return climbed(model, texts(), None, method=cavi.FIXED_POINT).criterion, exact_posterior(model, TEXTS, 2).log_evidence


@pytest.mark.slow
@pytest.mark.parametrize("boundary", [True, False])
def test_the_bound_rises_and_stays_below_the_evidence(boundary):
    """The evidence is a sum over the 64 paths of closed forms."""
    traces, evidence = bounds(2, boundary)
    assert neighbours_increase(traces[0], 1e-11)
    assert np.nanmax(traces) < evidence


@pytest.mark.slow
def test_the_bound_of_one_state_is_the_evidence():
    """With nothing to sum over q(θ) is the posterior."""
    traces, evidence = bounds(1, True)
    assert near(np.nanmax(traces), evidence, rtol=1e-12)


@pytest.mark.slow
def test_cavis_first_step_uses_expected_logs():
    """From E[log θ] under nu, not log of a mean: two naive steps on symbols, every path weighed by exp of expected logs."""
    model = MODELS["hmm"](texts(), num_states=2)
    sites = random_sites("categorical") | {"emission_probs": np.array([[0.7, 0.3], [0.4, 0.6]])}
    prior = [np.array(model.hyper[f"{name}_concentration"]) for name in ("start", "transition")]
    prior.append(np.tile(model.hyper["emission_concentration"], (2, 1)))
    logs = [np.log(sites[name]) for name in ("start_probs", "transition_probs", "emission_probs")]
    for _ in range(3):
        nu = [part.copy() for part in prior]
        for codes in TEXTS:
            row = summed(Weights(logs[0], logs[1][:, :2], logs[1][:, 2], logs[2][:, codes].T))
            nu[0] += row.state[0]
            nu[1] += np.column_stack([row.pair, row.state[-1]])
            np.add.at(nu[2].T, codes, row.state)
        logs = [digamma(part) - digamma(part.sum(-1, keepdims=True)) for part in nu]
    points = climbed(model, texts(), sites, max_iter=3, tol=0, method=cavi.FIXED_POINT)
    wanted = [np.exp(part) for part in logs]
    names = ("start_probs", "transition_probs", "emission_probs")
    assert all(near(points.sites[name][0], value, rtol=1e-10) for name, value in zip(names, wanted, strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# Labels


def scrambled(rng: np.random.Generator, orders: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draws of one labelling, and the same with states permuted draw by draw, one entry at a time."""
    base = random_sites("diag", 3)
    sites = {name: value + 0.01 * rng.random((len(orders), *value.shape)) for name, value in base.items()}
    moved = {name: value.copy() for name, value in sites.items()}
    for s, order in enumerate(orders):
        for i in range(3):
            for name in ("start_probs", "mean", "precision"):
                moved[name][s, i] = sites[name][s, order[i]]
            for j in range(4):
                column = order[j] if j < 3 else 3
                moved["transition_probs"][s, i, j] = sites["transition_probs"][s, order[i], column]
    return sites, moved


def test_states_are_relabelled_together():
    """Starts, rows and columns of the transitions and emissions move together, and the column of the stop stays."""
    rng = np.random.default_rng(0)
    orders = np.array([[0, 1, 2], *rng.permuted(np.tile(np.arange(3), (19, 1)), axis=1)])
    sites, moved = scrambled(rng, orders)
    model = build("diag", steps("diag"), 3)
    assert model.symmetry == Permutation("state", also=("next_state",))
    for name, value in sites.items():
        assert equal(model.symmetry.moved({name: value}, model.naming.dims, orders)[name], moved[name])
    latents = np.eye(3)[np.arange(12) % 3][None] * 0.97 + 0.01
    latents = np.stack([latents[0][:, order] for order in orders])
    back = identify_draws(moved, model.symmetry, model.naming.dims, latents, 0, 12)
    assert all(equal(back.sites[name], value) for name, value in sites.items())
    assert not back.warnings


# ---------------------------------------------------------------------------------------------------------------------
# Results


@pytest.mark.slow
def test_draws_are_relabelled_by_steps():
    """By the expected states of steps that there are, one sequence after another, evenly spread over all of them."""
    found = cell_of("diag", True)
    points = [found.sites, random_sites("diag", 2, False, seed=2)]
    draws = {name: np.stack([point[name] for point in points]) for name in found.sites}
    arrays = (dict(found.model.hyper), dict(found.model.prior), found.model.rows(found.data))
    wanted = [[summed(weights).state for weights in weights_of("diag", point, found.data)] for point in points]
    wanted = np.stack([np.concatenate(rows) for rows in wanted])
    with jax.enable_x64(True):
        assert num_latents(found.model, *arrays, draws) == 11
        for most in (100, 6):
            latents = latents_of_draws(found.model, *arrays, draws, most)
            assert near(latents, wanted[:, spread(11, most)], atol=1e-6)


@cache
def fitted() -> tuple[Model, Data, Any]:
    """Gibbs on ragged sequences with labels that are not states, weights of 0 and 1, and missing steps."""
    data = load_data(cell_of("categorical", False).data, weight=np.repeat(np.where(WEIGHT > 0, 1.0, 0.0), np.diff(STARTS)))
    model = build("categorical", data, 3)
    return model, data, fit(model, data, "gibbs", **SHORT["gibbs"])


@pytest.mark.slow
def test_relabelling_changes_no_density():
    """The log joint of draws is that of their raw form: what moved, moved together."""
    model, data, tree = fitted()
    arrays = (dict(model.hyper), dict(model.prior), model.rows(data))
    raw, moved = (
        {str(name): value.values.reshape(-1, *value.shape[2:]) for name, value in tree[group].data_vars.items()}
        for group in ("posterior_raw", "posterior")
    )
    assert all((raw[name] != moved[name]).any() for name in raw)
    with jax.enable_x64(True):
        found = [evaluate(model, *arrays, sites).log_joint for sites in (raw, moved)]
    assert near(*found, rtol=1e-10)


@pytest.mark.slow
def test_results_come_back(tmp_path):
    """From disk: the draws, and the data with its sequences, labels, candidates, weights and missing steps."""
    model, data, tree = fitted()
    results.save(tree, tmp_path / "results.nc")
    back = results.load(tmp_path)
    assert all(equal(back["posterior"][name], value) for name, value in tree["posterior"].data_vars.items())
    found = data_of(back)
    for part in ("x", "starts", "labels", "candidates", "weight"):
        assert equal(getattr(found, part), getattr(data, part))
    assert (found.columns, found.levels, found.categories) == (data.columns, data.levels, data.categories)
    pairs = zip(jax.tree.leaves(model.rows(found)), jax.tree.leaves(model.rows(data)), strict=True)
    assert all(equal(one, other) for one, other in pairs)


@pytest.mark.slow
def test_results_are_by_state_and_step():
    """Dimensions and coordinates; beyond the end of a sequence there is no state."""
    _, _, tree = fitted()
    posterior, latent = tree["posterior"], tree["latent"]
    assert posterior["transition_probs"].dims == ("chain", "draw", "state", "next_state")
    assert posterior["next_state"].values.tolist()[-1] == "*"
    assert latent["state_probs"].dims == ("row", "time", "state")
    there = np.arange(4)[None, :] < np.diff(STARTS)[:, None]
    assert equal(np.isnan(latent["state_probs"]).all("state"), ~there)
    assert equal(latent["decode"].values == -1, ~there)
    assert near(latent["state_probs"].sum("state").values[there], np.ones(there.sum()), atol=1e-5)
    assert tree["log_likelihood"]["x"].sizes["row"] == 5


@pytest.mark.slow
def test_labelled_states_are_named():
    """By their labels, in results as well; a step whose state is known is in it."""
    found = cell_of("categorical", False)
    tree = fit(found.model, found.data, "em", start=found.sites, max_iter=1)
    assert tree["point_estimate"]["next_state"].values.tolist() == [*STATES, "*"]
    assert near(tree["latent"]["state_probs"][0, 0], [0, 1, 0])
    assert tree["latent"]["decode"].values[0, 0] == 1


@pytest.mark.slow
def test_results_are_compared():
    """Elpd is ArviZ's, over the four sequences of weight 1, of densities summed over all paths; weights are those of steps."""
    _, data, tree = fitted()
    rows = tree["log_likelihood"].to_dataset()["x"]
    for chain, draw in ((0, 0), (1, 3)):
        sites = {name: site[chain, draw] for name, site in sites_of(tree, "posterior_raw").items()}
        assert near(
            rows[chain, draw], [summed(weights).log_partition for weights in weights_of("categorical", sites, data)], rtol=1e-9
        )
    kept = tree.copy()
    kept["log_likelihood"] = DataTree(rows[..., WEIGHT > 0].to_dataset())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k-hat, of so few draws
        wanted = arviz_stats.loo(kept, var_name="x", pointwise=True)
    found = compare({"gibbs": tree}).table.iloc[0]
    assert near(found[["elpd", "se", "k-hat"]].astype(float), [wanted.elpd, wanted.se, wanted.pareto_k.max()], rtol=1e-9)
    total = tree["functionals"]["log_likelihood"].values
    assert near(rows.values @ np.where(WEIGHT > 0, 1.0, 0.0), total, rtol=1e-9)


@pytest.mark.slow
def test_many_sequences_are_read_together_or_in_blocks():
    """More than a block of them, which is no slice of rows that lie together: the same statistics either way."""
    rng = np.random.default_rng(0)
    lengths = rng.geometric(0.3, BLOCK + 50)
    words = Sequences(rng.integers(3, size=lengths.sum()).astype(np.int32), np.append(0, np.cumsum(lengths)))
    data = Data("many", words, ("a", "b", "c"))
    model = MODELS["hmm"](data, num_states=2)
    probs = rng.dirichlet(np.ones(3), 4)
    sites = {"start_probs": np.array([0.3, 0.7]), "transition_probs": probs[:2], "emission_probs": probs[2:]}
    algebra = model.algebra

    def found(rows):
        T = algebra.natural(model.hyper, sites)
        return local_step(algebra, "mean", model.hyper, jax.random.PRNGKey(0), T, rows)

    rows = model.rows(data)
    assert rows.row_info.atomic
    for one, other in zip(jax.tree.leaves(found(rows)), jax.tree.leaves(found(rows._replace(packing=None))), strict=True):
        assert near(one, other, rtol=1e-12)
