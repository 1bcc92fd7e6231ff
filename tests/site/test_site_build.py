"""The site is built, with warnings as errors, and needs no network; its pages fit a small screen."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import in_browser, shown

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)", re.IGNORECASE)
NOT_LOADED = re.compile(r"<link\b[^>]*\brel=[\"'](?:canonical|search|next|prev|index|author)[\"'][^>]*>", re.IGNORECASE)
WIDTHS = (400, 1200)  # pixels
LOOKED_AT = (
    "index",
    "models/gmm",
    "methods/nuts",
    "reference/results",
    "reference/python_api",
    "tutorials/gmm",
    "shell",
    "errata",
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    pytest.importorskip("sphinx", reason="the group docs is not installed: uv sync --group docs")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "docs", f"out={out}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / "html"


def pages(html):
    return [path for path in html.rglob("*.html") if "_static" not in path.parts]


def test_every_page_is_there(html):
    made = {path.relative_to(html).as_posix() for path in pages(html)}
    assert {
        "index.html",
        "start/tour.html",
        "models/gmm.html",
        "methods/nuts.html",
        "tutorials/gmm.html",
        "search.html",
    } <= made
    assert (html / "_images").is_dir()


def test_nothing_comes_from_the_network(html):
    """Neither scripts nor styles nor pictures nor fonts; MathJax and its fonts are there."""
    for path in pages(html):
        loaded = LOADED.findall(NOT_LOADED.sub("", path.read_text(encoding="utf-8")))
        assert not [target for target in loaded if target.startswith(("http:", "https:", "//"))], path
    styles = [path.read_text(encoding="utf-8") for path in (html / "_static").rglob("*.css")]
    assert not [found for text in styles for found in re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)", text)]
    assert "mathjax/tex-chtml-full.js" in (html / "tutorials" / "gmm.html").read_text(encoding="utf-8")
    assert list((html / "_static" / "mathjax").rglob("MathJax_Math-Italic.woff"))


def test_no_marker_is_left(html):
    assert not [path for path in pages(html) if "<!-- generated" in path.read_text(encoding="utf-8")]


def test_warnings_can_be_linked_to(html):
    text = (html / "reference" / "results.html").read_text(encoding="utf-8")
    assert 'id="warning-r-hat"' in text
    assert 'id="warning-pareto-k-hat-of-rows"' in text


@in_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_fits_the_screen(html, name, width, tmp_path):
    """Nothing is wider than the screen, there is one heading, and the console stays empty."""
    probe = """<script>addEventListener('load', () => setTimeout(() => {
      const inside = document.querySelector('iframe').contentDocument;
      const scrolls = each => ['auto', 'scroll'].includes(inside.defaultView.getComputedStyle(each).overflowX);
      const clipped = [...inside.querySelectorAll('.bd-article *')].filter(each => {
        let above = each;
        while (!above.matches('.bd-article') && !scrolls(above)) above = above.parentElement;
        return above.matches('.bd-article') && each.getBoundingClientRect().right > inside.documentElement.clientWidth + 1;
      });
      const headings = inside.querySelectorAll('h1').length;
      document.title = [inside.documentElement.scrollWidth, headings, clipped.length].join(' ');
    }, 1500))</script>"""
    frame = f'<iframe width={width} height=900 style="border:0" src="file://{html / name}.html"></iframe>'
    (tmp_path / "probe.html").write_text(f"<!doctype html><title></title>{frame}{probe}", encoding="utf-8")
    options = ("--allow-file-access-from-files", "--virtual-time-budget=6000", "--window-size=1300,1000")
    document = shown(tmp_path / "probe.html", tmp_path / "user", *options)
    needed, headings, clipped = map(int, re.search(r"<title>(\d+) (\d+) (\d+)</title>", document).groups())
    assert needed <= width
    assert headings == 1
    assert clipped == 0  # nothing goes beyond the edge, but for what scrolls by itself
