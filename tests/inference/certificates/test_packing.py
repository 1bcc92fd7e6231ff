"""Small files: phrases as codes, deviations in tenths, and that nothing of a certificate is read as something else."""

import json
import math
import re

import numpy as np
import pytest
from made_certificates import made

from inference.certificates import command, phrases
from inference.certificates.certificate import cell_paths, read_certificate, write_certificate
from inference.certificates.checks.figure import MOST, Check, Figure
from inference.certificates.packing import packed, short, unpacked
from inference.certificates.phrases import MARK, PHRASES, expanded, shortened
from models import ZooError

MOST_BYTES = 4096  # of a published file
DEVIATIONS = (0.0, -0.04, 0.05, 0.25, -3.4999999, 3.5, -3.5000001, 9.96, 57.3, -123.4, 99_999.0, 1.2e5, 3e7, 1e300, 1.7e308)
ENDLESS = (math.inf, -math.inf, math.nan)


def test_every_phrase_has_a_code_of_its_own():
    """Of two characters, so that what follows a code is none of it; a phrase with the mark would be read as a code."""
    texts = [phrase for code, phrase in PHRASES.items() if code != MARK * 2]
    assert all(re.fullmatch(r"[a-z0-9]{2}", code) for code in PHRASES if code != MARK * 2)
    assert len(set(texts)) == len(texts)
    assert not any(MARK in phrase for phrase in texts)
    assert all(len(phrase) > len(MARK) + 2 for phrase in texts)


def test_any_text_survives():
    """Phrases, parts of them, codes, marks and quotes, in any order; also as keys."""
    rng = np.random.default_rng(0)
    texts = list(PHRASES.values())
    pieces = [*texts, *(text[:-1] for text in texts), *(MARK + code for code in PHRASES), MARK, "×", '"', "\\", "\n", "{}", "l"]
    for _ in range(500):
        text = "".join(rng.choice(pieces, size=rng.integers(8)))
        assert expanded(shortened(text)) == text
        assert expanded(json.loads(json.dumps(shortened({text: [text, 1, None]})))) == {text: [text, 1, None]}


def law_of(names, values):
    """A certificate whose law has these figures, none of them rerun."""
    certificate = made(1.0)
    law = Check("kernel law", "log likelihood deviates by ~ll", True, (), 1e-6, size=100, witness={"log likelihood": 1.25})
    figures = tuple(Figure(name, float(value), MOST, "deviation") for name, value in zip(names, values, strict=True))
    return certificate._replace(checks=(*certificate.checks[:3], law._replace(figures=figures)))


def read_back(path, certificate):
    write_certificate(certificate, path)
    return read_certificate(path)


def test_deviations_on_disk_are_those_with_few_digits(tmp_path):
    """In tenths, as whole numbers, wherever one digit says it; those at a limit with all of their digits."""
    values = [*DEVIATIONS, *ENDLESS, *np.random.default_rng(1).normal(size=200) * 2]
    names = [f"statistic {place}" for place in range(len(values))]
    found = read_back(tmp_path / "gmm-gibbs.json", law_of(names, values)).checks[-1].figures
    assert [figure.name for figure in found] == names
    for figure, value in zip(found, values, strict=True):
        assert repr(figure.value) == repr(float(short(value, MOST))), value
    content = json.loads((tmp_path / "gmm-gibbs.json").read_text())["checks"][-1]["table"]["{}"]
    for entry, value in zip(content, values, strict=True):
        if abs(value) < 3.4:
            assert entry == round(10 * round(value, 1))


def test_a_statistic_that_is_lacking_at_one_look_is_none(tmp_path):
    """A pattern with fewer statistics than another one has no figure for the others."""
    names = ["log likelihood", "b", "log likelihood, spread", "c", "c, spread", "c, lower tail"]
    certificate = law_of(names, [0.1, 0.2, 0.3, -0.4, 0.5, -0.6])
    found = read_back(tmp_path / "gmm-gibbs.json", certificate)
    assert {figure.name: figure.value for figure in found.checks[-1].figures} == dict(
        zip(names, [0.1, 0.2, 0.3, -0.4, 0.5, -0.6], strict=True)
    )


def test_rerun_figures_survive(tmp_path):
    """With all of their digits, but where both looks have one number; 1 is a number, and not the mark of those."""
    certificate = law_of("abcdef", [4.1, 4.0, 3.6, math.inf, -3.9, 0.1])
    *before, law = certificate.checks
    for reruns in ([1.0, 4.0, 1 / 3, math.inf, -math.inf, None], [1.0] * 6, [4.1, 4.0, 3.6, math.inf, -3.9, 0.1], [None] * 6):
        figures = tuple(one._replace(again=rerun) for one, rerun in zip(law.figures, reruns, strict=True))
        whole = certificate._replace(checks=(*before, law._replace(figures=figures)))
        assert read_back(tmp_path / "gmm-gibbs.json", whole) == whole


def test_limits_stand_in_the_order_of_their_figures(tmp_path):
    """Texts in a set have another order in every process: a file that is written again would differ for no reason."""
    units = {"{}": "deviation", "shift of {}": "sd", "{} of new rows": "relative", "share of {} in its 90% interval": "share"}
    figures = tuple(Figure(pattern.format("mean"), 0.5, 1.0, unit) for pattern, unit in units.items())
    certificate = law_of([], [])
    *before, law = certificate.checks
    write_certificate(certificate._replace(checks=(*before, law._replace(figures=figures))), tmp_path / "gmm-gibbs.json")
    content = expanded(json.loads((tmp_path / "gmm-gibbs.json").read_text()))
    assert list(content["checks"][-1]["limits"]) == list(units.values())


def without(code):
    return {each: phrase for each, phrase in PHRASES.items() if each != code}


@pytest.mark.parametrize("others", [PHRASES | {"ll": "log likelihood of rows"}, PHRASES | {"ll": "last word"}, without("ll")])
def test_a_file_whose_phrases_were_others_is_refused(tmp_path, monkeypatch, others):
    """A name that is now another one would be a wrong reading."""
    path = tmp_path / "gmm-gibbs.json"
    assert read_back(path, law_of(["log likelihood"], [1.0])) == law_of(["log likelihood"], [1.0])
    assert "~ll" in path.read_text()
    monkeypatch.setattr(phrases, "PHRASES", others)
    with pytest.raises(ZooError, match=r"gmm-gibbs.json is not as it was written: .* certify again"):
        read_certificate(path)


@pytest.mark.parametrize("text", ["1.25", "[10"])
def test_a_file_that_was_changed_by_hand_is_refused(tmp_path, text):
    path = tmp_path / "gmm-gibbs.json"
    write_certificate(law_of(["a", "b"], [1.0, 2.0]), path)
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, f"{text}1"))
    with pytest.raises(ZooError, match="is not as it was written"):
        read_certificate(path)


def test_old_cells_are_read_as_before_when_a_cell_of_their_model_is_renewed(tmp_path, monkeypatch):
    """The renewed one has more statistics, and phrases for them that the old one was written without."""
    names = ["log likelihood", "rows 1 and 2 together"]
    old = law_of(names, [0.1, -0.2])
    write_certificate(old, tmp_path / "gmm-gibbs.json")
    more = PHRASES | {"zz": "rows 1 and ", "zy": "log likelihood, "}
    monkeypatch.setattr(phrases, "PHRASES", more)
    monkeypatch.setattr(phrases, "CODES", {phrase: f"{MARK}{code}" for code, phrase in more.items()})
    longest_first = sorted(map(re.escape, phrases.CODES), key=len, reverse=True)
    monkeypatch.setattr(phrases, "PHRASE", re.compile("|".join(longest_first)))
    renewed = law_of(["rows 1 and 3 together", *names, "log likelihood, spread"], [1.0, 1.1, 0.5, 0.3])._replace(method="nuts")
    write_certificate(renewed, tmp_path / "gmm-nuts.json")
    assert "~zz3 together" in (tmp_path / "gmm-nuts.json").read_text()
    assert read_certificate(tmp_path / "gmm-gibbs.json") == old
    figures = read_certificate(tmp_path / "gmm-nuts.json").checks[-1].figures
    assert {each.name: each.value for each in figures} == {each.name: each.value for each in renewed.checks[-1].figures}


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_published_certificates_are_small():
    """Where one is larger, names that it repeats lack a phrase in `inference/certificates/phrases.py`."""
    sizes = {path.name: path.stat().st_size for path in command.PUBLISHED.glob("*.json")}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}


def renewed_numbers(check, rng):
    """A check with other numbers, as a renewal may draw them: deviations are standard normal, one of them was rerun."""

    def figure(one):
        if one.unit == "deviation" and check.kind != "control":
            return one._replace(value=rng.normal(), again=None)
        return one._replace(value=one.value * rng.uniform(0.5, 1) or 1.2e-16 * (one.unit == "relative"))

    figures = [figure(one) for one in check.figures]
    if check.kind != "control" and figures[0].unit == "deviation":
        figures[0] = figures[0]._replace(value=-rng.uniform(3.5, 5), again=rng.normal())
    witness = {name: float(f"{rng.normal() * 10 ** rng.uniform(-2, 2):.8g}") for name in check.witness}
    return check._replace(figures=tuple(figures), witness=witness, seconds=check.seconds + rng.uniform(0, 1000))


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_a_renewed_certificate_is_small_whatever_its_numbers():
    rng = np.random.default_rng(2)
    for path in cell_paths(command.PUBLISHED):
        facts, checks = unpacked(path)
        named = {name: value for name, value in facts.items() if name != "schema"}
        for _ in range(3):
            assert len(packed(named, [renewed_numbers(check, rng) for check in checks]).encode()) <= MOST_BYTES, path
