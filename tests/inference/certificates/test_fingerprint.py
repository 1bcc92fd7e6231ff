"""The hash of the code that a certificate speaks for, and which checks are made again."""

import pytest
from made_certificates import current

from inference.certificates import cell, fingerprint
from inference.certificates.cell import WAYS, asked_of, certify, code_of
from inference.certificates.checks.figure import Check
from models import MODELS, ZooError

EDIT = b"\nedited = 1"


def test_the_hash_follows_the_code_of_the_cell_alone(monkeypatch):
    """Another line in the model, the method or the oracle is another hash; one of another model is not."""
    before = code_of("gmm", "gibbs")
    source = fingerprint._source
    for module, changes in [
        ("models.gmm", True),
        ("inference.methods.gibbs", True),
        ("inference.engine.sweep", True),
        ("inference.certificates.oracles.gaussians", True),
        ("models.hmm", False),
        ("inference.certificates.cell", False),
        ("inference.certificates.checks.cases", True),
        ("inference.certificates.checks.contracts", True),
        ("inference.certificates.oracles.answers", True),
        ("inference.predictions.classes", True),
        ("inference.sequences.decoding", False),
        ("inference.methods.em", False),
        ("inference.certificates.checks.optimum", False),
        ("models.topics.latent", False),
    ]:
        monkeypatch.setattr(fingerprint, "_source", lambda name, module=module: source(name) + EDIT * (name == module))
        assert (code_of("gmm", "gibbs") != before) is changes, module


def test_the_hash_knows_no_comments(monkeypatch):
    """Comments, docstrings and empty lines change nothing that runs."""
    before, source = code_of("gmm", "gibbs"), fingerprint._source
    without = fingerprint.syntax_of(b'"""One."""\nx = 1')
    assert without == fingerprint.syntax_of(b"x = 1  # one")
    assert fingerprint.syntax_of(b'def f():\n    """One."""\n    return 1') == fingerprint.syntax_of(b"def f():\n    return 1")
    monkeypatch.setattr(fingerprint, "_source", lambda name: source(name) + b"\n# a comment\n")
    assert code_of("gmm", "gibbs") == before


def test_the_hash_knows_what_a_preset_fixes(monkeypatch):
    """The list of models is no part of a cell; which function makes this one, and with which options, is."""
    before = code_of("gmm_simple", "gibbs"), code_of("gmm", "gibbs")
    preset = MODELS["gmm_simple"]
    monkeypatch.setitem(MODELS, "gmm_simple", type(preset)(preset.func, **(preset.keywords | {"weights": "learned"})))
    after = code_of("gmm_simple", "gibbs"), code_of("gmm", "gibbs")
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


def test_the_hash_knows_how_a_check_is_asked(monkeypatch):
    """Its size, its place, by which its seed goes, the function and its arguments; and nothing of other checks of the cell."""
    before, way = asked_of("gmm", "gibbs", "full", 0), WAYS["gibbs"]
    law, *others = way.questions
    larger = law._replace(sizes={"quick": 2 * law.sizes["quick"], "full": law.sizes["full"]})
    other_kernel = law._replace(check=WAYS["nuts"].questions[0].check)
    other_control = law._replace(control=WAYS["nuts"].questions[0].control)
    for one in (larger, other_kernel, other_control):
        monkeypatch.setitem(WAYS, "gibbs", way._replace(questions=(one, *others)))
        assert _others(before, asked_of("gmm", "gibbs", "full", 0)) == ["kernel law", "control of the kernel law"]
    monkeypatch.setitem(WAYS, "gibbs", way._replace(questions=way.questions[:-1]))
    assert _others(before[:-1], asked_of("gmm", "gibbs", "full", 0)) == []
    first, second, *rest = way.questions
    monkeypatch.setitem(WAYS, "gibbs", way._replace(questions=(second, first, *rest)))
    moved = {each.name: each.code for each in asked_of("gmm", "gibbs", "full", 0)}
    assert [each.name for each in before if moved[each.name] != each.code] == [
        "kernel law",
        "control of the kernel law",
        "posterior",
        "control of the posterior",
    ]


def test_the_hash_knows_the_precision(monkeypatch):
    before = asked_of("gmm", "gibbs", "quick", 0)
    monkeypatch.setattr(cell, "PRECISION", 32)
    assert len(_others(before, asked_of("gmm", "gibbs", "quick", 0))) == len(before)


def test_a_certificate_of_another_claim_is_stale():
    assert not cell.is_stale(current())
    assert cell.is_stale(current()._replace(claim="right"))


def _others(before, after):
    return [one.name for one, other in zip(before, after, strict=True) if one.code != other.code]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({}, []),
        ({"posterior": "other"}, ["posterior"]),
        ({"parity": "other", "predictions": ""}, ["parity", "predictions"]),
    ],
)
def test_checks_of_the_same_code_are_taken_from_the_certificate_before(changes, again, monkeypatch):
    """A check of other code is run, and so is one that failed."""
    ran = []
    asked = [
        each._replace(run=lambda name=each.name: ran.append(name) or Check(name, "new", True, (), 0.0))
        for each in asked_of("gmm", "gibbs", "quick", 0)
    ]
    monkeypatch.setattr(cell, "asked_of", lambda *_: asked)
    found = certify("gibbs", before=current(**changes))
    assert ran == again
    assert [check.code for check in found.checks] == [each.code for each in asked]
    failed = current()._replace(checks=tuple(check._replace(passed=check.name != "contracts") for check in current().checks))
    for before, wanted in (
        (failed, ["contracts"]),
        (current()._replace(seed=1), [each.name for each in asked]),
        (current()._replace(budget="full"), [each.name for each in asked]),
        (current()._replace(versions={}), [each.name for each in asked]),
        (None, [each.name for each in asked]),
    ):
        ran.clear()
        certify("gibbs", before=before)
        assert ran == wanted


@pytest.mark.parametrize("module", ["models/gmm.py", "inference/engine/sweep.py", "inference/certificates/cell.py"])
def test_a_file_that_was_edited_since_the_process_began_is_not_certified(module, monkeypatch):
    """Its hash stays that of the text that runs; files of other cells do not matter."""
    before, path = code_of("gmm", "gibbs"), fingerprint.ROOT / module
    text = path.read_bytes()
    monkeypatch.setattr(fingerprint, "_now", lambda name: text + EDIT if fingerprint._path(name) == path else _text(name))
    assert code_of("gmm", "gibbs") == before
    with pytest.raises(ZooError, match=f"{module.removesuffix('.py').replace('/', '.')} was edited"):
        certify("gibbs", model="gmm")


def _text(module):
    return fingerprint._path(module).read_bytes()


def test_a_file_that_is_gone_counts_as_edited(monkeypatch, tmp_path):
    (tmp_path / "models").mkdir()
    gone = tmp_path / "models" / "gone.py"
    gone.write_text("x = 1\n")
    monkeypatch.setattr(fingerprint, "_path", lambda module: gone)
    monkeypatch.setattr(fingerprint, "SOURCES", {gone: gone.read_bytes()})
    monkeypatch.setattr(fingerprint, "reached", lambda roots: frozenset(roots))
    assert fingerprint.edited(["models.gone"]) == []
    gone.unlink()
    assert "models.gone" in fingerprint.edited(["models.gone"])


def test_files_of_other_models_may_be_edited(monkeypatch):
    monkeypatch.setattr(fingerprint, "_now", lambda name: b"edited =" if name == "models.hmm" else _text(name))
    assert fingerprint.edited(["models.gmm", "inference.methods.gibbs"]) == []
    assert fingerprint.edited(["models.hmm"]) == ["models.hmm"]


def test_a_certificate_of_em_speaks_for_the_optimiser_that_it_is_compared_with(monkeypatch):
    before, source = code_of("gmm", "em"), fingerprint._source
    monkeypatch.setattr(fingerprint, "_source", lambda name: source(name) + EDIT * (name == "inference.methods.map"))
    assert code_of("gmm", "em") != before
