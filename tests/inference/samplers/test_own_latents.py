"""Kernels whose update of the latents is wrong are rejected, with blocks and without; right ones pass."""

from types import SimpleNamespace

import numpy as np
import pytest
from own_latents import OwnForwardFilter, OwnMixture, WithoutBlocks
from scipy.special import softmax

from inference import certify, target
from inference.certificates.checks.figure import POWER
from inference.certificates.laws.kernels import varying
from inference.samplers import certification, trial
from inference.samplers.kernels import OwnKernel, moved, oracle_at_bench
from models.errors import ZooError

SLIPS = {
    "hmm": (OwnForwardFilter, ["stop", "transposed"]),
    "gmm": (OwnMixture, ["weights", "argmax"]),
}
WRONG = [(model, slip) for model, (_, slips) in SLIPS.items() for slip in slips]


@pytest.fixture(autouse=True)
def without_prior_hints(monkeypatch):
    """They take most of the time, and are tested elsewhere."""
    monkeypatch.setattr(trial, "prior_hints", lambda *_: [])


def kernel(model, slip=None):
    return SLIPS[model][0](target(model).prior, slip)


REPLICATES = 800  # replicates: right kernels pass with any number, and the slips are large


@pytest.mark.slow
def test_right_paths_pass(monkeypatch):
    """Their control, a tenth of one concentration, would need more steps and replicates than these."""
    monkeypatch.setitem(certification.SIZES, "quick", REPLICATES)
    found = certify(kernel("hmm"), "hmm", compiled=False, require=target("hmm").latents)
    assert all(check.passed for check in found.checks if check.kind != "control"), found


@pytest.mark.slow
def test_right_latents_are_exact():
    found = certify(kernel("gmm"), "gmm", compiled=False, require=target("gmm").latents)
    assert found.verdict == "invariant", found
    assert not found.notes
    (control,) = [check for check in found.checks if check.name == "control of the component"]
    assert "at 4 × 2,500 replicates" in control.says
    assert "would be seen as often as not" in control.says
    assert max(abs(figure.value) for figure in control.figures) > POWER


@pytest.mark.slow
def test_a_path_that_forgets_the_stop_is_rejected_without_blocks(monkeypatch):
    """The stops are a statistic of their own: among all factors together the slip is lost."""
    monkeypatch.setitem(certification.SIZES, "quick", REPLICATES)
    found = certify(WithoutBlocks(kernel("hmm", "stop")), "hmm", compiled=False)
    assert found.verdict == "fails", found
    assert "log probability of stops" in {figure.name for figure in found.checks[0].figures if not figure.passed}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "slip"), WRONG)
def test_a_wrong_block_of_latents_is_named(model, slip, monkeypatch):
    monkeypatch.setitem(certification.SIZES, "quick", REPLICATES)
    found = certify(kernel(model, slip), model, compiled=False)
    (latent,) = target(model).latents
    assert found.verdict == "fails", found
    assert any(hint.startswith(f"the update of {latent} is wrong, given all others; no fault") for hint in found.hints)


@pytest.mark.slow
def test_latents_given_parameters_of_the_step_before_are_rejected():
    """Each update alone is right, and the parameters have the right law; they and the latents together have not."""
    found = certify(kernel("gmm", "stale"), "gmm", compiled=False)
    assert [check.name for check in found.checks if not check.passed] == ["kernel law"], found


@pytest.mark.slow
def test_the_wrong_site_of_a_block_is_named():
    found = certify(kernel("gmm", "spread"), "gmm", compiled=False)
    assert any("block gaussians: statistics of mean" in hint and "look at mean first" in hint for hint in found.hints), found


class Renames:
    """Returns its path under another name."""

    def __init__(self, sampler, name):
        self.sampler, self.start, self.name = sampler, sampler.start, name

    def step(self, rng, state, data):
        state, _ = self.sampler.step(rng, state, data)
        sites = {name: value for name, value in state.items() if name != "path"}
        return state, sites | ({self.name: state["path"]} if self.name else {})


@pytest.mark.parametrize(("name", "said"), [(None, ""), ("paths", "; it returns paths: is that path?")])
def test_latents_that_are_not_returned_are_named(name, said):
    sampler = OwnKernel(Renames(kernel("hmm"), name), compiled=False)
    own = trial.Trial("Renames", oracle_at_bench("hmm"), sampler, 10, 0, 1, (), print)
    notes = own._notes(own._returned())
    assert f"path is not returned: the update of the latents was not checked, nor whether far starts get on{said}" in notes
    with pytest.raises(ZooError, match=r"^Renames does not return path, which require= asks for"):
        own._replace(require=("path",))._returned()
    with pytest.raises(ZooError, match=r"require: 'pth' is not one of .* \(did you mean path"):
        own._replace(require=("pth",))._returned()


class SharedNumbers(OwnMixture):
    """Weights, means and precisions are drawn by generators of one seed."""

    def step(self, rng, state, data):
        state, seed = self.component(rng, state, data), int(rng.integers(2**31))
        for block in (self.weights, self.gaussians):
            state = block(np.random.default_rng(seed), state, data)
        return state, state


class FrozenRow(OwnMixture):
    """The component of the last row is never drawn."""

    def component(self, rng, state, data):
        drawn = super().component(rng, state, data)["component"]
        return state | {"component": np.append(drawn[:-1], state["component"][-1])}


class TwinRows(OwnMixture):
    """The components of the first two rows are drawn by the same uniform number."""

    def component(self, rng, state, data):
        away = data["x"][:, None] - state["mean"]
        logs = np.log(state["mixture_probs"]) - 0.5 * np.einsum("nki,kij,nkj->nk", away, state["precision"], away)
        probs = softmax(logs + 0.5 * np.linalg.slogdet(state["precision"])[1], axis=1)
        numbers = rng.random(len(probs))
        numbers[1] = numbers[0]
        return state | {"component": (numbers[:, None] > probs.cumsum(1)[:, :-1]).sum(1)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixture", "parts"),
    [
        (SharedNumbers, ("of mixture_probs × ", "of precision")),
        (FrozenRow, ("component, at the place where it changes least, left unchanged",)),
        (TwinRows, ("component 0 = 1",)),
    ],
)
def test_dependence_and_rows_that_stand_still_are_seen(mixture, parts):
    """Each block or row alone has the right law: what they share, or that one never moves, must show."""
    found = certify(WithoutBlocks(mixture(target("gmm").prior)), "gmm", compiled=False)
    assert found.verdict == "fails"
    failed = [figure.name for figure in found.checks[0].figures if not figure.passed]
    assert any(all(part in name for part in parts) for name in failed), failed


def test_the_entry_that_changes_least_counts():
    """Of three rows: one changes in half of the replicates, one never does, and one has the same value in all of them."""
    before = np.stack([np.arange(40) % 2, np.arange(40) % 3, np.zeros(40, int)], axis=1)
    after = before.copy()
    after[:20, 0] = 1 - after[:20, 0]
    sites = {"mean": np.zeros((40, 1))}
    found = moved(SimpleNamespace(latent="component"), sites, {"component": before}, sites | {"component": after})
    assert varying(before).tolist() == [True, True, False]
    assert found.still["component, at the place where it changes least,"] == 1.0
    constant = {"component": np.zeros((40, 3), int)}
    assert list(moved(SimpleNamespace(latent="component"), sites, constant, sites | constant).still) == ["mean", "component"]
    after[0, 1] = 2 - after[0, 1]
    assert moved(SimpleNamespace(latent="component"), sites, {"component": before}, sites | {"component": after}).still[
        "component, at the place where it changes least,"
    ] == pytest.approx(39 / 40)
