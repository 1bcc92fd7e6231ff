"""Kernels of one's own: right ones pass, planted slips are found, and hints name them."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from numpyro import infer
from own_gibbs import Chains, OwnGibbs, WithConditionals

from inference import certify, target
from inference.certificates.checks.figure import CONTROL, MOST, POWER, TIMES
from inference.certificates.laws.kernels import same
from inference.certificates.oracles.chains import EMISSION
from inference.samplers import certification, trial
from inference.samplers.hints import other_priors
from models.errors import ZooError

NAME = "gmm_simple"


def report(sampler, monkeypatch, replicates=400, controls=False, **options):
    """Without controls, which take longer than the checks, where a test does not look at them."""
    monkeypatch.setitem(certification.SIZES, "quick", replicates)
    if not controls:
        monkeypatch.setattr(trial.Trial, "_controls", lambda own, returned: [])
    return certify(sampler, NAME, compiled=False, **options)


class Apart(OwnGibbs):
    """The difference of the two means never changes; their average does."""

    def step(self, rng, state, data):
        after, _ = super().step(rng, state, data)
        half = (state["mean"][0] - state["mean"][1]) / 2
        after = after | {"mean": after["mean"].mean(0) + np.stack([half, -half])}
        return after, after


def test_a_combination_that_never_changes_is_named(monkeypatch):
    found = report(Apart(target(NAME).prior), monkeypatch)
    assert found.verdict == "fails"
    assert any(hint.startswith("mean: a combination of its entries never changes") for hint in found.hints), found.hints


def test_a_right_kernel_is_invariant_and_rejected_for_a_wrong_prior(monkeypatch):
    found = report(OwnGibbs(target(NAME).prior), monkeypatch, replicates=2500, controls=True)
    controls = [f"{CONTROL} of the {name}" for name in ("kernel law", "mean", "component", "reach")]
    names = ["kernel law", "block component", "block mean", *controls]
    assert [check.name for check in found.checks] == names
    assert found.verdict == "invariant", found
    assert not found.hints
    assert "strength is 1: a kernel that leaves it out, or inverts or squares it, looks the same" in found.notes
    kept = json.loads(found.to_json())
    assert (kept["verdict"], kept["seed"], kept["replicates"], kept["steps"]) == ("invariant", 0, 2500, 3)
    assert [check["name"] for check in kept["checks"]] == names
    assert all(figure["passed"] for figure in kept["checks"][0]["figures"])
    assert max(len(line) for line in repr(found).splitlines()) <= 100
    assert all(check.seconds > 0 for check in found.checks)
    for check in (found.checks[3], found.checks[5]):  # at the size of the second look
        assert max(abs(figure.value) for figure in check.figures) > POWER
        assert f"at {TIMES} × 2,500 replicates" in check.says


def test_a_control_must_be_far_beyond_the_limit_of_the_check(monkeypatch):
    """With so few replicates the wrong prior is seen by chance alone: between `MOST` and `POWER` nothing is claimed."""
    found = report(OwnGibbs(target(NAME).prior), monkeypatch, replicates=800, controls=True)
    (control,) = [check for check in found.checks if check.name == f"{CONTROL} of the kernel law"]
    assert MOST < max(abs(figure.value) for figure in control.figures) < POWER
    assert (control.passed, found.verdict) == (False, "inconclusive")
    assert "NOT rejected" in control.says


def test_a_wrong_number_of_the_prior_is_named(monkeypatch):
    found = report(OwnGibbs(target(NAME).prior, "strength"), monkeypatch)
    assert found.verdict == "fails"
    assert found.hints[0] == "the update of mean is wrong, given all others; no fault was found in that of component"
    assert "no fault was found under another prior: strength × 2. Is that number wrong?" in found.hints
    assert "FAIL block mean" in repr(found)


def test_a_wrong_block_is_named_and_no_prior_is_blamed(monkeypatch):
    found = report(OwnGibbs(target(NAME).prior, "assignments"), monkeypatch)
    assert found.verdict == "fails"
    assert found.hints[0] == "the update of component is wrong, given all others; no fault was found in that of mean"
    assert not [hint for hint in found.hints if "another prior" in hint]


@pytest.mark.parametrize("slip", [None, "strength"])
def test_ratios_of_conditionals_are_exact(monkeypatch, slip):
    """To rounding, whatever the number of replicates; the kernel law of so few says little."""
    found = report(WithConditionals(OwnGibbs(target(NAME).prior, slip)), monkeypatch, replicates=20)
    (check,) = [check for check in found.checks if check.name == "conditionals"]
    assert check.passed == (slip is None)
    said = "the conditional of mean is not that of the joint density, but it is under another prior: strength × 2"
    assert (said in found.hints) == (slip is not None)


def test_equal_seeds_give_equal_reports(monkeypatch):
    one, other = (report(OwnGibbs(target(NAME).prior), monkeypatch, replicates=30, seed=5).checks[0] for _ in range(2))
    assert one.figures == other.figures


class StandsStill(OwnGibbs):
    def step(self, rng, state, data):
        return state, state


def test_a_kernel_that_stands_still_fails(monkeypatch):
    found = report(StandsStill(target(NAME).prior), monkeypatch, replicates=30).checks[0]
    assert not found.passed
    assert [figure.name for figure in found.figures if not figure.passed] == [
        "share of mean left unchanged",
        "share of component left unchanged",
        "share of component, at the place where it changes least, left unchanged",
        "share of mean, whatever the order of its entries, left unchanged",
        "mean before and after",
    ]
    assert "share of mean left unchanged: 100%, so that it hardly moves" in found.says


class HalfStill(OwnGibbs):
    """Draws one mean only, and no component."""

    def __init__(self, prior):
        super().__init__(prior)
        self.blocks = {"component": lambda rng, state, data: state, "mean": self.first_mean}

    def first_mean(self, rng, state, data):
        drawn = self.moved(rng, state, data)["mean"]
        return state | {"mean": np.stack([drawn[0], state["mean"][1]])}


def test_what_is_never_updated_is_found(monkeypatch):
    """Parts that stand still leave the law alone."""
    found = {check.name: check for check in report(HalfStill(target(NAME).prior), monkeypatch, replicates=30).checks}
    assert not found["kernel law"].passed
    assert "it changes nothing" in found["block component"].says
    hints = report(HalfStill(target(NAME).prior), monkeypatch, replicates=30).hints
    assert "block component changes nothing: does it return the new state?" in hints


class InPlace(OwnGibbs):
    """The same, written into the state that it is given."""

    def assigned(self, rng, state, data):
        state["component"][:] = super().assigned(rng, state, data)["component"]
        return state

    def moved(self, rng, state, data):
        state["mean"][:] = super().moved(rng, state, data)["mean"]
        return state


def test_a_kernel_may_write_into_its_state(monkeypatch):
    one, other = (report(kind(target(NAME).prior), monkeypatch, replicates=100).checks[0] for kind in (OwnGibbs, InPlace))
    assert one.figures == other.figures
    assert not report(InPlace(target(NAME).prior, "strength"), monkeypatch).checks[2].passed


class Forgets(OwnGibbs):
    def start(self, rng, data, sites):
        return {"mean": sites["mean"], "component": np.zeros(len(data["x"]), int)}


class Counts(OwnGibbs):
    def step(self, rng, state, data):
        state, _ = super().step(rng, state, data)
        return state, state | {"component": state["component"] + 0.5}


class More(OwnGibbs):
    """Returns entries that are no parameters, with other shapes each time."""

    def step(self, rng, state, data):
        state, _ = super().step(rng, state, data)
        return state, state | {"counts": np.zeros(rng.integers(1, 5))}


def test_more_than_the_parameters_may_be_returned(monkeypatch):
    assert report(More(target(NAME).prior), monkeypatch, replicates=30).checks[0].passed


def test_single_precision_that_stands_still_is_no_move():
    value = np.random.default_rng(0).normal(size=(50, 3))
    assert same(value, value.astype(np.float32)).all()
    assert not same(value, value + 1e-4).any()


class IgnoresLength:
    """Gibbs of ``hmm``, which counts symbols after the end of a sequence as emitted by the first state."""

    def __init__(self, wrong):
        self.wrong = wrong

    def start(self, rng, data, sites):
        return dict(sites)

    def step(self, rng, state, data):
        there = np.arange(data["x"].shape[1]) < data["length"][:, None]
        counts = np.zeros((2, 3))
        np.add.at(counts, (state["path"], data["x"]), 1.0 if self.wrong else 1.0 * there)
        probs = rng.gamma(counts + EMISSION)
        state = state | {"emission_probs": probs / probs.sum(-1, keepdims=True)}
        return state, state


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_padding_of_sequences_says_nothing(monkeypatch, wrong):
    """The emissions given the path; all else stands still. Padding that told of a state would hide the slip."""
    monkeypatch.setitem(certification.SIZES, "quick", 300)
    law = certify(IgnoresLength(wrong), "hmm", compiled=False, steps=1).checks[0]
    assert all(figure.passed for figure in law.figures if figure.unit == "deviation") != wrong


class Lacking(OwnGibbs):
    def step(self, rng, state, data):
        return state, {"means": state["mean"]}


class Narrow(OwnGibbs):
    def step(self, rng, state, data):
        return state, {"mean": state["mean"][:, :1]}


class OfFields(NamedTuple):
    """A kernel that keeps its numbers as a named tuple."""

    kernel: OwnGibbs

    def start(self, rng, data, sites):
        return self.kernel.start(rng, data, sites)

    def step(self, rng, state, data):
        return self.kernel.step(rng, state, data)


def test_a_named_tuple_is_a_kernel(monkeypatch):
    """So are algorithms of blackjax, which are refused."""
    own = OwnGibbs(target(NAME).prior)
    one, other = (report(kernel, monkeypatch, replicates=30).checks[0] for kernel in (OfFields(own), own))
    assert one.figures == other.figures


def test_what_a_kernel_returns_is_looked_at_once(monkeypatch):
    """By the notes, which say so, and by the control of the latents."""
    looks, look = [], trial.Trial._returned
    monkeypatch.setattr(trial.Trial, "_returned", lambda own: looks.append(own) or look(own))
    kernel = OwnGibbs(target(NAME).prior)
    names = [check.name for check in report(kernel, monkeypatch, replicates=30, controls=True).checks]
    assert f"{CONTROL} of the component" in names
    assert len(looks) == 1


def test_a_kernel_may_have_a_name(monkeypatch):
    assert repr(report(More(target(NAME).prior), monkeypatch, replicates=30, name="the sampler")).startswith("the sampler on ")
    with pytest.raises(ZooError, match=r"^the sampler returns means, and the sites"):
        report(Lacking(target(NAME).prior), monkeypatch, name="the sampler")


def test_what_is_no_kernel_is_refused(monkeypatch):
    with pytest.raises(ZooError, match=r"^Lacking returns means, and the sites of gmm_simple are mean \(did you mean mean\?"):
        report(Lacking(target(NAME).prior), monkeypatch)
    with pytest.raises(ZooError, match=r"^Narrow returns mean of shape \(2, 1\), and it has \(2, 2\)"):
        report(Narrow(target(NAME).prior), monkeypatch)
    with pytest.raises(ZooError, match=r"^Forgets does not keep the component that start gets"):
        report(Forgets(target(NAME).prior), monkeypatch, replicates=10)
    with pytest.raises(ZooError, match=r"^Counts returns component as .*; they are whole numbers from 0"):
        report(Counts(target(NAME).prior), monkeypatch)
    with pytest.raises(ZooError, match="OwnGibbs is a class; certify an object of it"):
        certify(OwnGibbs, NAME)
    with pytest.raises(ZooError, match="compiled=, steps=, require= and name= are for kernels of your own"):
        certify("gibbs", NAME, steps=5)
    with pytest.raises(ZooError, match=r"inference.numpyro_kernel\(…\)"):
        certify(infer.NUTS(potential_fn=lambda z: 0.0), NAME)
    with pytest.raises(ZooError, match="kernels of NumPyro and blackjax are wrapped"):
        certify(pytest.importorskip("blackjax").mala(lambda z: 0.0, 0.1), NAME)
    with pytest.raises(ZooError, match="a list is no kernel: it needs start"):
        certify([], NAME)
    with pytest.raises(ZooError, match="did you mean gmm_simple"):
        certify(OwnGibbs(target(NAME).prior), "gmm_simpl")
    with pytest.raises(ZooError, match="steps must be a whole number from 1"):
        certify(OwnGibbs(target(NAME).prior), NAME, steps=0)


def test_numbers_of_a_prior_are_changed_one_at_a_time():
    hyper = {"concentration": np.array([0.5, 1.5]), "scatter": np.array(4.0)}
    found = {prior.what: prior.hyper for prior in other_priors(hyper)}
    assert set(found) == {"concentration × 0.5", "concentration × 2", "concentration +1", "scatter × 0.5", "scatter × 2"}
    np.testing.assert_array_equal(found["concentration +1"]["concentration"], [1.5, 2.5])
    assert {prior.what for prior in other_priors({"location": np.array(0.0)})} == {"location -1", "location +1"}
    scale = {prior.what: float(prior.hyper["scale"]) for prior in other_priors({"scale": np.array(4.0)})}
    assert (scale["scale inverted"], scale["scale squared"], scale["scale as a square root"]) == (0.25, 16.0, 2.0)
    assert all(sum(not np.array_equal(each[name], hyper[name]) for name in hyper) == 1 for each in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("slip", [None, "strength"])
def test_chains_without_a_start_are_compared_with_a_reference(monkeypatch, slip):
    found = report(Chains(OwnGibbs(target(NAME).prior, slip)), monkeypatch)
    assert found.verdict == ("draws agree" if slip is None else "draws differ"), found
