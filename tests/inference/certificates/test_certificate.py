"""Certificates on disk, and their verdicts."""

import json

import numpy as np
import pytest
from made_certificates import OF_MODEL, made

from inference.certificates.cell import certify, require_cell
from inference.certificates.certificate import as_json, at_most, read_certificate, write_certificate
from inference.certificates.checks.figure import MOST, Figure, control
from inference.certificates.packing import SCHEMA
from inference.certificates.phrases import MARK
from models import ZooError


@pytest.mark.parametrize("probability", [1.24e-5, 6.49e-6, 9.6e-6, 1e-6, 2e-5, 3.1e-4, 0.7, 0.0])
def test_a_bound_is_rounded_up(probability):
    """Whoever reads "at most" must be able to rely on it."""
    shown = float(at_most(probability))
    assert probability * (1 - 1e-9) <= shown <= 2 * probability


def test_a_certificate_survives_the_disk(tmp_path):
    certificate = made(1.0, -2.0, 4.0, 0.5)
    write_certificate(certificate, tmp_path / "one.json")
    assert read_certificate(tmp_path / "one.json") == certificate
    assert json.loads((tmp_path / "one.json").read_text())["verdict"] == certificate.verdict == "fails"


def test_figures_of_numpy_are_written(tmp_path):
    """Checks compute in NumPy, whose booleans JSON does not know."""
    figure = Figure("x", np.float64(9.0), np.float64(MOST), "deviation", np.float64(9.0))
    certificate = made(1.0)
    certificate = certificate._replace(checks=(*OF_MODEL, control("kernel law", "a mutant", figure.rejects, [figure])))
    write_certificate(certificate, tmp_path / "one.json")
    assert read_certificate(tmp_path / "one.json") == certificate


NO_CONTENT = '{"schema": 5, "checks": [3], "statistics": []}'


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 2}', NO_CONTENT, NO_CONTENT.replace("}", ', "checksum": ""}'), "[1]"])
def test_what_is_no_certificate_is_refused(tmp_path, text):
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(ZooError, match="certif"):
        read_certificate(tmp_path / "one.json")


def test_a_certificate_of_an_older_schema_is_refused(tmp_path):
    write_certificate(made(1.0), tmp_path / "gmm-gibbs.json")
    text = (tmp_path / "gmm-gibbs.json").read_text()
    (tmp_path / "gmm-gibbs.json").write_text(text.replace(f'"schema": {SCHEMA}', '"schema": 4'))
    with pytest.raises(ZooError, match=f"gmm-gibbs.json has schema 4, and this version reads {SCHEMA}: certify again"):
        read_certificate(tmp_path / "gmm-gibbs.json")


def test_a_certificate_for_readers_elsewhere_has_neither_codes_nor_tenths():
    certificate = made(1.23456, float("inf"))
    text = as_json(certificate)
    kept = json.loads(text)
    assert MARK not in text
    assert (kept["verdict"], kept["command"]) == (certificate.verdict, certificate.command)
    for found, check in zip(kept["checks"], certificate.checks, strict=True):
        assert (found["name"], found["says"], found["witness"]) == (check.name, check.says, dict(check.witness))
        assert [(each["name"], float(each["value"])) for each in found["figures"]] == [each[:2] for each in check.figures]


def test_numbers_that_are_none_survive_the_disk(tmp_path):
    certificate = made(float("inf"), 1.0)
    write_certificate(certificate, tmp_path / "one.json")
    assert "Infinity" not in (tmp_path / "one.json").read_text()
    assert read_certificate(tmp_path / "one.json") == certificate


def test_a_mutant_that_passes_makes_a_cell_inconclusive():
    certificate = made(1.0)
    *_, law, control = certificate.checks
    assert certificate._replace(checks=(law, control._replace(passed=False))).verdict == "inconclusive"
    assert certificate._replace(checks=(law._replace(passed=False), control)).verdict == "fails"
    assert certificate._replace(checks=(law._replace(false_alarm=None), control)).false_alarm is None


def test_a_budget_is_one_of_two():
    with pytest.raises(ZooError, match="quick, full"):
        certify("gibbs", budget="some")
    with pytest.raises(ZooError, match="whole number"):
        certify("gibbs", seed=-1)
    require_cell("hmm", "nuts")


def test_a_certificate_without_the_checks_of_its_model_is_refused(tmp_path):
    """Parity and contracts are in a file of their own: where it is gone, the rest is no certificate."""
    write_certificate(made(1.0), tmp_path / "gmm-gibbs.json")
    (tmp_path / "gmm.json").unlink()
    with pytest.raises(ZooError, match="half of a certificate"):
        read_certificate(tmp_path / "gmm-gibbs.json")
