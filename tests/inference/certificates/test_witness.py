"""Witnesses: what they see, what they leave alone, and which checks are made again."""

import importlib
import math

import numpy as np
import pytest
from made_certificates import made

from inference.certificates import cell, comparison
from inference.certificates.cell import PLANS, BoundCheck, bound_checks, certify
from inference.certificates.certificate import MODEL_CHECKS, write_certificate
from inference.certificates.checks import parity
from inference.certificates.checks.figure import Check, Figure
from inference.certificates.comparison import Changed, changed, in_words
from inference.certificates.oracles import oracle_of
from inference.certificates.witnesses import of_checks
from inference.certificates.witnesses.witness import TOLERANCE, Difference, condensed, differences, witness_of
from models.algebra import log_prior

NUMBERS = {"mean": np.array([3.0, -0.2, 1e-3, 40.0]), "log evidence": [-31.7]}


def different(**others):
    return [each.name for each in differences(witness_of(NUMBERS), NUMBERS | others)]


def test_the_same_numbers_do_not_differ():
    assert not different()
    assert not different(mean=NUMBERS["mean"] * (1 + 1e-9))


@pytest.mark.parametrize("place", range(4))
def test_a_change_of_any_entry_shows(place):
    """A small entry beside large ones, too: one per cent of 1e-3 beside 40."""
    values = NUMBERS["mean"].copy()
    values[place] *= 1.01
    assert different(mean=values) == ["mean"]


def test_an_exchange_of_entries_shows():
    """Of neighbours, and of all pairs, as of labels that are permuted in one place alone."""
    values = np.random.default_rng(0).normal(size=12)
    for one in range(12):
        for other in range(one):
            swapped = values.copy()
            swapped[[one, other]] = values[[other, one]]
            assert differences(witness_of({"x": values}), {"x": swapped})


def test_an_array_that_is_new_or_gone_shows():
    stored = witness_of(NUMBERS)
    assert differences(stored, {"mean": NUMBERS["mean"]}) == [Difference("log evidence", math.inf)]
    assert differences(stored, NUMBERS | {"cov": [1.0]}) == [Difference("cov", math.inf)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_show_where_they_are_new(value):
    values = NUMBERS["mean"].copy()
    values[1] = value
    assert different(mean=values) == ["mean"]
    assert not differences(witness_of({"x": values}), {"x": values})


def test_the_largest_difference_comes_first():
    found = differences(witness_of(NUMBERS), {"mean": NUMBERS["mean"] * 1.001, "log evidence": [-35.0]})
    assert [each.name for each in found] == ["log evidence", "mean"]
    assert found[0].relative > found[1].relative > TOLERANCE
    assert in_words(found[:1]) == f"log evidence differs by {found[0].relative:.1g} of its size"


def test_weights_of_entries_are_positive_and_differ():
    """The condensed number of a unit vector is its weight."""
    weights = [condensed(np.eye(200)[place]) for place in range(200)]
    assert min(weights) > 0
    assert len(set(weights)) == 200


def stand_in(name, ran, numbers, passed=True):
    """A check that notes its name when it runs."""
    return BoundCheck(name, 7, lambda: ran.append(name) or Check(name, "new", passed, (), 0.0), lambda: numbers)


def test_a_control_is_made_again_with_its_check(monkeypatch):
    """A check that changes may no longer be able to fail: its control shows it, whatever the control's own numbers."""
    ran = []
    control = stand_in("control of the posterior", ran, {"prior": [1.0]})._replace(follows="posterior")
    before = certificate_of([stand_in("posterior", ran, {"x": [2.0]}), control])
    now = [stand_in("posterior", ran, {"x": [2.1]}), control]
    monkeypatch.setattr(cell, "bound_checks", lambda *_: now)
    ran.clear()
    certify("gibbs", before=before)
    assert ran == ["posterior", "control of the posterior"]


def test_every_control_follows_its_check():
    for method in PLANS:
        bound = bound_checks("gmm", method, "full", 0)
        names = [each.name for each in bound]
        for each in bound:
            assert (each.follows in names) is each.name.startswith("control")


def test_a_claim_is_renewed(monkeypatch):
    """Equal checks under another claim are another certificate."""
    now = [stand_in("posterior", [], {"x": [2.0]})]
    monkeypatch.setattr(cell, "bound_checks", lambda *_: now)
    assert certify("gibbs", before=certificate_of(now, claim="right")).claim == "invariant"


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("checks.figure", "MOST", 35),
        ("laws.kernel_law", "STILL", 1.0),
        ("checks.posterior", "LEAST", 1e-9),
        ("checks.calibration", "INTERVAL", 0.99),
        ("checks.optimum", "GAIN", 1e6),
    ],
)
def test_limits_are_part_of_a_witness(module, name, value):
    """What a check judges by is compared as a number: 3.5 deviations and 35 are not the same."""
    figures = [Figure("x", 0.1, getattr(importlib.import_module(f"inference.certificates.{module}"), name), "relative")]
    stored = witness_of({"verdicts": of_checks.judgements_of(figures)})
    assert differences(stored, {"verdicts": of_checks.judgements_of([figures[0]._replace(limit=value)])})


def test_the_two_stage_rule_is_part_of_a_witness(monkeypatch):
    stored = witness_of({"rules": of_checks.rules(1.0)})
    assert not differences(stored, {"rules": of_checks.rules(1.0)})
    monkeypatch.setattr(of_checks, "two_stages", lambda run, seed: (Figure("x", 0.0, 3.5, "deviation"),))
    assert differences(stored, {"rules": of_checks.rules(1.0)})


def certificate_of(bound, **facts):
    checks = tuple(each.run() for each in bound)
    return made(1.0)._replace(checks=checks, **facts)


def test_checks_are_taken_from_a_certificate_whose_witnesses_are_the_same(monkeypatch):
    """A check is made again if its numbers or its size are others, if it failed, or if seed or budget are others."""
    ran = []
    now = [stand_in("parity", ran, {"x": [1.0]}), stand_in("posterior", ran, {"x": [2.0]})]
    monkeypatch.setattr(cell, "bound_checks", lambda *_: now)
    before = certificate_of(now)
    others = {
        "posterior": certificate_of([now[0], stand_in("posterior", ran, {"x": [2.1]})]),
        "parity": certificate_of([now[0]._replace(size=8), now[1]]),
        "failed": certificate_of([now[0], stand_in("posterior", ran, {"x": [2.0]}, passed=False)]),
    }
    for certificate, wanted in (
        (before, []),
        (others["posterior"], ["posterior"]),
        (others["parity"], ["parity"]),
        (others["failed"], ["posterior"]),
        (before._replace(seed=1), ["parity", "posterior"]),
        (before._replace(budget="full"), ["parity", "posterior"]),
        (None, ["parity", "posterior"]),
    ):
        ran.clear()
        certify("gibbs", before=certificate)
        assert ran == wanted
    assert certify("gibbs", before=before._replace(versions={"python": "3"})).versions == {"python": "3"}


def test_a_certificate_is_kept_after_every_check(monkeypatch):
    """What was computed is on disk before the next check can fail."""
    kept, ran = [], []
    monkeypatch.setattr(cell, "bound_checks", lambda *_: [stand_in(name, ran, {}) for name in ("parity", "posterior")])
    certify("gibbs", keep=lambda certificate: kept.append([check.name for check in certificate.checks]))
    assert kept == [["parity"], ["parity", "posterior"]]


def test_a_comparison_names_checks_claims_and_errors(monkeypatch, tmp_path):
    ran = []
    now = [*(stand_in(name, ran, {"x": [1.0]}) for name in MODEL_CHECKS), stand_in("posterior", ran, {"x": [2.0]})]
    monkeypatch.setattr(comparison, "bound_checks", lambda *_: now)
    write_certificate(certificate_of(now), tmp_path / "gmm-gibbs.json")
    assert not changed(("gmm", "gibbs"), tmp_path).differs
    now[-1] = stand_in("posterior", ran, {"x": [2.02]})
    found = changed(("gmm", "gibbs"), tmp_path)
    assert list(found.checks) == ["posterior"]
    assert found.lines == ["gmm gibbs: posterior: x differs by 0.007 of its size"]
    write_certificate(certificate_of(now, claim="right"), tmp_path / "gmm-gibbs.json")
    assert changed(("gmm", "gibbs"), tmp_path) == Changed(("gmm", "gibbs"), {}, claim="invariant")
    (tmp_path / "gmm-gibbs.json").write_text("{")
    assert "ZooError" in changed(("gmm", "gibbs"), tmp_path).lines[0]


def test_every_check_of_every_plan_has_its_size_and_place():
    """Seeds go by the place of a check among all of its method, so that `quick` and `full` share those of a check."""
    for method in PLANS:
        quick, full = (bound_checks("gmm", method, budget, 0) for budget in ("quick", "full"))
        assert [each.name for each in quick] == [each.name for each in full if each.name != "pipeline"]
        assert all(one.size <= other.size for one, other in zip(quick, full, strict=False))


def test_a_witness_sees_a_wrong_log_prior(monkeypatch):
    """The numbers of parity are the same twice; one per cent of the log prior shows in the density of the algebra alone."""
    oracle = oracle_of("gmm_simple")
    stored = witness_of(of_checks.of_parity(oracle, 0))
    assert not differences(stored, of_checks.of_parity(oracle, 0))
    monkeypatch.setattr(parity, "log_prior", lambda *arguments: 1.01 * log_prior(*arguments))
    assert [each.name for each in differences(stored, of_checks.of_parity(oracle, 0))] == ["log density of the algebra"]
