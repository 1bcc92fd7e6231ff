"""A map of topics and the words of one of them, after LDAvis (Sievert and Shirley 2014), as a part of a page.

Without scripts it is a map and a table for each topic. With the script of `inference.markup.topic_script` the reader chooses
topics, words and the weight λ of the relevance.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from inference.markup.tags import escaped, paragraph, table
from inference.markup.topic_script import TOPIC_SCRIPT, TOPIC_STYLE
from inference.topics.relevance import LISTED, STEPS, USUAL, TopicMap, relevance

SIZE = 400  # units of the map; all other lengths are in these units
WHOLE = 80.0  # radius of a circle that stands for the whole corpus
OF_WORD = 50.0  # radius of a circle where its topic is certain, given a word
HIGH, WIDE = 15.0, 7.5  # of a line of a label, and of one of its letters
MOST_LETTERS = 14  # of a label
SMALLEST = 0.005  # probability of a topic given a word that a circle shows


class Panel(NamedTuple):
    """Parts of a page; all "" where there is nothing to show."""

    body: str = ""
    style: str = ""  # for the head
    script: str = ""  # for the end: data and script with their tags


def topic_panel(topics: TopicMap | None) -> Panel:
    """The panel of a map of topics.

    >>> topic_panel(None).body
    ''
    """
    if topics is None:
        return Panel()
    data = f"<script type='application/json' id='tm-data'>{in_script(_data(topics))}</script>"
    body = f"<div class='tm'>{_map(topics)}{_words()}</div>{_tables(topics)}"
    return Panel(body, TOPIC_STYLE, f"{data}<script>{TOPIC_SCRIPT}</script>")


def in_script(value: Any) -> str:
    r"""A value as JSON that may stand between the tags of a script: no text in it can end the script.

    >>> in_script(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def radius(share: float, whole: float = WHOLE) -> float:
    """The radius of a circle whose area is ``share`` of that with radius ``whole``.

    >>> radius(0.25, 40.0)
    20.0
    """
    return whole * float(np.sqrt(max(share, 0.0)))


def placed(points: np.ndarray, edge: float) -> np.ndarray:
    """Points (K, 2) moved and scaled, alike along both axes, to a square of `SIZE` units with an empty ``edge``.

    >>> placed(np.array([[-1.0, 0.0], [1.0, 0.0]]), 50.0).tolist()
    [[50.0, 200.0], [350.0, 200.0]]
    """
    middle, wide = (points.max(0) + points.min(0)) / 2, float(np.ptp(points, axis=0).max())
    moved = (points - middle) * ((SIZE - 2 * edge) / wide if wide > 0 else 0.0)
    return SIZE / 2 + moved * [1.0, -1.0]  # y goes down on a screen


def apart(points: np.ndarray, wide: np.ndarray, rounds: int = 200) -> np.ndarray:
    """Places (K, 2) of labels of the widths (K,) near points (K, 2): moved up and down until none covers another, or nearly."""
    moved = points.astype(float).copy()
    for _ in range(rounds):
        overlap = np.abs(moved[:, None, 0] - moved[None, :, 0]) < (wide[:, None] + wide) / 2
        gap = moved[:, None, 1] - moved[None, :, 1]
        above = np.where(gap != 0, np.sign(gap), np.sign(np.arange(len(moved))[:, None] - np.arange(len(moved))))
        push = np.where(overlap, np.maximum(HIGH - np.abs(gap), 0.0) * above, 0.0)
        np.fill_diagonal(push, 0.0)
        if not push.any():
            break
        moved[:, 1] = np.clip(moved[:, 1] + push.sum(1) / 3, HIGH, SIZE - HIGH)
    return moved


def short(name: str) -> str:
    """A name that a label has room for."""
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…"


def seen(word: str) -> str:
    """A word as a reader sees it: a blank, which is a word where letters are, stands between quotation marks.

    >>> seen("sun"), seen(" ")
    ('sun', '“ ”')
    """
    return word if word.strip() else f"“{word}”"


def _map(topics: TopicMap) -> str:
    largest = radius(float(topics.share.max()))
    points = placed(topics.points, max(largest, OF_WORD) + 4)
    labels = [short(name) for name in topics.names]
    texts = apart(points, np.array([WIDE * len(label) + 4 for label in labels]))
    parts = []
    for k, (x, y) in enumerate(points):
        words = ", ".join(seen(topics.words[v]) for v in topics.top(k)[:5])
        description = f"topic {topics.names[k]}, {topics.share[k]:.1%} of the corpus: {words}"
        parts.append(
            f"<g class='tm-topic' data-topic='{k}' aria-label='{escaped(description)}'><title>{escaped(description)}</title>"
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius(float(topics.share[k])):.1f}'/></g>"
        )
    parts.append("<circle class='tm-ring' r='0'/>")  # around the chosen topic, which others may cover
    parts += [f"<text x='{x:.1f}' y='{y:.1f}'>{escaped(label)}</text>" for label, (x, y) in zip(labels, texts, strict=True)]
    few = f"The {len(topics.names)} largest of {topics.topics} topics. " if len(topics.names) < topics.topics else ""
    caption = (
        f"{few}A circle is a topic, its area the topic's share of the corpus. Topics with like words are close "
        f"(Jensen-Shannon distances, classical scaling; the plane keeps {topics.explained:.0%} of their squares)."
    )
    alt = f"Map of {len(topics.names)} topics by the likeness of their words"
    half = SIZE / 2
    return (
        f"<figure class='tm-map'><svg viewBox='0 0 {SIZE} {SIZE}' role='img' aria-label='{alt}'>"
        f"<path class='tm-axes' d='M0 {half}H{SIZE}M{half} 0V{SIZE}'/>{''.join(parts)}</svg>"
        f"<figcaption>{escaped(caption)} <span class='tm-now' aria-live='polite'></span></figcaption></figure>"
    )


def _words() -> str:
    """The half that the script fills; hidden without it."""
    return (
        "<div class='tm-words' hidden><p class='tm-title' aria-live='polite'></p>"
        f"<label for='tm-weight'>Relevance: λ = <output for='tm-weight'>{USUAL:.2f}</output></label>"
        f"<input id='tm-weight' type='range' min='0' max='1' step='{1 / STEPS}' value='{USUAL}' data-most='{LISTED}'>"
        "<p class='tm-ends'><span>0: words of this topic alone</span><span>1: its most frequent words</span></p>"
        "<p class='tm-legend'><span class='tm-own'></span> in this topic <span class='tm-all'></span> in the whole corpus</p>"
        "<ol class='tm-bars' aria-label='most relevant words'></ol>"
        "<p class='tm-hint'>Point at a circle, or go from one to the next with the arrow keys; a click or the enter key keeps "
        "it. Point at a word, and the areas of the circles show to which topics it belongs.</p></div>"
    )


def _tables(topics: TopicMap) -> str:
    parts = []
    for k, name in enumerate(topics.names):
        top = topics.top(k)
        values = relevance(topics.probs[k : k + 1, top], topics.counts[top] / topics.tokens)[0]
        frame = pd.DataFrame(
            {
                "in topic": [f"{number:.1f}" for number in topics.counts[top] * topics.given[k, top]],
                "in corpus": [f"{number:.12g}" for number in topics.counts[top]],
                "relevance": [f"{value:.2f}".replace("-", "−") for value in values],
            },
            index=pd.Index([seen(topics.words[v]) for v in top], name="word"),
        )
        heading = f"topic {name} ({topics.share[k]:.1%})"
        parts.append(f"<div><h3>{escaped(heading)}</h3>{table(frame, f'most relevant words of topic {name}')}</div>")
    introduction = (
        f"The most relevant words of each topic at λ = {USUAL}: λ log p(word | topic) + (1 − λ) log p(word | topic) / p(word), "
        "after Sievert and Shirley (2014). How often they are in the corpus, and how often, as expected, from the topic."
    )
    return (
        f"<details class='tm-tables' open><summary>Most relevant words, as tables</summary>{paragraph(introduction)}"
        f"<div class='tm-grid'>{''.join(parts)}</div></details>"
    )


def _data(topics: TopicMap) -> dict[str, Any]:
    """The data of the script. Numbers have as many digits as keep the order of the words."""
    count = np.where(topics.counts % 1 == 0, topics.counts, np.round(topics.counts, 3))
    return {
        "tokens": _short(topics.tokens),
        "whole": OF_WORD,
        "words": [seen(word) for word in topics.words],
        "count": [_short(number) for number in count],
        "given": [_given(column) for column in topics.given.T],
        "topics": [
            {
                "name": name,
                "share": round(float(topics.share[k]), 4),
                "words": topics.ever[k].tolist(),
                "probs": [_short(number) for number in topics.probs[k, topics.ever[k]]],
                "own": [_short(number) for number in topics.given[k, topics.ever[k]]],
            }
            for k, name in enumerate(topics.names)
        ],
    }


def _short(number: float) -> float:
    return int(number) if number == int(number) else float(f"{number:.9g}")


def _given(column: np.ndarray) -> list[float]:
    """Topic, probability, topic, … for the topics that are not improbable given a word."""
    return [value for k in np.flatnonzero(column >= SMALLEST) for value in (int(k), round(float(column[k]), 3))]
