"""`inference.certify` from the shell."""

import pytest
from made_certificates import OF_MODEL, made

from inference.certificates import command
from inference.certificates.cell import cells
from inference.certificates.certificate import (
    MODEL_CHECKS,
    cell_paths,
    read_certificate,
    write_certificate,
    write_unfinished,
)
from inference.certificates.command import certify_main, parsed
from inference.certificates.comparison import Changed
from inference.certificates.oracles import ORACLES
from inference.certificates.witnesses.witness import Difference
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
        (["model=hmm", "model.emission=gaussian", "method=em"], "there is no oracle of model=hmm model.emission=gaussian"),
        (
            ["model=hmm", "model.emission=negative_binomial", "method=exact"],
            "hmm_negative_binomial has no certificate of exact",
        ),
        (["model=gmm", "method=gibbs", "again=yes"], "true or false"),
        (["witnesses", "renew"], "do not go together"),
        (["renew", "model=gmm", "budget=full"], "budget= has no use with renew"),
        (["changed"], "all or witnesses or renew"),
        (["model=gmm", "method=gibbs", "seed=99999999999"], "whole number"),
        (["model=ppca", "method=all", "budget=none"], "quick, full"),
    ],
)
def test_mistakes_in_the_arguments(arguments, said):
    with pytest.raises(ZooError, match=said):
        parsed(arguments)


def test_options_of_a_model_ask_for_its_variant(tmp_path):
    """And all models are without their variants, but for those that have a certificate to compare with."""
    given = ["model=mixed_mixture", "model.counts=negative_binomial", "method=em"]
    assert parsed(given).cells == [("mixed_mixture_negative_binomial", "em")]
    assert {model for model, _ in parsed(["all"]).cells} == set(ORACLES)
    (tmp_path / "hmm_negative_binomial-em.json").write_text("{}", encoding="utf-8")
    found = [cell for cell in parsed(["witnesses", f"out={tmp_path}"]).cells if cell[0] not in ORACLES]
    assert found == [("hmm_negative_binomial", "em")]


def test_witnesses_of_no_certificate_are_refused(tmp_path):
    with pytest.raises(ZooError, match="there is nothing to compare with"):
        certify_main(["witnesses", f"out={tmp_path}"])


def in_turn(changed):
    """In place of the processes that compare: what they found, for the cells that are asked for."""
    return lambda cells, folder: iter([each for each in changed if each.cell in cells])


def test_witnesses_that_differ_are_named_and_make_the_command_fail(tmp_path, monkeypatch, capsys):
    for method in ("gibbs", "nuts"):
        write_certificate(made(1.0)._replace(method=method), tmp_path / f"gmm-{method}.json")
    same, other = Changed(("gmm", "gibbs"), {}), Changed(("gmm", "nuts"), {"posterior": [Difference("mean", 0.01)]})
    monkeypatch.setattr(command, "changes_of_models", in_turn([same, other]))
    assert certify_main(["witnesses", "model=gmm", f"out={tmp_path}"]) == 3
    said = capsys.readouterr().out
    assert "gmm nuts: posterior: mean differs by 0.01 of its size" in said
    assert "1 of 2 cells differ" in said
    assert certify_main(["witnesses", "model=gmm", "method=gibbs", f"out={tmp_path}"]) == 0
    assert "all 1 cells agree" in capsys.readouterr().out


def test_renew_certifies_the_cells_that_differ_with_their_budget(tmp_path, monkeypatch, capsys):
    for method in ("gibbs", "nuts"):
        write_certificate(made(1.0)._replace(method=method, budget="full"), tmp_path / f"gmm-{method}.json")
    asked = []

    def certified(method, model, budget, seed, *others):
        asked.append((model, method, budget, seed))
        return made(0.5, 1.0, -0.5)._replace(model=model, method=method)

    changed = [Changed(("gmm", "gibbs"), {}), Changed(("gmm", "nuts"), {"posterior": [Difference("mean", 0.01)]})]
    monkeypatch.setattr(command, "changes_of_models", in_turn(changed))
    monkeypatch.setattr(command, "certify", certified)
    assert certify_main(["renew", "model=gmm", f"out={tmp_path}"]) == 0
    assert asked == [("gmm", "nuts", "full", 0)]
    (tmp_path / "gmm-nuts.json").write_text("{")
    write_certificate(made(1.0)._replace(seed=7), tmp_path / "gmm-gibbs.json")
    both = [Changed(("gmm", method), {}, error="it differs") for method in ("gibbs", "nuts")]
    monkeypatch.setattr(command, "changes_of_models", in_turn(both))
    assert certify_main(["renew", "model=gmm", f"out={tmp_path}"]) == 0
    assert asked[1:] == [("gmm", "gibbs", "quick", 7), ("gmm", "nuts", "full", 0)]
    assert "mean differs by 0.01" in capsys.readouterr().out
    monkeypatch.setattr(command, "changes_of_models", in_turn(changed[:1]))
    assert certify_main(["renew", "model=gmm", f"out={tmp_path}"]) == 0
    assert "nothing to renew" in capsys.readouterr().out


def test_an_unfinished_certificate_goes_before_a_finished_one_check_by_check(tmp_path):
    """Of other budgets it is nothing; its checks come first, others are those of the finished certificate.

    The control of a check that ended before its control was made is not taken from the finished one.
    """
    path = tmp_path / "gmm-gibbs.json"
    whole = made(1.0, 2.0)
    write_certificate(whole, path)
    newer = whole._replace(checks=(*OF_MODEL, whole.checks[-2]._replace(size=7)))
    write_unfinished(newer, path.with_suffix(command.UNFINISHED))
    found = command._before(path, "quick", 0)
    sizes = [(check.name, check.size) for check in found.checks]
    assert sizes == [*((name, 0) for name in MODEL_CHECKS), ("kernel law", 7)]
    of_model = whole._replace(checks=OF_MODEL)
    write_unfinished(of_model, path.with_suffix(command.UNFINISHED))
    assert command._before(path, "quick", 0).checks == read_certificate(path).checks
    write_unfinished(newer._replace(budget="full"), path.with_suffix(command.UNFINISHED))
    assert command._before(path, "quick", 0) == read_certificate(path)
    assert command._before(path, "quick", 1) is None


def test_an_interrupted_cell_leaves_the_checks_of_its_model(tmp_path):
    """The file of a model is written when its checks are whole, and those of another seed are refused."""
    law = made(1.0).checks[-2]
    of_model = tuple(law._replace(name=name) for name in MODEL_CHECKS)
    whole = made(1.0)._replace(checks=(*of_model, law))
    write_certificate(whole, tmp_path / "gmm-gibbs.json")
    write_unfinished(whole._replace(method="nuts", checks=of_model[:1]), tmp_path / "gmm-nuts.unfinished.json")
    assert read_certificate(tmp_path / "gmm-gibbs.json") == whole
    assert read_certificate(tmp_path / "gmm-nuts.unfinished.json").checks == of_model[:1]
    write_certificate(whole._replace(seed=1, method="em"), tmp_path / "gmm-em.json")
    with pytest.raises(ZooError, match=r"of seed 0, and .* of seed 1"):
        read_certificate(tmp_path / "gmm-gibbs.json")


def test_an_interrupted_cell_goes_on_after_its_last_check(tmp_path, monkeypatch):
    """Each check is on disk before the next one begins; the file of a finished cell replaces the unfinished one."""
    seen = []

    def certified(method, model, budget, seed, say, before, keep):
        seen.append(before)
        keep(made(0.5, 1.0, -0.5))
        if before is None:
            raise KeyboardInterrupt
        return made(0.5, 1.0, -0.5)

    monkeypatch.setattr(command, "certify", certified)
    arguments = ["model=gmm", "method=gibbs", f"out={tmp_path}"]
    with pytest.raises(KeyboardInterrupt):
        certify_main(arguments)
    assert not (tmp_path / "gmm-gibbs.json").exists()
    assert certify_main(arguments) == 0
    assert seen[1].checks == made(0.5, 1.0, -0.5).checks
    assert [path.name for path in cell_paths(tmp_path)] == ["gmm-gibbs.json"]
    assert not list(tmp_path.glob("*unfinished*"))


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
    assert {path.stem.removeprefix("gmm-") for path in cell_paths(tmp_path)} == of_gmm - {"em"}


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
    assert len(lines) == 3
    for line in lines:
        parsed(line[3:])


@pytest.mark.slow
def test_the_command_writes_a_certificate_and_does_not_do_it_again(tmp_path, capsys):
    arguments = ["model=gmm_simple", "method=gibbs", f"out={tmp_path}"]
    assert certify_main(arguments) == 0
    path = tmp_path / "gmm_simple-gibbs.json"
    first = path.read_bytes()
    certificate = read_certificate(path)
    assert certificate is not None
    assert certificate.verdict == "invariant"
    assert {check.name for check in certificate.checks} >= {"kernel law", "posterior", "predictions"}
    assert (tmp_path / "gmm_simple-gibbs.svg").read_text().startswith("<?xml")
    capsys.readouterr()
    assert certify_main(arguments) == 0
    assert "as certified before" in capsys.readouterr().err
    assert path.read_bytes() == first
