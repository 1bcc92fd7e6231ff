"""Pictures and lines of topics: what bars, pixels and lines hold, what titles say, and what a run prints and writes."""

import re
from functools import cache
from io import StringIO

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

from inference import fit, plot_topic_map, plot_topics, top_words
from inference.cli.main import run_main
from inference.identification.relabel import OVERLAP
from inference.plots.topics import MOST_TOPICS, grid_of
from inference.report.page import write_report
from inference.report.reading import read
from inference.report.terminal import print_result
from inference.results.tree import values
from inference.topics.access import topics_of
from inference.topics.relevance import jensen_shannon
from inference.topics.stability import agreement_of_chains
from inference.topics.summary import sites_of_topics, topic_lines, topic_table
from models import MODELS, ZooError, load_data
from models.data.documents import documents
from models.datasets.corpora import bars

TEXTS = ["red green blue red", "one two three two", "blue blue green", "three one one $x", "red two"] * 3
DATA = documents([text.split() for text in TEXTS])


@cache
def model():
    return MODELS["latent_dirichlet"](DATA, num_topics=3)


@cache
def drawn():
    return fit(model(), DATA, "gibbs", num_warmup=20, num_samples=10, num_chains=2, progress=False)


@cache
def point():
    return fit(model(), DATA, "em", num_starts=2, max_iter=50, tol=0, progress=False)


def shares(tree):
    group = "posterior" if "posterior" in tree else "point_estimate"
    found = values(tree, group, "topic_probs")
    return found.reshape(-1, found.shape[-1]).mean(0)


def panels(figure):
    return [axis for axis in figure.axes if axis.axison]


@pytest.mark.slow
@pytest.mark.parametrize("make", [drawn, point])
def test_bars_are_the_top_words_sorted_by_share(make, tmp_path):
    """With an interval a word where there are draws, and none at a point; all on one scale."""
    tree = make()
    axes = panels(plot_topics(model(), tree, tmp_path / "topics.png", num_words=4))
    order = np.argsort(-shares(tree), kind="stable")
    found, names = top_words(model(), tree, 4), topics_of(model(), tree).names
    assert [axis.get_title() for axis in axes] == [f"topic {names[k]} ({shares(tree)[k]:.0%})" for k in order]
    for axis, k in zip(axes, order, strict=True):
        own = found[found["topic"] == names[k]]
        np.testing.assert_allclose([bar.get_width() for bar in axis.patches], own["probability"])
        assert [label.get_text().replace("\\", "") for label in axis.get_yticklabels()] == list(own["word"])
        assert len(axis.collections) == (1 if make is drawn else 0)
    assert len({axis.get_xlim() for axis in axes}) == 1
    if make is drawn:
        probs = topics_of(model(), tree).word_probs[:, order[0]]
        places = np.argsort(-probs.mean(0), kind="stable")[:4]
        ends = np.array([line[:, 0] for line in axes[0].collections[0].get_segments()])
        np.testing.assert_allclose(ends, np.quantile(probs[:, places], [0.055, 0.945], axis=0).T)
    assert imread(tmp_path / "topics.png").std() > 0


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (["1,1", "1,2", "2,1", "2,2"], (2, 2)),
        (["0,0", "1,0", "0,1", "1,1"], (2, 2)),
        (["p9x3", "p9x4", "p10x3", "p10x4", "p11x3", "p11x4"], (3, 2)),
        (["p9x3", "p9x4", "p11x3", "p11x4"], None),
        (["1,1", "1,2", "2,1", "2:2"], None),
        ([], None),
        (["1,1", "1,2", "2,1", "3,1"], None),
        (["1,1", "1,2", "1,3", "1,4"], None),
        (["1,1", "1,2", "2,1", "x"], None),
        (["1,1", "1,2", "2,1"], None),
        (["1,1"], None),
    ],
)
def test_pixels_are_told_by_their_names(words, shape):
    """Two numbers in one text that fill a rectangle; not where a row is left out, the texts differ, or there is one row."""
    found = grid_of(words)
    assert (None if found is None else found[:2]) == shape
    if found is not None:
        np.testing.assert_array_equal(np.array(words)[np.argsort(found.place)], sorted(words, key=lambda w: (len(w), w)))


def test_pictures_of_pixels():
    """In any order of the columns a pixel is where its name says."""
    data = bars(30, 20)
    order = np.random.default_rng(0).permutation(25)
    shuffled = data._replace(x=data.x[:, order], columns=tuple(data.columns[v] for v in order))
    built = MODELS["latent_dirichlet"](shuffled, num_topics=2)
    probs = np.random.default_rng(1).dirichlet(np.ones(25), 2)
    sites = {"word_probs": probs, "topic_probs": np.tile([0.3, 0.7], (30, 1))}
    axes = panels(plot_topics(built, sites))
    for axis, k in zip(axes, (1, 0), strict=True):
        picture = np.asarray(axis.images[0].get_array())
        for v, name in enumerate(shuffled.columns):
            row, column = map(int, name.split(","))
            assert picture[row - 1, column - 1] == probs[k, v]


@pytest.mark.slow
def test_many_topics_and_doubts_are_said():
    """Of many topics the largest; labels that are mixed up, and chains that disagree, are in the title."""
    built = MODELS["latent_dirichlet"](DATA, num_topics=MOST_TOPICS + 2)
    rng = np.random.default_rng(0)
    sizes = {"word_probs": (len(DATA.columns), MOST_TOPICS + 2), "topic_probs": (MOST_TOPICS + 2, DATA.num_rows)}
    sites = {name: rng.dirichlet(np.ones(last), first) for name, (last, first) in sizes.items()}
    figure = plot_topics(built, sites)
    assert len(panels(figure)) == MOST_TOPICS
    assert f"the {MOST_TOPICS} largest of {MOST_TOPICS + 2}" in figure.get_suptitle()
    tree = drawn().copy(deep=True)
    tree.attrs["warnings"] = f"topics {OVERLAP} 50% of the draws"
    assert "labels are not to be trusted" in plot_topics(model(), tree).get_suptitle()
    agreed = agreement_of_chains(drawn())["stable"].all()
    assert ("chains disagree" in plot_topics(model(), drawn()).get_suptitle()) == (not agreed)
    gmm = MODELS["gmm"](load_data("iris"), num_components=2)
    with pytest.raises(ZooError, match="has no topics"):
        plot_topics(gmm, {})


@pytest.mark.slow
def test_the_map_has_a_disc_a_topic(tmp_path):
    """Areas are shares; the title says what the plane keeps; three topics lie in one."""
    figure = plot_topic_map(model(), drawn(), tmp_path / "map.png")
    discs = figure.axes[0].collections[0]
    sizes = np.sort(discs.get_sizes())[::-1]
    np.testing.assert_allclose(sizes / sizes.sum(), np.sort(shares(drawn()))[::-1])
    points = np.asarray(discs.get_offsets())
    order = np.argsort(-shares(drawn()), kind="stable")
    wanted = jensen_shannon(topics_of(model(), drawn()).word_probs.mean(0)[order])
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points[None], axis=-1), wanted, atol=1e-7)
    assert "keeps 100%" in figure.get_suptitle()
    two = MODELS["latent_dirichlet"](DATA, num_topics=2)
    with pytest.raises(ZooError, match="three topics or more"):
        plot_topic_map(two, {"word_probs": np.full((2, len(DATA.columns)), 1 / len(DATA.columns))})


# ---------------------------------------------------------------------------------------------------------------------
# In print


@pytest.mark.slow
@pytest.mark.parametrize("make", [drawn, point])
def test_lines_are_short_and_hold_the_largest_words(make):
    """80 columns, the largest topic first, its words in the order of their probability."""
    tree = make()
    lines = topic_lines(tree)
    order = np.argsort(-shares(tree), kind="stable")
    found, names = top_words(model(), tree, 3), topics_of(model(), tree).names
    for line, k in zip(lines, order, strict=True):
        assert len(line) <= 80
        own = found[found["topic"] == names[k]]
        assert line.split()[:2] == [str(names[k]), f"{shares(tree)[k]:.0%}"]
        wanted = ", ".join(f"{w} {p:.3f}".replace(" 0.", " .") for w, p in zip(own["word"], own["probability"], strict=True))
        assert wanted in line
    assert all(len(line) <= 40 for line in topic_lines(tree, 40))
    assert list(topic_table(tree).index) == [str(names[k]) for k in order]


@pytest.mark.slow
@pytest.mark.parametrize("make", [drawn, point])
def test_a_report_has_topics_and_no_wall_of_numbers(make, tmp_path):
    tree = make().copy(deep=True)
    tree.attrs["warnings"] = ""  # so few words leave labels in doubt
    console = Console(width=80, record=True, file=StringIO())
    print_result(tree, read(tree), console)
    said = console.export_text()
    assert all(line in said for line in topic_lines(tree))
    assert not any(line.startswith("word_probs[") for line in said.splitlines())
    if make is drawn:
        assert "topics are found by each of 2 chains" in " ".join(said.split())
    write_report(tree, read(tree), tmp_path / "report.html", "")
    page = (tmp_path / "report.html").read_text()
    assert "Topics, largest first" in page
    assert not re.search(r"<t[hd][^>]*>word_probs\[", page)


@pytest.mark.slow
def test_topics_that_are_mixed_up_are_printed_with_a_warning():
    tree = drawn().copy(deep=True)
    tree.attrs["warnings"] = f"topics {OVERLAP} 50% of the draws"
    console = Console(width=80, record=True, file=StringIO())
    print_result(tree, read(tree), console)
    said = console.export_text()
    assert topic_lines(tree)[0] in said
    assert "are means over draws that may mix different ones" in " ".join(said.split())


@pytest.mark.slow
def test_results_without_topics_have_none():
    data = load_data("iris")
    tree = fit(MODELS["gmm"](data, num_components=2), data, "em", num_starts=1, max_iter=5, progress=False)
    assert topic_lines(tree) == []
    assert topic_table(tree).empty
    assert sites_of_topics(tree) == []
    assert agreement_of_chains(tree) is None


@pytest.mark.slow
def test_a_run_leaves_its_picture(tmp_path):
    arguments = ["model=latent_dirichlet", "method=gibbs", "data=bars", "data.num_rows=20", "data.length=10", "progress=false"]
    small = ["num_warmup=5", "num_samples=8", "num_chains=2", f"out={tmp_path / 'run'}"]
    assert run_main([*arguments, *small]) in (0, 3)
    assert "<svg" in (tmp_path / "run" / "topics.svg").read_text()
    page = (tmp_path / "run" / "report.html").read_text()
    for picture in ("topics", "word checks"):
        assert f"alt='{picture} of latent_dirichlet on bars by gibbs'" in page
