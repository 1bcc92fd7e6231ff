"""The table of verdicts: every line with a result on either side of its threshold; false alarms, and what is not missed."""

import json
import re
from collections.abc import Callable

import numpy as np
import numpyro
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from drawn_results import RNG, cut_off, drawn, failed, normal, optimised, shifted, wandering
from numpyro import distributions as dist
from scipy import stats

from inference import fit
from inference.diagnostics.checks import diagnose, problems_of
from inference.diagnostics.starts import describe_starts
from inference.diagnostics.summaries import raw_rhat
from inference.diagnostics.verdicts import VERDICTS, Finding, judge, largest_rhat, problem_of, verdict_on
from inference.engine.task import Kind, kind_of
from inference.identification.invariants import invariant
from inference.report.reading import _verdict
from models.symmetries import Permutation, Reflection, Rotation


def with_log_joint(values: np.ndarray) -> xr.DataTree:
    tree = drawn(normal())
    tree["functionals"] = xr.DataTree(tree["functionals"].to_dataset().assign(log_joint=(("chain", "draw"), values)))
    return tree


def unsure(share: float) -> dict[str, np.ndarray]:
    """A share of draws whose labels are no better than others."""
    confidence = np.where(np.arange(1000).reshape(2, 500) < share * 1000, 0.5, 1.0)
    return {"relabel_confidence": confidence, "permutation": confidence}


def weighed(final: list[float], log_mass: list[float]) -> xr.DataTree:
    """The optima of a search for the highest one, each reached by two starts, with masses that grow."""
    tree = optimised([each for each in final for _ in range(2)])
    mode, mass = np.repeat(np.arange(len(final))[::-1], 2), np.repeat(log_mass, 2)
    found = tree["optimization"].to_dataset().assign(mode=("start", mode), log_mass=("start", mass))
    tree["optimization"] = xr.DataTree(found)
    return tree


def rare_visits(theta: np.ndarray) -> np.ndarray:
    """The same draws in another order: each chain is in its upper tail once, for all of its draws there."""
    largest = theta >= np.quantile(theta, 0.95, axis=1, keepdims=True)
    return np.stack([np.concatenate([chain[~there], chain[there]]) for chain, there in zip(theta, largest, strict=True)])


LATE = [0.0, -2e-6, *([-5.0] * 8)]  # beside 0 a gap of 2e-6 is another optimum
SIDES: dict[str, tuple[Callable[[], xr.DataTree], Callable[[], xr.DataTree]]] = {  # diagnostic: one that passes, one that fails
    "interrupted": (lambda: drawn(normal()), lambda: drawn(normal(), interrupted=1)),
    "log joint": (
        lambda: drawn(normal()),
        lambda: with_log_joint(np.where(np.arange(2000).reshape(4, 500) == 3, np.inf, normal())),
    ),
    "single precision": (
        lambda: drawn(normal(), precision_gap=0.09, precision_log_joint=-1e5),
        lambda: drawn(normal(), precision_gap=2e-3, precision_log_joint=-200.0),
    ),
    "number of chains": (lambda: drawn(normal(2)), lambda: drawn(normal(1))),
    "number of draws": (lambda: drawn(normal(4, 4)), lambda: drawn(normal(4, 3))),
    "chains that stand still": (lambda: drawn(normal()), lambda: drawn(normal() * (np.arange(4) != 2)[:, None])),
    "R-hat": (lambda: drawn(shifted(0.1)), lambda: drawn(shifted(0.18))),
    "unvisited mode": (
        lambda: drawn(normal(), unvisited_share=0.049, unvisited_mode="there", modes_remedy="go"),
        lambda: drawn(normal(), unvisited_share=0.051, unvisited_mode="there", modes_remedy="go"),
    ),
    "other modes": (
        lambda: drawn(normal()),
        lambda: drawn(normal(), modes_unknown="nobody has looked", modes_remedy="look"),
    ),
    "effective sample size": (lambda: drawn(normal(4, 130)), lambda: drawn(normal(4, 80))),
    "divergences": (
        lambda: drawn(normal(), stats={"diverging": np.zeros((4, 500), bool)}),
        lambda: drawn(normal(), stats={"diverging": np.arange(2000).reshape(4, 500) == 7}),
    ),
    "tail effective sample size": (lambda: drawn(normal(4, 150)), lambda: drawn(rare_visits(normal()))),
    "energy": tuple((lambda c=c: drawn(normal(), stats={"energy": wandering(c)})) for c in (0.8, 0.9)),
    "tree depth": tuple((lambda n=n: drawn(normal(), stats=cut_off(n))) for n in (0.09, 0.11)),
    "few ancestors": tuple((lambda n=n: drawn(normal(), effective_ancestors=f"[{n}]")) for n in (5.1, 4.9)),
    "Pareto k-hat": (
        lambda: drawn(normal(), "approximation", pareto_k=0.69),
        lambda: drawn(normal(), "approximation", pareto_k=0.71),
    ),
    "no Pareto k-hat": (
        lambda: drawn(normal(), "approximation"),
        lambda: drawn(normal(), "approximation", no_pareto_k="of this"),
    ),
    "parts alike": (
        lambda: drawn(normal(2), "approximation", stats=unsure(0.49)),
        lambda: drawn(normal(2), "approximation", stats=unsure(0.51)),
    ),
    "another mode": (
        lambda: optimised([-3.1, 0.0], distance=[2.0, 0.0]),
        lambda: optimised([-2.9, 0.0], distance=[2.0, 0.0]),
    ),
    "heavier optimum": (lambda: weighed([0.0, -2.0], [-5.0, -4.1]), lambda: weighed([0.0, -2.0], [-5.0, -3.9])),
    "iterations": (lambda: optimised([0.0]), lambda: optimised([0.0], converged=False)),
    "gradient": (lambda: optimised([0.0], iterations=6), lambda: optimised([0.0], converged=False, iterations=6)),
    "starts at the best objective": (lambda: optimised([0.0, -1e-7, *([-5.0] * 8)]), lambda: optimised(LATE)),
}


@pytest.mark.parametrize("diagnostic", SIDES)
def test_either_side_of_every_threshold(diagnostic):
    good, bad = (make() for make in SIDES[diagnostic])
    assert diagnostic not in failed(good)
    assert diagnostic in failed(bad)
    found = diagnose(bad)
    assert found.exit_status >= verdict_on(diagnostic).exit
    said = re.compile(re.sub(r"\\{.*?\\}", ".*", re.escape(verdict_on(diagnostic).sentence)))
    assert any(said.fullmatch(line) for line in (*found.problems, *found.remarks, found.interrupted))


def test_every_line_of_the_table_has_both_sides():
    """That of rows left out is measured by `compare`, and tested there."""
    assert set(SIDES) | {"Pareto k-hat of rows"} == {each.diagnostic for each in VERDICTS}
    assert {each.diagnostic: each.exit for each in VERDICTS if each.exit != 3} == {
        "interrupted": 130,
        "other modes": 0,
        "heavier optimum": 0,
        "tree depth": 0,
        "Pareto k-hat of rows": 0,
    }


def test_that_a_search_has_not_ended_comes_first():
    """It explains what else is wrong: of an approximation that has not got there, a large k-hat is no news."""
    found = {
        "Pareto k-hat": Finding(np.array([2.0]), size=1000),
        "parts alike": Finding(np.array([1.0]), details={"what": "components"}),
        "another mode": Finding(np.array([0.5]), details={"total": 2, "share": "61%"}),
        "iterations": Finding(np.array([1]), details={"taken": 2, "advice": ": raise max_iter"}),
    }
    assert [problem.diagnostic for problem in judge(Kind.APPROXIMATION, found)] == ["iterations", *list(found)[:3]]


def test_what_the_sides_are_made_of():
    """R-hat and effective sizes that are near the thresholds, by ArviZ itself: an R-hat of 1.1 would not be noticed."""
    lead = {"chain_axis": 0, "draw_axis": 1}
    good, bad = (float(array_stats.rhat(shifted(by), **lead)) for by in (0.1, 0.18))
    assert good < 1.01 < bad < 1.03
    few, enough = (float(array_stats.ess(normal(4, n), **lead)) for n in (80, 130))
    assert 250 < few < 400 < enough < 600


def test_a_healthy_result_passes():
    assert failed(drawn(normal())) == set()
    assert diagnose(drawn(normal())).exit_status == 0


@pytest.mark.parametrize("kind", ["independent", "approximation"])
def test_independent_draws_have_no_rhat(kind):
    """Nor an effective size, nor a word on relabelling: there is nothing that could disagree."""
    tree = drawn(shifted(0.5), kind)
    tree["posterior_raw"] = tree["posterior"].copy()
    assert failed(tree) == set()
    assert raw_rhat(tree) == ""
    assert {"R-hat", "effective sample size"} <= failed(drawn(shifted(0.5)))


def test_sentences_are_whole():
    """Every place in a sentence is filled, and says what is wrong and what to do in no more than three lines of 80 columns."""
    for _, bad in SIDES.values():
        for problem in problems_of(bad()):
            assert "{" not in problem.sentence
            assert "nan" not in problem.sentence
            assert len(problem.sentence) <= 3 * 80


# ---------------------------------------------------------------------------------------------------------------------
# R-hat of many quantities


def test_healthy_chains_with_500_quantities_pass_and_one_stuck_among_them_fails():
    theta = RNG(1).normal(size=(4, 250, 500))
    largest = float(np.max(array_stats.rhat(theta, chain_axis=0, draw_axis=1)))
    assert largest > 1.01  # by chance: the threshold of one quantity
    assert "R-hat" not in failed(drawn(theta))
    theta[..., 321] += 0.4 * np.array([1, -1, 1, -1])[:, None]
    problems = [problem.sentence for problem in problems_of(drawn(theta)) if problem.diagnostic == "R-hat"]
    assert "theta[321]" in problems[0]


@pytest.mark.parametrize(("chains", "size", "quantities"), [(4, 400, 1), (4, 400, 500), (2, 1000, 50)])
def test_false_alarms_are_as_rare_as_they_say(chains, size, quantities):
    """The law that the threshold stands on: B/W of independent draws is F with 2m − 1 and 2m (n − 1) degrees of freedom.

    Its exact tail, over both forms of R-hat and all quantities, is below twice 1 %, where χ² stands for F.
    """
    found = Finding(np.ones(quantities), size=np.full(quantities, float(size)), num_chains=chains)
    limit, halves = float(largest_rhat(found)[0]), 2 * chains
    n = size / halves
    statistic = (limit**2 - (n - 1) / n) * n
    tail = 2 * quantities * stats.f.sf(statistic, halves - 1, halves * (n - 1))
    assert tail < 0.02
    assert limit == 1.01 or tail > 1e-4  # no wider than it has to be


def test_names_come_in_the_order_of_the_quantities():
    """Where all are as bad as each other."""
    found = [problem.sentence for problem in problems_of(drawn(normal() * (np.arange(4) > 2)[:, None]))]
    assert any("chain 0, chain 1, chain 2 never moved" in line for line in found)


def test_one_quantity_with_many_draws_has_the_usual_threshold():
    assert largest_rhat(Finding(np.ones(1), size=np.array([1e5]), num_chains=4))[0] == 1.01
    assert largest_rhat(Finding(np.ones(1), size=np.array([7.0]), num_chains=4))[0] < 1.04


def test_few_weights_have_a_lower_threshold_of_k():
    """1 − 1 / log10 S: ½ for 100 weights, 0.7 from 2154 on. Of fewer than there has to be for any k-hat, a line says so."""
    assert "too few draws" in diagnose(drawn(normal(2, 10), "approximation", pareto_k=np.nan)).problems[0]
    for size, limit in ((100, 0.5), (1000, 2 / 3), (2200, 0.7), (10**6, 0.7)):
        one, other = (
            problem_of(verdict_on("Pareto k-hat"), Finding(np.array([k]), size=size)) for k in (limit - 1e-3, limit + 1e-3)
        )
        assert one is None
        assert other is not None


# ---------------------------------------------------------------------------------------------------------------------
# Every site counts


def test_chains_at_two_modes_that_no_functional_tells_apart():
    """A program that sees |θ| only: log joints agree, and θ is stuck at −20 and 20."""
    tree = drawn(normal() + 20 * np.array([1, -1, -1, 1])[:, None])
    assert diagnose(tree).exit_status == 3
    assert any("R-hat" in line and "theta" in line for line in diagnose(tree).problems)


def test_labels_that_chains_have_in_other_orders_do_not_count():
    """Where a permutation is declared; chains with other values do."""
    component = np.array([-5.0, 0.0, 5.0])
    same = np.stack([RNG(c).permutation(component) for c in range(4)])[:, None] + 0.1 * RNG(9).normal(size=(4, 500, 3))
    declared = json.dumps({"kind": "Permutation", "dim": "d0", "also": []})
    assert "R-hat" in failed(drawn(same))
    assert failed(drawn(same, symmetry=declared)) == set()
    other = same + np.where(same < -3, 1.0, 0.0) * (np.arange(4) == 0)[:, None, None]
    assert "R-hat" in failed(drawn(other, symmetry=declared))


@pytest.mark.parametrize("symmetry", [Permutation("k", ("l",)), Rotation("k"), Reflection("k")])
def test_summaries_are_what_the_symmetry_leaves(symmetry):
    """Of draws and of what the symmetry makes of them; another value, and a summary at least is another."""
    rng = RNG(3)
    matrix, square, vector = rng.normal(size=(5, 4, 3)), rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 3))
    move = stats.ortho_group.rvs(3, random_state=1) if isinstance(symmetry, Rotation) else np.eye(3)[[2, 0, 1]]
    signed = move * [1, -1, 1] if isinstance(symmetry, Reflection) else move
    moved = {("d", "k"): (matrix, matrix @ signed), ("k",): (vector, vector @ move)}
    if isinstance(symmetry, Permutation):
        moved[("k", "l")] = (square, move.T @ square @ move)
    if isinstance(symmetry, Rotation):
        del moved[("k",)]
    for dims, (one, other) in moved.items():
        labels = [[str(k) for k in range(size)] for size in one.shape[1:]]
        found, again, different = (invariant("x", value, dims, symmetry, labels) for value in (one, other, one + 0.1))
        np.testing.assert_allclose(found.values, again.values, atol=1e-12)
        assert (np.abs(found.values - different.values).max(1) > 1e-3).all()
        assert len(found.names) == len(set(found.names)) == found.values.shape[1]
        few = invariant("x", one, dims, symmetry, labels, most=2)
        assert few.values.shape[1] == len(few.names) <= 4


# ---------------------------------------------------------------------------------------------------------------------
# Methods say what their draws are


def magnitude(x):
    """Two modes of equal height, which nobody has declared."""
    theta = numpyro.sample("theta", dist.Normal(0, 20))
    numpyro.sample("x", dist.Normal(abs(theta), 1.0), obs=x)


@pytest.mark.slow
def test_an_approximation_of_one_of_two_modes():
    """At 20 and −20: the weights of the draws fit, and the starts tell. 512 to 1 that ten starts do not all end on one side."""
    tree = fit(magnitude, 20 + 0.1 * normal(1, 20)[0], "advi", num_samples=50, num_starts=10)
    assert kind_of(tree) is Kind.APPROXIMATION
    assert tree.attrs["exit_status"] == 3
    assert "another mode" in tree.attrs["problems"]
    assert "Pareto" not in tree.attrs["problems"]


def at_modes(mode: list[int], log_mass: list[float], covered: int) -> xr.DataTree:
    """Starts that ended at modes of these masses, of which draws cover the first."""
    tree = optimised(log_mass, distance=[0.0] * len(mode), modes_covered=covered)
    found = tree["optimization"].to_dataset().drop_vars("distance")
    tree["optimization"] = xr.DataTree(found.assign(mode=("start", mode), log_mass=("start", log_mass)))
    tree.attrs |= {"repeatable": 1}
    return tree


@pytest.mark.parametrize("below", [2.9, 3.1])
def test_a_mode_that_is_left_out_matters_by_its_mass(below):
    """Whatever its height: one of 5 % of the mass of the best fails, unless the draws cover it."""
    found = [at_modes([0, 0, 1, 1, -1], [-1.0, -1.0, -1 - below, -1 - below, np.nan], covered) for covered in (1, 2)]
    assert [failed(tree) == {"another mode"} for tree in found] == [below < 3, False]
    assert failed(found[1]) == set()
    share = 1 / (1 + np.exp(-below))
    assert describe_starts(found[1]).startswith(f"2 modes: {share:.1%} of the mass (2 of 5 starts), {1 - share:.1%}")


def test_each_mode_that_matters_must_be_found_twice():
    """A third mode, as easy to find as the second, may otherwise have been missed; one without mass does not count."""
    once = at_modes([0, 0, 0, 1], [0.0, 0.0, 0.0, -1.0], 2)
    assert failed(once) == {"starts at the best objective"}
    assert problems_of(once)[0].sentence.startswith("only 1 of 4 starts reached one of the modes, so there may be others")
    assert failed(at_modes([0, 0, 0, 1], [0.0, 0.0, 0.0, -9.0], 2)) == set()
    assert failed(at_modes([0, 1, 1, 1], [0.0, -9.0, -9.0, -9.0], 2)) == {"starts at the best objective"}


def test_starts_of_a_point_are_counted_by_height():
    """Whatever their masses: the point is the highest optimum."""
    tree = weighed([0.0, -2.0, -3.0], [-5.0, -4.0, -1.0])
    assert (
        describe_starts(tree)
        == "2 of 6 starts reached the best objective 0.0000; 4 ended at local optima, from -3.0000 to -2.0000"
    )
    (said,) = diagnose(tree).remarks
    share = np.exp([-1.0, -5.0]) / np.exp([-5.0, -4.0, -1.0]).sum()
    assert f"it has {share[1]:.1%} of the mass that was found, and one that is 3.00 nats lower has {share[0]:.1%}" in said
    tree.attrs["best_start"] = 0
    tree["optimization"]["mode"][:2] = -1  # it was not weighed
    assert diagnose(tree).remarks == []


def test_an_interruption_is_no_failed_diagnostic():
    """It is said first, with how far the run had come; what failed besides is counted, and nothing is said of max_iter."""
    asked = {"options": json.dumps({"num_samples": 1000}), "interrupted": 1}
    found = diagnose(drawn(normal(), **asked))
    assert (found.problems, found.exit_status) == ([], 130)
    assert found.interrupted == "interrupted after 500 of 1000 draws per chain"
    mixed = drawn(shifted(0.18), **asked)
    assert _verdict(mixed, diagnose(mixed)) == "interrupted after 1000 of 1000 draws per chain; 1 diagnostic failed so far:"
    search = optimised([0.0], converged=False, iterations=6)
    assert failed(search) == {"gradient"}
    search.attrs["interrupted"] = 1
    assert failed(search) == {"interrupted"}
