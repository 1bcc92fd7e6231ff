"""Dependence, labels, slow blocks and what never moves: wrong kernels of every class are seen; every site has its control."""

import numpy as np
import pytest
from faulty_mixture import FAULTS
from jax_mixture import JaxMixture, relabelled

from inference import certify, target
from inference.certificates.laws.kernels import Ran
from inference.certificates.oracles import oracle_of
from inference.samplers import certification, trial
from inference.samplers.hints import priors_of
from inference.samplers.latents import ENTRIES, KernelLaw, entries
from inference.samplers.site_controls import LEFT, Controls, reach

PRIOR = target("gmm").prior
BY_NAME = {what: sampler for faults in FAULTS.values() for what, sampler in faults.items()}


def test_entries_are_those_of_the_arrays_and_not_too_many():
    values = {"mean": np.arange(60.0).reshape(2, 15, 2), "component": np.array([[0, 2, 1], [1, 1, 0]])}
    found = entries(values)
    assert found["entry 0 of mean"].tolist() == [0.0, 30.0]
    assert found["entry 29 of mean"].tolist() == [29.0, 59.0]
    assert [found[f"entry {place} of component"].tolist() for place in range(3)] == [[0.0, 1.0], [2.0, 1.0], [1.0, 0.0]]
    assert len(found) <= ENTRIES
    assert len(entries({f"site{place}": np.zeros((2, 50)) for place in range(30)})) == 60  # the first and the last of each


def run(move, replicates=300):
    law = KernelLaw(oracle_of("gmm"), move, replicates)
    return law, law.pairs(0, 1)


def test_labels_alone_are_no_movement():
    """All entries of a site move where components exchange their labels, and nothing that does not depend on the order."""

    def cycled(sites, tables, seed):
        order = np.array([1, 2, 0])
        parts = {name: value[:, order] for name, value in sites.items()}
        return Ran({**parts, "component": np.argsort(order)[tables["component"]]}, dict.fromkeys(sites, 0.0))

    law, pairs = run(cycled)
    still = {name: share for name, share in law.still.items() if "whatever" in name}
    assert still == {f"{name}, whatever the order of its entries,": 1.0 for name in ("mixture_probs", "mean", "precision")}
    kept = {f"{name} before and after" for name in ("mixture_probs", "mean", "precision")}  # sums over the components
    assert {figure.name for figure in law.still_figures() if not figure.passed} == kept | {
        f"share of {name} left unchanged" for name in still
    }
    assert all(np.allclose(pairs.before[name], pairs.after[name]) for name in ("log likelihood", "largest mean"))


def test_products_see_entries_that_depend_on_each_other():
    """Every entry alone has its law; a mean of the first component and one of the last are drawn from one number."""
    oracle = oracle_of("gmm_simple")

    def moves(tied):
        def move(sites, tables, seed):
            mean = np.random.default_rng(seed).normal(size=sites["mean"].shape)
            mean[:, -1, -1] = mean[:, 0, 0] if tied else mean[:, -1, -1]
            return Ran({"mean": mean}, {})

        return move

    name = "entry 0 of mean × entry 3 of mean"
    sizes = [abs(KernelLaw(oracle, moves(tied), 1000)(0, 1)[name]) for tied in (False, True)]
    assert sizes[0] < 5 < 15 < sizes[1]


def test_every_site_has_numbers_of_its_own():
    """Those that its density depends on, given the others: and no others."""
    oracle = oracle_of("gmm")
    controls = Controls(oracle, priors_of(oracle), lambda *_: Ran({}, {}), 10, 0)
    named = {
        name: {other.what for other in controls.other_priors(name, 2.0)} for name in ("mixture_probs", "mean", "precision")
    }
    assert named == {
        "mixture_probs": {"concentration × 2"},
        "mean": {"location × 2", "strength × 2"},
        "precision": {"dof × 2", "scatter × 2"},
    }


def test_what_stands_still_is_not_checked_by_its_control():
    oracle = oracle_of("gmm_simple")

    def still(sites, tables, seed):
        return Ran({**sites, "component": tables["component"]}, dict.fromkeys(sites, 1.0))

    controls = Controls(oracle, priors_of(oracle), still, 400, 0)
    check = controls.of_site("mean")
    assert not check.passed
    assert "no prior of mean with a number 2 times as large is rejected" in check.says
    far = controls.of_reach(400, 3)
    assert not far.passed
    assert "after 30 steps from draws of the prior, 100% of the deviation of" in far.says


@pytest.mark.parametrize(("left", "passed"), [(0.0, True), (-0.3, True), (0.9 * LEFT, True), (1.0, False)])
def test_the_share_that_is_left_of_far_starts(left, passed):
    check = reach({"near": 3.0, "far": -40.0, "farther": 50.0}, {"near": 3.0, "far": -40.0 * left, "farther": 1.0}, 30)
    assert check.passed == passed
    assert reach({"near": 3.0}, {"near": 3.0}, 30).says.startswith("parameters drawn from the prior do not deviate")


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        "means from the normal numbers of precisions",
        "rows 0 and 5 have opposite numbers",
        "small walk of precisions, 4 degrees of freedom more",
        "all but labels",
        "concentrations 1, 1.5, 2 for 1.5",
    ],
)
def test_one_fault_of_each_class_is_seen(what, monkeypatch):
    """`python -m tests.faults.kernels` runs all of them."""
    monkeypatch.setattr(trial, "prior_hints", lambda *_: [])
    assert certify(BY_NAME[what](PRIOR), "gmm").verdict != "invariant"


@pytest.mark.slow
def test_the_right_sampler_of_the_battery_is_exact(monkeypatch):
    monkeypatch.setitem(certification.SIZES, "quick", 2_500)
    found = certify(JaxMixture(PRIOR), "gmm")
    assert found.verdict == "invariant", found
    assert [check.name for check in found.checks if check.name.startswith("control of the ")] == [
        f"control of the {name}" for name in ("kernel law", "mixture_probs", "mean", "precision", "component", "reach")
    ]


def test_relabelled_states_are_the_same_mixture():
    state = {
        "mixture_probs": np.array([0.2, 0.3, 0.5]),
        "mean": np.arange(6.0).reshape(3, 2),
        "precision": np.arange(12.0).reshape(3, 2, 2),
        "component": np.array([0, 1, 2, 2]),
    }
    found = relabelled(state, np.array([2, 0, 1]))
    np.testing.assert_array_equal(found["mean"][found["component"]], state["mean"][state["component"]])
