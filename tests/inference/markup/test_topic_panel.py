"""The panel of topics: what it embeds, what circles and tables hold, and that no word is markup."""

import doctest
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from inference.markup import topic_panel as module
from inference.markup.topic_panel import HIGH, OF_WORD, SIZE, apart, in_script, placed, topic_panel
from inference.topics import relevance as relevances
from inference.topics.relevance import STEPS, mapped, most_relevant, relevance

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "'\"", "&lt;", "\u2028", "\\u003c", " ", "é\U0001f600"]
NAMES = ["<i>", "a & b", "2", "3"]


def example():
    rng = np.random.default_rng(0)
    words = [*HOSTILE, *(f"w{v}" for v in range(100))]
    probs = rng.dirichlet(np.full(len(words), 0.2), 4)
    counts = rng.poisson(50 * len(words) * probs.mean(0)) + 1.0
    return mapped(NAMES, words, probs, np.array([0.1, 0.4, 0.2, 0.3]), counts)


class Parts(HTMLParser):
    """The elements with their attributes, and the text of each kind of element."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text, self._open = [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in self._open[-1:]:
            self.text.setdefault(tag, []).append(data)


@pytest.mark.parametrize("found", [module, relevances])
def test_examples_run(found):
    done = doctest.testmod(found, extraglobs={"np": np})
    assert done.attempted
    assert not done.failed


def test_a_script_may_hold_any_text():
    text = in_script(HOSTILE)
    assert json.loads(text) == HOSTILE
    assert not set("<>&\u2028") & set(text)


def test_words_are_words():
    """The page has two scripts, the data and ours, whatever the words are; each word is there as text."""
    found = example()
    panel = topic_panel(found)
    scripts = Parts(panel.script)
    assert [tag for tag, _ in scripts.found] == ["script", "script"]
    assert json.loads(scripts.text["script"][0])["words"] == [f"“{w}”" if not w.strip() else w for w in found.words]
    body = Parts(panel.body)
    assert not {"script", "i"} & {tag for tag, _ in body.found}
    assert set(NAMES) <= set(body.text["text"])


def test_the_embedded_words_hold_every_list():
    """What the script computes from its numbers is the list of most relevant words at every step of λ."""
    found = example()
    data = json.loads(Parts(topic_panel(found).script).text["script"][0])
    for k, topic in enumerate(data["topics"]):
        place = {word: place for place, word in enumerate(topic["words"])}
        for weight in np.arange(STEPS + 1) / STEPS:
            every = relevance(found.probs, found.counts / found.tokens, float(weight))[k]
            assert set(most_relevant(every)) <= set(place)
            p, n = np.array(topic["probs"]), np.array([data["count"][word] for word in topic["words"]])
            own = np.log(p) - (1 - weight) * np.log(n / data["tokens"])
            np.testing.assert_allclose(own, every[topic["words"]], atol=1e-6)
        np.testing.assert_allclose(topic["own"], found.given[k, topic["words"]], atol=1e-4)
    for word, pairs in enumerate(data["given"]):
        given = dict(zip(pairs[::2], pairs[1::2], strict=True))
        np.testing.assert_allclose([given.get(k, 0.0) for k in range(4)], found.given[:, word], atol=6e-3)


def test_areas_are_shares_and_tables_hold_the_most_relevant():
    found = example()
    body = topic_panel(found).body
    radii = [float(r) for r in re.findall(r"<circle cx='[\d.]+' cy='[\d.]+' r='([\d.]+)'", body)]
    np.testing.assert_allclose(np.array(radii) ** 2 / radii[0] ** 2, found.share / found.share[0], atol=0.01)
    tables = re.findall(r"<tbody>(.*?)</tbody>", body)
    for k, text in enumerate(tables):
        words = ["".join(Parts(head).text.get("th", [])) for head in re.findall(r"<th scope='row'>.*?</th>", text)]
        wanted = [found.words[v] for v in found.top(k)]
        assert words == [word if word.strip() else f"“{word}”" for word in wanted]
    assert len(tables) == 4


def test_points_keep_their_proportions_and_labels_their_distance():
    points = np.random.default_rng(1).normal(size=(6, 2))
    found = placed(points, OF_WORD)
    before, after = (np.linalg.norm(each[:, None] - each[None], axis=-1) for each in (points, found))
    np.testing.assert_allclose(after, before * after.max() / before.max(), atol=1e-9)
    assert found.min() >= OF_WORD - 1e-9
    assert found.max() <= SIZE - OF_WORD + 1e-9
    crowded = apart(np.full((5, 2), SIZE / 2), np.full(5, 20.0))
    gaps = np.diff(np.sort(crowded[:, 1]))
    assert gaps.min() > 0.9 * HIGH
    np.testing.assert_array_equal(apart(np.array([[0.0, 50], [90, 50]]), np.full(2, 20.0)), [[0, 50], [90, 50]])
    np.testing.assert_array_equal(placed(np.zeros((1, 2)), 9.0), [[SIZE / 2, SIZE / 2]])
