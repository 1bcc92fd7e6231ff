"""Latents of two rows that depend on each other are seen, whichever rows they are, and a row or a direction that stays."""

from functools import partial
from itertools import combinations

import dependent_rows
import jax
import numpy as np
import pytest
from scipy.linalg import eigh

from inference.certificates.checks.cases import built, stacked_rows
from inference.certificates.checks.figure import MOST
from inference.certificates.laws import kernel_law
from inference.certificates.laws.kernel_law import FIXED, deviations, law_check, law_of, least_changed, of_latents
from inference.certificates.laws.kernels import (
    KernelOf,
    Ran,
    as_the_oracle,
    gibbs_kernel,
    ran,
    still_place,
    twin_latents,
    with_latents,
)
from inference.certificates.laws.kernels_on_reals import KERNELS
from inference.certificates.oracles import oracle_of
from inference.certificates.oracles.oracle import FEW, HIDDEN, drawn_rows, pairs_of_rows
from inference.certificates.witnesses.of_checks import of_law
from inference.certificates.witnesses.witness import differences, witness_of
from inference.methods import gibbs


def by_hand(latent, codes, lengths):
    """Of one table: the share of equal values among all pairs of an entry of a row and another, of that row or another."""
    rows = [row[:length] for row, length in zip(codes, lengths, strict=True)]
    found = {}
    for one, other in [*combinations(range(len(rows)), 2), *((row, row) for row in range(len(rows)))]:
        pairs = [(a, b) for s, a in enumerate(rows[one]) for t, b in enumerate(rows[other]) if one != other or s != t]
        found[f"{latent} {one} = {other}"] = sum(a == b for a, b in pairs) / max(len(pairs), 1)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_shares_of_equal_latents_are_those_that_are_counted_one_by_one(seed):
    rng = np.random.default_rng(seed)
    tables, rows, steps = rng.integers((1, 2, 1), (5, 5, 6))
    codes = rng.integers(0, 3, (tables, rows, steps)).astype([np.int64, np.uint8][seed % 2])
    length = rng.integers(1, steps + 1, (tables, rows))
    found = pairs_of_rows("path", {"path": codes, "length": length})
    wanted = [by_hand("path", *table) for table in zip(codes, length, strict=True)]
    assert set(found) == set(wanted[0])
    for name, values in found.items():
        np.testing.assert_allclose(values, [table[name] for table in wanted], rtol=1e-12)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_which_rows_are_equal_is_told_for_whole_numbers_of_any_kind(kind):
    """Of all pairs of three rows, and of neighbours among many; of rows without a label alone."""
    found = pairs_of_rows("component", {"component": np.array([[0, 0, 1], [2, 1, 1]], kind)})
    assert {name: values.tolist() for name, values in found.items()} == {
        "component 0 = 1": [True, False],
        "component 0 = 2": [False, False],
        "component 1 = 2": [False, True],
    }
    many = pairs_of_rows("component", {"component": np.zeros((2, FEW + 1), kind)})
    assert list(many) == [f"component {row} = {row + 1}" for row in range(FEW)]
    labelled = {"component": np.zeros((2, 4), kind), "label": np.array([[0, HIDDEN, 0, HIDDEN]] * 2)}
    assert list(pairs_of_rows("component", labelled)) == ["component 1 = 3"]


def test_products_of_real_latents_do_not_depend_on_signs():
    scores = np.random.default_rng(0).normal(size=(5, 3, 2))
    found = pairs_of_rows("score", {"score": scores})
    assert list(found) == ["score 0 × 1", "score 0 × 2", "score 1 × 2"]
    np.testing.assert_allclose(found["score 0 × 2"], [row[0] @ row[2] for row in scores])
    turned = pairs_of_rows("score", {"score": scores * [1, -1]})
    for name, values in found.items():
        np.testing.assert_allclose(turned[name], values)


def test_a_truth_value_has_no_spread_of_its_own():
    values = np.arange(6) % 2 == 0
    assert list(deviations({"a": values, "b": 1.0 * values}, {"a": ~values, "b": 1.0 * values})) == ["a", "b", "b, spread"]


# ---------------------------------------------------------------------------------------------------------------------
# The latents of the zoo's kernels


def swept(model, key, rows, sites):
    """Sites after a sweep of `gibbs` itself."""
    T = model.algebra.natural(dict(model.hyper), sites)
    return gibbs.step(model.algebra, (dict(model.hyper), dict(model.prior), rows), key, T)[1][0]


@pytest.mark.parametrize("name", ["gmm_simple", "latent_dirichlet"])
def test_a_sweep_that_keeps_its_latents_draws_what_it_drew(name):
    oracle = oracle_of(name)
    rng = np.random.default_rng(0)
    model, sites = built(oracle), oracle.draw_parameters(rng, 2)
    tables = oracle.draw_tables(rng, sites)
    readable = [oracle.table(tables, replicate) for replicate in range(2)]
    found = gibbs_kernel(model, sites, readable, 5, 1)
    rows, keys = stacked_rows(model, readable), jax.random.split(jax.random.PRNGKey(5), 2)
    for replicate in range(2):
        own = jax.tree.map(lambda leaf, r=replicate: leaf[r], (rows, dict(sites)))
        key = jax.random.split(keys[replicate], 1)[0]
        wanted = jax.jit(partial(swept, model))(key, *own)
        for site, value in wanted.items():
            np.testing.assert_allclose(found.sites[site][replicate], value, rtol=1e-5)


def told_by_their_values(name, rng, number):
    """Parameters under which a word, or a symbol, tells the topic or the state, and tables with the code of each."""
    oracle = oracle_of(name)
    sites = oracle.draw_parameters(rng, number)
    emits = {"latent_dirichlet": "word_probs", "hmm": "emission_probs"}[name]
    sites[emits] = np.broadcast_to([[0.5 - 1e-9, 1e-9, 0.5], [1e-9, 1.0 - 2e-9, 1e-9]], sites[emits].shape).copy()
    tables = oracle.draw_tables(rng, sites)
    return oracle, sites, tables, 1 * (tables["x"] == 1)


@pytest.mark.parametrize("name", ["latent_dirichlet", "hmm"])
def test_latents_of_the_zoo_are_in_the_order_of_the_oracle(name):
    """A token's topic belongs to its word, a step's state to its symbol; the zoo sorts the tokens of a document."""
    oracle, sites, tables, wanted = told_by_their_values(name, np.random.default_rng(1), 20)
    readable = [oracle.table(tables, replicate) for replicate in range(20)]
    right, _ = twin_latents(built(oracle), sites, readable, 0, (0, 1))
    np.testing.assert_array_equal(as_the_oracle(oracle, tables, right), wanted)


def test_collapsed_topics_are_in_the_order_of_the_oracle():
    oracle, sites, tables, wanted = told_by_their_values("latent_dirichlet", np.random.default_rng(2), 5)
    model, found = built(oracle), []
    for replicate in range(5):
        hyper = {name: np.asarray(value, float) for name, value in model.hyper.items()}
        sampler = model.algebra.structure.collapsed.sampler(hyper, model.rows(oracle.table(tables, replicate)))
        begun = sampler.start(0, replicate, {name: value[replicate] for name, value in sites.items()})
        found.append(sampler.latents(begun))
    np.testing.assert_array_equal(as_the_oracle(oracle, tables, np.stack(found)), wanted)


def law_of_mutant(name, sample, replicates):
    """Deviations of `gibbs` with another update of its latents."""
    oracle = oracle_of(name)
    model = built(oracle)
    algebra = model.algebra._replace(latent=model.algebra.latent._replace(sample=sample(model.algebra.latent.sample)))
    return law_of(oracle, model._replace(algebra=algebra), KERNELS["gibbs"], replicates)(1, 1)


def beyond(found, name, least=MOST + 1):
    """Whether a statistic deviates, and none of other pairs of rows does."""
    latent = name.split()[0]
    others = [value for key, value in found.items() if key.split()[0] == latent and not key.startswith(name)]
    return abs(found[name]) > least and max(map(abs, others)) < MOST


def test_rows_that_share_random_numbers_are_seen_whichever_they_are():
    found = law_of_mutant("gmm_simple", lambda right: dependent_rows.components(2, 4), 1_000)
    assert beyond(found, "component 2 = 4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sample", "seen"),
    [
        ("gmm", lambda right: dependent_rows.components(0, 1), "component 0 = 1"),
        ("gmm", lambda right: dependent_rows.components(1, 3, antithetic=True), "component 1 = 3"),
        ("hmm", lambda right: dependent_rows.paths(0, 1), "path 0 = 1"),
        ("factor_analysis", lambda right: dependent_rows.scores(right, 0, 1), "score 0 × 1"),
        ("factor_analysis", lambda right: dependent_rows.scores(right, 1, 3, antithetic=True), "score 1 × 3"),
    ],
)
def test_shared_and_opposite_numbers_of_two_rows_are_seen(name, sample, seen):
    """Each row alone has the right law, and no other pair of rows is accused."""
    assert beyond(law_of_mutant(name, sample, 5_000), seen)


@pytest.mark.parametrize(("name", "method"), [("gmm_simple", "tempered_gibbs"), ("factor_analysis", "gibbs")])
def test_shared_numbers_and_a_row_that_stays_are_rejected_by_the_controls(name, method):
    shared, still = of_latents(KERNELS[method], oracle_of(name), 0)
    assert shared.passed
    assert still.passed
    assert [figure.name for figure in (*shared.figures, *still.figures)] == ["shared numbers", "frozen row"]


def test_a_check_that_is_blind_to_the_first_rows_has_controls_that_say_so(monkeypatch):
    """As the law of a kernel was that had statistics of the last two rows alone."""

    def last_alone(latent, tables):
        return dict([*pairs_of_rows(latent, tables).items()][-1:])

    monkeypatch.setattr(kernel_law, "pairs_of_rows", last_alone)
    shared, _ = of_latents(KERNELS["gibbs"], oracle_of("gmm_simple"), 0)
    assert not shared.passed
    assert "NOT rejected" in shared.says


def test_a_certificate_that_lacks_a_statistic_is_of_other_numbers(monkeypatch):
    """Also where the statistic that it has instead has the same values."""
    numbers = of_law(KERNELS["gibbs"], oracle_of("gmm_simple"), 1)
    stored = witness_of(numbers)
    assert not differences(stored, numbers)
    without = {name: value for name, value in stored.items() if name != "names"}
    assert [found.name for found in differences(without, numbers)] == ["names"]

    def renamed(latent, tables):
        return {f"rows of {name}": values for name, values in pairs_of_rows(latent, tables).items()}

    monkeypatch.setattr(kernel_law, "pairs_of_rows", renamed)
    found = differences(stored, of_law(KERNELS["gibbs"], oracle_of("gmm_simple"), 1))
    assert [each.name for each in found] == ["names"]


def test_a_row_with_a_label_may_stay_and_no_other():
    oracle = oracle_of("naive_bayes")
    rng = np.random.default_rng(0)
    sites = oracle.draw_parameters(rng, 50)
    tables = oracle.draw_tables(rng, sites)
    assert drawn_rows(tables) == [4, 5]
    latents, place = tables["component"].copy(), still_place("component")
    latents[:, 4:] = 1 - latents[:, 4:]
    assert with_latents(oracle, tables, Ran({}, {}), latents).still == {"component": 0.0, place: 0.0}
    latents[:, 5] = tables["component"][:, 5]
    assert with_latents(oracle, tables, Ran({}, {}), latents).still == {"component": 0.0, place: 1.0}


# ---------------------------------------------------------------------------------------------------------------------
# Directions


@pytest.mark.parametrize("seed", range(20))
def test_the_direction_that_changes_least_is_the_smallest_of_a_generalised_eigenproblem(seed):
    rng, size = np.random.default_rng(seed), 1 + seed % 5
    before = rng.normal(size=(200, size)) @ rng.normal(size=(size, size))
    after = before + rng.normal(size=(200, size)) @ rng.normal(size=(size, size))
    covariances = (np.atleast_2d(np.cov(value, rowvar=False)) for value in (after - before, before))
    assert least_changed(before, after) == pytest.approx(1 - eigh(*covariances, eigvals_only=True)[0] / 2, rel=1e-6, abs=1e-6)


def weights_that_keep_a_contrast(rng):
    before = rng.dirichlet([2.0, 2.0, 2.0], 300)
    grown = before * np.array([1.0, 1.0, 0.0]) + np.array([0.0, 0.0, 1.0]) * rng.gamma(2.0, size=(300, 1))
    return before, grown / grown.sum(-1, keepdims=True)  # log w₀ − log w₁ stays, and every entry moves


def means_that_keep_their_sum(rng):
    before = rng.normal(size=(300, 2, 2))
    away = rng.normal(size=(300, 2))
    return before, before + np.stack([away, -away], axis=1)


def precisions_that_keep_their_product(rng):
    before = rng.gamma(3.0, size=(300, 2))
    factor = rng.gamma(3.0, size=(300, 1))
    return before, before * np.concatenate([factor, 1 / factor], axis=1)


@pytest.mark.parametrize("kept", [weights_that_keep_a_contrast, means_that_keep_their_sum, precisions_that_keep_their_product])
def test_a_combination_that_never_changes_is_seen_although_every_entry_moves(kept):
    before, after = kept(np.random.default_rng(0))
    assert ran({"x": before}, {"x": after}).still == {"x": 0.0}
    assert not abs(least_changed(before, after)) <= FIXED


def test_what_a_constraint_keeps_is_no_direction():
    """Probabilities that sum to 1, symmetric matrices, and a site that is a constant."""
    rng = np.random.default_rng(0)
    before, after = (rng.dirichlet([2.0, 3.0, 4.0], (300, 2)) for _ in range(2))
    assert least_changed(before, after) < 0.9
    roots = (rng.normal(size=(300, 2, 2)) for _ in range(2))
    assert least_changed(*(root @ np.swapaxes(root, 1, 2) for root in roots)) < 0.9
    assert least_changed(np.ones((5, 2)), np.ones((5, 2))) == 0.0
    assert np.isnan(least_changed(before, np.full_like(before, np.nan)))


def test_a_kernel_that_keeps_a_contrast_fails():
    """The difference of the two means stays, and all means move."""

    def kept(model, sites, tables, seed, steps):
        noise = np.random.default_rng(seed).normal(size=(len(sites["mean"]), 1, sites["mean"].shape[2]))
        return ran(sites, {"mean": sites["mean"] + noise})

    check = law_check(KernelOf(kept), oracle_of("gmm_simple"), 1, 100)
    assert "mean before and after" in {figure.name for figure in check.figures if not figure.passed}
    assert not any(figure.unit == "share" and not figure.passed for figure in check.figures)
