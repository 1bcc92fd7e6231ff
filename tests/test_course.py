"""The course notes: statements are numbered once, links resolve, exercises have answers, snippets print what the page says.

What the chapters prove is checked in `test_course_identities.py`.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path

import matplotlib
import nbformat
import pytest

from inference.cli.runs.config import compose, expand

ROOT = Path(__file__).parents[1]
COURSE = ROOT / "docs" / "course"
CHAPTERS = sorted(COURSE.glob("[0-9]*.md"))
ANCHOR = re.compile(r"^\((s-\d+-\d+)\)=$", re.MULTILINE)
STATEMENT = re.compile(r"^\((s-\d+-\d+)\)=\n\*\*Statement (\d+)\.(\d+)\*\* \(", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]*)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

named = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def prose(path):
    """A page without its code."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors_of(path):
    """What a link to a page may name: targets, and headings as GitHub and MyST spell them."""
    text = path.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {*ANCHOR.findall(text), *(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings)}


def test_chapters_are_found():
    assert CHAPTERS


@named
def test_statements_are_numbered_in_order(path):
    chapter = int(path.stem[:2])
    found = STATEMENT.findall(path.read_text(encoding="utf-8"))
    assert [anchor for anchor, *_ in found] == ANCHOR.findall(path.read_text(encoding="utf-8")), "an anchor without a statement"
    assert [(int(c), int(s)) for _, c, s in found] == [(chapter, s + 1) for s in range(len(found))]
    assert all(anchor == f"s-{c}-{s}" for anchor, c, s in found)


@named
def test_statements_that_the_text_mentions_exist(path):
    mentioned = re.findall(r"(?:Statements?|Exercise) (\d+)\.(\d+)", prose(path))
    here = {int(p.stem[:2]): anchors_of(p) for p in CHAPTERS}
    missing = {f"{c}.{s}" for c, s in mentioned if int(c) in here and f"s-{c}-{s}" not in here[int(c)]}
    assert not missing


@pytest.mark.parametrize("path", sorted(COURSE.glob("*.md")), ids=lambda path: path.stem)
def test_links_resolve(path):
    for link in LINK.findall(prose(path)):
        if link.startswith("http"):
            continue
        target, _, anchor = link.partition("#")
        page = path if not target else (path.parent / target)
        assert page.exists(), link
        assert not anchor or anchor in anchors_of(page), link


def test_links_to_the_course_resolve():
    """Those of other pages and of the notebooks, whose readers see them on GitHub and on the site."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        pages[path] = "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown")
    for page, text in pages.items():
        for link in LINK.findall(text):
            target, _, anchor = link.partition("#")
            if "course/" in target and not link.startswith("http"):
                assert (page.parent / target).exists(), (page.name, link)
                assert not anchor or anchor in anchors_of(page.parent / target), (page.name, link)


@named
def test_a_chapter_ends_with_exercises_and_references(path):
    text = path.read_text(encoding="utf-8")
    sections = re.findall(r"^## (?:\d+\.\d+ )?(.*)$", text, re.MULTILINE)
    assert sections[-2:] == ["Exercises", "References"]
    exercises = text[text.rindex("Exercises\n") :]
    assert 4 <= len(ANCHOR.findall(exercises)) <= 8
    for exercise in ANCHOR.split(exercises)[2::2]:
        assert exercise.count(":::{dropdown} Answer\n") == 1
        assert exercise.count("\n:::\n") == 1


@pytest.mark.parametrize("path", sorted(COURSE.glob("*.md")), ids=lambda path: path.stem)
def test_lines_are_short_and_mathematics_closes(path):
    text = path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 128
    assert prose(path).count("$$") % 2 == 0
    inline = re.sub(r"`[^`]*`", "", re.sub(r"\$\$.*?\$\$", "", prose(path), flags=re.DOTALL))
    assert all(paragraph.count("$") % 2 == 0 for paragraph in re.split(r"\n\s*\n|\n(?=- )", inline))
    for name in re.findall(r"\]\((figures/[^)]*)\)", text):
        assert (COURSE / name).read_text(encoding="utf-8").lstrip().startswith("<?xml"), name


@named
def test_commands_have_known_options(path):
    """Names of models, methods, data sets and options, without a fit."""
    commands = re.findall(r"^uv run python -m inference\.(\w+) (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    for command, arguments in commands:
        for overrides in expand(shlex.split(arguments), sweep=command == "compare"):
            assert compose(overrides)["method"]


def tolerance(number: str) -> float:
    """How far a number may be off that a page prints as ``number``."""
    decimals = len(number.partition(".")[2])
    last_decimal = 1.01 * 10.0**-decimals if decimals else 0.0
    return max(0.02, last_decimal, min(0.03 * abs(float(number)), 1.0))


@pytest.mark.slow
@named
def test_snippets_print_what_the_page_says(path, tmp_path, monkeypatch):
    """In one namespace and in order. A number may differ by the largest of 0.02, one in its last decimal, and 3 % up to 1.

    Draws differ from machine to machine. Differences that the text speaks of, such as those of two BIC, are larger.
    """
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    own: dict = {}
    fences = FENCE.findall(path.read_text(encoding="utf-8"))
    for (kind, code), (next_kind, wanted) in zip(fences, [*fences[1:], ("", "")], strict=True):
        if kind != "python":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, path.name, "exec"), own)
        found = printed.getvalue()
        wanted = wanted if next_kind == "text" and found else ""
        assert NUMBER.sub("#", found).split() == NUMBER.sub("#", wanted).split()
        values = [float(number) for number in NUMBER.findall(found)]
        for value, number in zip(values, NUMBER.findall(wanted), strict=True):
            assert abs(value - float(number)) <= tolerance(number), found
