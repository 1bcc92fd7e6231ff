"""Certificates on disk and on the screen, the hash of their code, and the arguments of the command."""

import json

import numpy as np
import pytest

from inference.certificates import cell, command, fingerprint
from inference.certificates.cell import WAYS, asked_of, cells, certify, code_of, require_cell
from inference.certificates.cell_page import SHOWN, about_of, page_of, write_pages
from inference.certificates.certificate import Certificate, at_most, read_certificate, versions, write_certificate
from inference.certificates.checks.figure import COVERAGE, MOST, Check, Figure, control
from inference.certificates.command import certify_main, parsed
from inference.certificates.oracles import ORACLES
from inference.certificates.page import lines_of, picture, table_of
from inference.cli.runs.help import COMMANDS
from models import MODELS, ZooError

EDIT = b"\nedited = 1"


def made(*values):
    """A certificate whose law has these deviations."""
    figures = tuple(Figure(f"statistic {place}", value, MOST, "deviation", value) for place, value in enumerate(values))
    passed = all(figure.passed for figure in figures)
    law = Check("kernel law", "a sentence", passed, figures, 1e-6, seconds=1.5)
    mutant = control("kernel law", "a mutant is rejected", True, figures)
    return Certificate("gmm", "gibbs", "exact", "quick", 0, versions(), (law, mutant))


def current(model="gmm", method="gibbs", budget="quick", **others):
    """A certificate whose checks are those of the code as it is; ``others``: of the check ``name``, another hash."""
    checks = [
        Check(asked.name, "a sentence", True, (), 0.0, code=others.get(asked.name, asked.code))
        for asked in asked_of(model, method, budget, 0)
    ]
    return Certificate(model, method, "exact", budget, 0, versions(), tuple(checks))


@pytest.mark.parametrize("probability", [1.24e-5, 6.49e-6, 9.6e-6, 1e-6, 2e-5, 3.1e-4, 0.7, 0.0])
def test_a_bound_is_rounded_up(probability):
    """Whoever reads "at most" must be able to rely on it."""
    shown = float(at_most(probability))
    assert probability * (1 - 1e-9) <= shown <= 2 * probability


def test_a_certificate_survives_the_disk(tmp_path):
    certificate = made(1.0, -2.0, 4.0)
    write_certificate(certificate, tmp_path / "one.json")
    assert read_certificate(tmp_path / "one.json") == certificate
    assert json.loads((tmp_path / "one.json").read_text())["verdict"] == certificate.verdict == "fails"


def test_figures_of_numpy_are_written(tmp_path):
    """Checks compute in NumPy, whose booleans JSON does not know."""
    figure = Figure("x", np.float64(9.0), np.float64(MOST), "deviation", np.float64(9.0))
    certificate = made(1.0)
    certificate = certificate._replace(checks=(control("kernel law", "a mutant", figure.rejects, [figure]),))
    write_certificate(certificate, tmp_path / "one.json")
    assert read_certificate(tmp_path / "one.json") == certificate


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1}', '{"schema": 99}', "[1]"])
def test_what_is_no_certificate_is_refused(tmp_path, text):
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(ZooError, match="certif"):
        read_certificate(tmp_path / "one.json")


def test_the_screen_names_every_figure_that_failed():
    lines = "\n".join(lines_of(made(1.0, 4.25)))
    assert "gmm gibbs: fails" in lines
    assert "statistic 1: 4.25, and 4.25 when rerun" in lines
    assert "statistic 0" not in lines
    assert "exact" in lines_of(made(1.0))[0]


def test_the_picture_shows_every_statistic_once():
    axes = picture(made(1.0, 4.0, 20.0)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["statistic 0", "statistic 1", "statistic 2"]
    assert len(axes.collections[0].get_offsets()) == 3


def test_the_table_names_verdicts_and_stale_certificates(tmp_path):
    """One of code as it is, one of older code, and a cell without any."""
    write_certificate(current(), tmp_path / "gmm-gibbs.json")
    write_certificate(made(1.0, 4.0)._replace(method="nuts"), tmp_path / "gmm-nuts.json")
    rows = [line.split(" | ") for line in table_of(tmp_path, ["gmm"]).splitlines() if line.startswith("| `gmm`")]
    others = ["–"] * (len(WAYS) - 5)
    quick, stale = "[exact](gmm-gibbs.json), quick", "[fails](gmm-nuts.json), quick, stale"
    assert rows == [["| `gmm`", quick, "–", "–", stale, *others, "– |"]]


def test_the_table_says_why_cells_are_refused(tmp_path):
    """Every cell is in the table of verdicts, or below it with a reason."""
    refused = table_of(tmp_path, list(MODELS)).partition("## Refused, and why")[2].splitlines()
    for method in WAYS:
        here = [line for line in refused if line.startswith(f"- `{method}` of ")]
        named = {model for model in MODELS for line in here if f"`{model}`" in line.partition(": ")[0]}
        assert named == {model for model in MODELS if (model, method) not in cells()}


def test_a_page_shows_the_figures_nearest_to_their_limits(tmp_path):
    """All that fail come first; how many are left out is said; the picture is there."""
    write_pages(made(4.5, *np.linspace(0, 3, 20)), tmp_path / "gmm-gibbs.json")
    page = (tmp_path / "gmm-gibbs.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| statistic")]
    assert rows == [f"| statistic {place}" for place in (0, *range(20, 20 - SHOWN + 1, -1))]
    assert f"{21 - SHOWN} more figures are in `gmm-gibbs.json`" in page
    assert "gmm by gibbs: fails" in page.splitlines()[0]
    assert "again=true" in page
    assert "(gmm-gibbs.svg)" in page
    assert (tmp_path / "gmm-gibbs.svg").is_file()


def test_the_page_of_an_approximation_has_the_size_of_its_bias():
    figures = (
        Figure("share of mean in its 90% interval", 0.6, 1.0, "share"),
        Figure("share of mean in its 90% interval, in the other half", 0.62, 1.0, COVERAGE),
        Figure("shift of mean", 0.4, 1e300, "sd"),
    )
    bias = Check("bias", "a sentence", True, figures, 0.0, "bias")
    certificate = Certificate("gmm", "cavi", "approximate", "full", 0, versions(), (bias,))
    page = page_of(certificate, "gmm-cavi")
    assert "**approximate (62% of 90%)**" in page
    assert "| share of mean in its 90% interval | 0.6 | share |" in page
    assert "| shift of mean | 0.4 | sd |" in page


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_no_published_share_is_near_its_limit():
    """Limits of shares do not count in the rate of false alarms: 2,500 replicates are 5 standard errors from each, or more."""
    for path in command.PUBLISHED.glob("*.json"):
        for figure in (figure for check in read_certificate(path).checks for figure in check.figures):
            if figure.name.endswith("left unchanged") and figure.passed:
                assert figure.value + 5 * np.sqrt(figure.value * (1 - figure.value) / 2_500) < figure.limit, (path, figure)


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_published_pages_are_those_of_their_certificates():
    """`python -m inference.support` renews the table, which says what is stale."""
    assert (command.PUBLISHED / command.TABLE).read_text(encoding="utf-8") == table_of(command.PUBLISHED, list(ORACLES))
    for path in command.PUBLISHED.glob("*.json"):
        assert path.with_suffix(".md").read_text(encoding="utf-8") == page_of(read_certificate(path), path.stem, about_of(path))


def test_the_table_sums_how_often_right_cells_fail(tmp_path):
    """Of two cells of a rate of 1e-6 each; one without a rate is named."""
    for method in ("gibbs", "nuts"):
        write_certificate(made(1.0)._replace(method=method), tmp_path / f"gmm-{method}.json")
    said = "If all 2 cells with a known rate are right, deviations fail at least one of them with probability 2e-06 at most"
    assert said in table_of(tmp_path, ["gmm"])
    certificate = made(1.0)._replace(method="em")
    unknown = tuple(check._replace(false_alarm=None) for check in certificate.checks)
    write_certificate(certificate._replace(checks=unknown), tmp_path / "gmm-em.json")
    assert "No rate is known of `gmm` `em`." in table_of(tmp_path, ["gmm"])


def test_the_table_sums_how_long_checks_took(tmp_path):
    """Six cells of 1 to 6 hours, half an hour of each for contracts that all share; a folder without any says nothing."""
    assert "took" not in table_of(tmp_path, ["gmm"])
    for hours, method in enumerate(("gibbs", "nuts", "em", "cavi", "map", "advi"), 1):
        law, mutant = made(1.0).checks
        checks = (law._replace(name="contracts", seconds=1800.0), mutant._replace(seconds=3600.0 * hours - 1800))
        write_certificate(made(1.0)._replace(method=method, checks=checks), tmp_path / f"gmm-{method}.json")
    said = table_of(tmp_path, ["gmm"])
    assert "All checks took 18.5 hours" in said
    assert "The cells with most: `gmm` `advi` (360 minutes), `gmm` `map` (300 minutes)" in said
    assert "`gmm` `gibbs` (" not in said


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "model= is missing"),
        (["model=gmm"], "method= is missing"),
        (["model=gm", "method=gibbs"], "did you mean gmm"),
        (["model=gmm", "method=gibs"], "did you mean gibbs"),
        (["model=hmm", "method=collapsed_gibbs"], "hmm has no certificate of collapsed_gibbs"),
        (["model=gmm", "method=gibbs", "budget=huge"], "quick, full"),
        (["model=gmm", "method=gibbs", "seed=-1"], "whole number"),
        (["model=gmm", "method=gibbs", "draws=3"], "takes model, method, budget, seed, out, again"),
        (["model=gmm", "method=gibbs", "budget"], "as key=value"),
        (["model=gmm", "method=gibbs", "again=yes"], "true or false"),
        (["changed", "minutes=soon"], "minutes must be a positive number, got 'soon'"),
        (["changed", "minutes=0"], "minutes must be a positive number"),
        (["model=gmm", "method=gibbs", "seed=99999999999"], "whole number"),
        (["model=ppca", "method=all", "budget=none"], "quick, full"),
    ],
)
def test_mistakes_in_the_arguments(arguments, said):
    with pytest.raises(ZooError, match=said):
        parsed(arguments)


def test_changed_cells_are_those_whose_published_certificate_is_of_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "PUBLISHED", tmp_path)
    write_certificate(current(), tmp_path / "gmm-gibbs.json")
    write_certificate(current(method="nuts", posterior="other"), tmp_path / "gmm-nuts.json")
    (tmp_path / "gmm-em.json").write_text("{")
    found = parsed(["changed"]).cells
    assert set(found) == {("gmm", "nuts"), ("gmm", "em")}
    assert [code_of(*cell) for cell in found] == sorted(code_of(*cell) for cell in found)


def test_no_cell_is_begun_when_the_time_is_over(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "num_cores", lambda: 1)
    assert certify_main(["model=gmm", "method=all", "minutes=1e-9", f"out={tmp_path}"]) == 0
    assert "cells were not certified: minutes= was over" in capsys.readouterr().out
    assert not list(tmp_path.glob("*.json"))


def test_an_error_in_one_cell_leaves_the_others(tmp_path, monkeypatch, capsys):
    def certified(method, model, *settings):
        if method == "em":
            raise ValueError("no starts")
        return made(0.5, 1.0, -0.5)._replace(model=model, method=method)

    monkeypatch.setattr(command, "num_cores", lambda: 1)
    monkeypatch.setattr(command, "certify", certified)
    assert certify_main(["model=gmm", "method=all", f"out={tmp_path}"]) == 3
    assert "gmm em: an error ended the checks: ValueError: no starts" in capsys.readouterr().out
    of_gmm = {method for model, method in cells() if model == "gmm"}
    assert {path.stem.removeprefix("gmm-") for path in tmp_path.glob("*.json")} == of_gmm - {"em"}


def test_all_cells_are_asked_for_together():
    everything = parsed(["all"]).cells
    assert ("gmm", "gibbs") in everything
    assert ("latent_dirichlet", "collapsed_gibbs") in everything
    assert ("hmm", "map") in everything
    assert ("hmm", "tempered_gibbs") not in everything
    sampled = [model for model, _ in parsed(["model=all", "method=collapsed_gibbs"]).cells]
    assert sampled == ["gmm", "gmm_simple", "mixed_mixture", "latent_dirichlet"]


def test_examples_of_the_help_are_understood():
    lines = [line.split() for line in COMMANDS["certify"].splitlines() if line.startswith("  python -m inference.certify")]
    assert len(lines) == 2
    for line in lines:
        parsed(line[3:])


def test_a_certificate_of_em_speaks_for_the_optimiser_that_it_is_compared_with(monkeypatch):
    before, source = code_of("gmm", "em"), fingerprint._source
    monkeypatch.setattr(fingerprint, "_source", lambda name: source(name) + EDIT * (name == "inference.methods.map"))
    assert code_of("gmm", "em") != before


def test_numbers_that_are_none_survive_the_disk(tmp_path):
    certificate = made(float("inf"), 1.0)
    write_certificate(certificate, tmp_path / "one.json")
    assert "Infinity" not in (tmp_path / "one.json").read_text()
    assert read_certificate(tmp_path / "one.json") == certificate


def test_a_mutant_that_passes_makes_a_cell_inconclusive():
    certificate = made(1.0)
    law, control = certificate.checks
    assert certificate._replace(checks=(law, control._replace(passed=False))).verdict == "inconclusive"
    assert certificate._replace(checks=(law._replace(passed=False), control)).verdict == "fails"
    assert certificate._replace(checks=(law._replace(false_alarm=None), control)).false_alarm is None


def test_a_budget_is_one_of_two():
    with pytest.raises(ZooError, match="quick, full"):
        certify("gibbs", budget="some")
    with pytest.raises(ZooError, match="whole number"):
        certify("gibbs", seed=-1)
    require_cell("hmm", "nuts")


@pytest.mark.slow
def test_the_command_writes_a_certificate_and_does_not_do_it_again(tmp_path, capsys):
    arguments = ["model=gmm_simple", "method=gibbs", f"out={tmp_path}"]
    assert certify_main(arguments) == 0
    first = json.loads((tmp_path / "gmm_simple-gibbs.json").read_text())
    assert first["verdict"] == "exact"
    assert first["command"] == "python -m inference.certify model=gmm_simple method=gibbs budget=quick seed=0 again=true"
    assert (tmp_path / "gmm_simple-gibbs.svg").read_text().startswith("<?xml")
    capsys.readouterr()
    assert certify_main(arguments) == 0
    assert "as certified before" in capsys.readouterr().err
    assert json.loads((tmp_path / "gmm_simple-gibbs.json").read_text()) == first
