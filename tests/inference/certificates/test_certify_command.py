"""`inference.certify` from the shell."""

import json

import pytest
from made_certificates import current, made

from inference.certificates import command
from inference.certificates.cell import cells, code_of
from inference.certificates.certificate import write_certificate
from inference.certificates.command import certify_main, parsed
from inference.cli.runs.help import COMMANDS
from models import ZooError


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
