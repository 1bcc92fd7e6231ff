"""No name moves a cursor, answers a terminal, breaks a page, or turns the words beside it."""

import io
import unicodedata
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from inference.cli.runs.guard import guarded
from inference.markup.tags import escaped, paragraph
from inference.runtime.files import picture_bytes
from inference.runtime.formats.texts import visible
from inference.runtime.progress import console
from models.errors import ZooError

HOSTILE = "a\x1b]0;owned\x07b\x1b[31mc\x00\x9b2Jd\x85\ufffee\r"


def is_shown(text):
    return not [one for one in text if unicodedata.category(one) in ("Cc", "Cs", "Cn") and one != "\n"]


def test_control_characters_have_a_mark():
    text = "".join(map(chr, range(0x20))) + "".join(map(chr, range(0x7F, 0xA0))) + "\ud800\ufffe\uffff"
    assert is_shown(visible(text).replace("\t", ""))
    assert visible("Größe\t1\n2 · ∞ 名前 \U0001f600") == "Größe\t1\n2 · ∞ 名前 \U0001f600"


TURNED = ["\u202eb", "\u2067b", "\u2069\u202eb", "b\u2069\u2069", "\u2068a\u2069b\u202e\u2068c\u2069", "\u2066"]


@pytest.mark.parametrize("text", TURNED)
def test_marks_of_direction_are_isolated(text):
    """The isolate that the text begins with ends with its last character, whatever is open in it; once is enough."""
    found = visible(f"a{text}\nb")
    line, rest = found.split("\n")
    depth = 0
    for place, one in enumerate(line):
        depth += (one in "\u2066\u2067\u2068") - (one == "\u2069")
        assert (depth == 0) == (place == len(line) - 1)
    assert line[0] == "\u2068"
    assert rest == "b"
    assert visible(found) == found


def test_the_screen_shows_them(capsys):
    from rich.table import Table

    file, table = io.StringIO(), Table("name\x1b[2J", "value")
    table.add_row(HOSTILE, "x\u202ey")
    for each in (HOSTILE, table):
        console(file).print(each)
    assert is_shown(file.getvalue())
    assert "\u2068x\u202ey" in file.getvalue()

    def refused(arguments):
        raise ZooError(f"column {HOSTILE!s}")

    assert guarded(refused, []) == 2
    assert is_shown(capsys.readouterr().err)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_pages_and_pictures_are_well_formed():
    """A parser of XML refuses control characters: the page that it reads has the texts."""
    page = ElementTree.fromstring(f"<p a='{escaped(HOSTILE)}'>{paragraph(HOSTILE + '<&')}</p>")
    assert is_shown(page.get("a"))
    assert "<&" in "".join(page.itertext())
    figure = Figure()
    figure.add_subplot().set_xlabel(HOSTILE)
    assert ElementTree.fromstring(picture_bytes(figure, "svg")).tag.endswith("svg")
