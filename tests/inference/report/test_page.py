"""The page of a result: one file, headings in order, every picture described, every text escaped; the same in a browser."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from browser import in_browser, shown

from inference.criticism.replications import Compared
from inference.diagnostics.checks import Diagnosis
from inference.markup.glossary import WORDS, used
from inference.report.page import write_report
from inference.report.reading import ResultView
from inference.report.traits import GroupTraits
from inference.results.table import observed_data
from models.data.documents import documents

PROBS = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
LONG = "a column with a name as long as a sentence, & <marks> 'quoted' as a survey has it (mm)"
PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg' width='700' height='90'><rect width='700' height='90'/></svg>"
COMPARED = [  # a column that the model draws unlike the data, and one that it does not
    Compared(LONG, np.ones(1), np.ones((9, 1)), ("level",), None, 0.005),
    Compared("b", np.ones(1), np.ones((9, 1)), ("level",), None, 0.5),
]


def made(draws: bool):
    """(a result of two groups, what is said of it), by hand: draws of two chains, or the end of two starts."""
    dims = {"component": ["ant", "bee"], "feature": [LONG, "b"]}
    mean = np.array([[1.0, 2.0], [3.0, 4.0]])
    latent = {"responsibilities": (("row", "component"), PROBS), "decode": ("row", PROBS.argmax(1))}
    groups = {
        "latent": xr.Dataset(latent, coords={"component": dims["component"]}),
        "observed_data": xr.Dataset({"x": (("row",), np.zeros(3))}),
    }
    if draws:
        values = {"mean": (("chain", "draw", "component", "feature"), np.broadcast_to(mean, (2, 5, 2, 2)))}
        groups["posterior"] = xr.Dataset(values, coords=dims)
        groups["functionals"] = xr.Dataset({"log_joint": (("chain", "draw"), np.arange(10.0).reshape(2, 5))})
    else:
        groups["point_estimate"] = xr.Dataset({"mean": (("component", "feature"), mean)}, coords=dims)
        ends = {name: ("start", [1.0, 2.0]) for name in ("final_objective", "iterations", "converged")}
        groups["optimization"] = xr.Dataset(ends)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"row": "row", "whatever": "the labels", "warnings": "", "local_blocks": "", "labels_observed": 0}
    labels = [f"mean[{k}, {d}]" for k in dims["component"] for d in dims["feature"]]
    parameters = pd.DataFrame({"value": mean.ravel()}, index=labels)
    functionals = pd.DataFrame({"value": [-3.25]}, index=["log_joint"])
    problems = [] if draws else ["2 of 2 starts failed: <b>R-hat</b>"]
    said = [GroupTraits("bee", 0.6, [f"{LONG} 3.0 (all 2.0)"]), GroupTraits("ant", 0.4, [])]
    diagnosis = Diagnosis(functionals, problems, 0, [])
    title = f"gmm on {LONG} by gibbs"
    return tree, ResultView(title, "a verdict & more", diagnosis, said, None, parameters, parameters, ["a remark <i>"])


def test_a_look_for_modes_is_told_under_details(tmp_path):
    """Where it found nothing there is no remark."""
    tree, reading = made(True)
    write_report(tree, reading, tmp_path / "before.html", "")
    tree.attrs["modes_looked"] = "looked for <modes>"
    write_report(tree, reading, tmp_path / "after.html", "")
    before, after = ((tmp_path / f"{name}.html").read_text() for name in ("before", "after"))
    assert "looked for" not in before
    assert "<li>looked for &lt;modes&gt;</li>" in after.partition("Details</h2>")[2]


HOSTILE = ["</script><b>", "<!--", "'\"&amp;", "\u2028", " ", "wor" * 30]


def made_of_topics():
    """(a result of three topics, what is said of it), by hand; among the words are some that look like markup."""
    rng = np.random.default_rng(0)
    words = [*HOSTILE, *(f"w{v}" for v in range(60))]
    data = documents([[words[v] for v in [*range(len(words)), *rng.integers(0, len(words), 200)]] for _ in range(4)])
    sites = {
        "word_probs": (("topic", "word"), rng.dirichlet(np.full(len(words), 0.3), 3)),
        "topic_probs": (("document", "topic"), rng.dirichlet(np.ones(3), 4)),
    }
    tree, reading = made(False)
    coords = {"topic": ["<b>", "sea & sun", "2"], "word": list(data.columns)}
    groups = {"point_estimate": xr.Dataset(sites, coords=coords), "observed_data": observed_data(data)}
    found = xr.DataTree.from_dict(groups | {"optimization": tree["optimization"].to_dataset()})
    found.attrs = tree.attrs | {"row": "document"}
    empty = reading.shown.iloc[:0]
    return found, reading._replace(groups=[], parameters=empty, shown=empty)


def written(tmp_path, draws):
    tree, reading = made_of_topics() if draws == "topics" else made(draws)
    pictures = [tmp_path / "profile.svg", tmp_path / "checks.svg"]
    for picture in pictures:
        picture.write_bytes(PICTURE)
    write_report(tree, reading, tmp_path / "report.html", "model: {name: '<gmm>'}", pictures, COMPARED)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the page; raises where elements are not closed in order."""

    VOID = ("meta", "img", "br", "input")

    def __init__(self, text):
        super().__init__()
        self.found, self.text, self._open = [], [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self._open):
            self.text.append(data)


@pytest.mark.parametrize("draws", [True, False, "topics"])
def test_the_page_is_sound(tmp_path, draws):
    page = Elements(written(tmp_path, draws))
    tags = [tag for tag, _ in page.found]
    images = [attrs for tag, attrs in page.found if tag == "img"]
    assert len(images) == (3 if draws is True else 2)  # the traces of the chains are drawn by the page
    assert all(len(attrs["alt"]) > 10 and attrs["src"].startswith("data:image/svg+xml;base64,") for attrs in images)
    for _, attrs in page.found:  # nothing from elsewhere
        assert attrs.get("href", "#").startswith("#")
        assert attrs.get("src", "data:").startswith("data:")
    ids = [attrs["id"] for _, attrs in page.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    wanted = [attrs["href"][1:] for tag, attrs in page.found if tag == "a"]
    wanted += [attrs["aria-labelledby"] for _, attrs in page.found if "aria-labelledby" in attrs]
    assert wanted
    assert set(wanted) <= set(ids)
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert {"i", "b", "marks", "gmm"}.isdisjoint(tags)  # texts are escaped


@pytest.mark.parametrize("draws", [True, False])
def test_the_page_says_what_was_found(tmp_path, draws):
    """In the order of the reader's questions: verdict, groups, parameters, functionals, settings."""
    text = " ".join(Elements(written(tmp_path, draws)).text)
    unlike = f"The model draws data unlike those observed in {LONG}: 1 of 2"
    wanted = ["a verdict & more", "component bee", "component ant", unlike, f"mean[ant, {LONG}]", "log_joint"]
    wanted.append("model: {name: '<gmm>'}")
    places = [text.find(words) for words in wanted]
    assert -1 not in places
    assert places == sorted(places)
    assert ("R-hat" in text) == (not draws)  # in a problem of the starts
    assert "Compares the variation between chains" in text if not draws else "Compares" not in text


def test_parameters_of_a_group_have_the_number_of_their_card(tmp_path):
    found = Elements(written(tmp_path, True)).found
    cards = [attrs["data-group"] for tag, attrs in found if tag == "article"]
    rows = [attrs["data-group"] for tag, attrs in found if tag == "tr" and "data-group" in attrs]
    assert cards == ["1", "0"]  # the largest first, under its own number
    assert rows == ["0", "0", "1", "1"]


def test_the_glossary_has_the_words_of_the_page():
    assert used(" ".join(WORDS)) == WORDS
    assert list(used("components of a topic_model")) == ["component"]
    assert used("estate, essential") == {}


@pytest.mark.slow
@in_browser
@pytest.mark.parametrize("draws", [True, False, "topics"])
def test_a_narrow_browser_shows_it_whole(tmp_path, draws):
    """400 pixels wide: nothing sticks out, no picture is missing, scripts run, and the console stays empty."""
    page = written(tmp_path, draws)
    srcdoc = page.replace("&", "&amp;").replace('"', "&quot;")
    probe = """<script>document.querySelector('iframe').onload = event => {
      const inside = event.target.contentDocument, found = {};
      found.width = inside.documentElement.scrollWidth;
      found.missing = [...inside.images].filter(image => !image.naturalWidth).length;
      found.buttons = inside.querySelectorAll('button').length;
      const of = name => [...inside.querySelectorAll(name)], words = () => of('.tm-bars b').map(word => word.title).join();
      const areas = () => of('.tm-topic circle').map(circle => circle.getAttribute('r')).join(), slider = of('#tm-weight')[0];
      if (slider) {
        found.listed = of('.tm-bars li').length;
        const seen = [words()], sizes = [areas()];
        slider.value = 0;
        slider.dispatchEvent(new Event('input'));
        seen.push(words());
        of('.tm-topic')[2].focus();
        seen.push(words());
        of('.tm-topic')[2].dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
        of('.tm-bars li')[0].focus();
        sizes.push(areas());
        found.kept = words() === seen[2];
        of('.tm-bars li')[0].blur();
        found.back = areas() === sizes[0];
        found.changes = new Set(seen).size + new Set(sizes).size;
      }
      document.title = Object.entries(found).map(pair => pair.join('=')).join(' ');
    }</script>"""
    frame = f'<!doctype html><title></title><iframe width=400 height=900 style="border:0" srcdoc="{srcdoc}"></iframe>{probe}'
    (tmp_path / "probe.html").write_text(frame, encoding="utf-8")
    document = shown(tmp_path / "probe.html", tmp_path / "user", "--virtual-time-budget=3000")
    found = dict(pair.split("=") for pair in re.search(r"<title>(.*?)</title>", document)[1].split())
    assert int(found["width"]) <= 400
    assert int(found["missing"]) == 0
    assert int(found["buttons"]) >= 2  # one on every card, and in the headings of tables
    if draws == "topics":  # λ and the topic change the words, and a word the areas of the circles
        assert (found["listed"], found["changes"], found["kept"], found["back"]) == ("30", "5", "true", "true")
