"""Parts of a page as HTML: sections, tables, cards, folded parts. Every text is escaped here, and nowhere else."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from inference.markup.palette import colour
from inference.runtime.formats.texts import visible


class Card(NamedTuple):
    """One group on the page."""

    name: str
    place: int  # of its colour
    size: str  # in words
    share: float
    facts: Sequence[str]


class Section(NamedTuple):
    """A part of a page with a heading; it is left out where ``body`` is empty."""

    title: str
    body: str


def escaped(text: object) -> str:
    """A text escaped for HTML, also in attributes; without control characters, which HTML lacks."""
    return html.escape(visible(str(text)))


def slug(text: str) -> str:
    """A text as an id.

    >>> slug("Rows by component & label")
    'rows-by-component-label'
    """
    return re.sub(r"\W+", "-", text.lower()).strip("-") or "part"


def page(title: str, head: str, top: str, sections: Sequence[Section], foot: str = "") -> str:
    """A whole page: ``top`` under the title, links to the sections, the sections, ``foot``."""
    filled = [section for section in sections if section.body]
    links = "".join(f"<li><a href='#{slug(section.title)}'>{escaped(section.title)}</a></li>" for section in filled)
    parts = "".join(
        f"<section aria-labelledby='{slug(section.title)}'><h2 id='{slug(section.title)}'>{escaped(section.title)}</h2>"
        f"{section.body}</section>"
        for section in filled
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escaped(title)}</title>{head}</head><body><main><h1>{escaped(title)}</h1>{top}"
        f"<nav aria-label='sections'><ul>{links}</ul></nav>{parts}</main>{foot}</body></html>"
    )


def bullets(lines: Sequence[str], kind: str = "") -> str:
    """A list; "" of no lines."""
    mark = f" class='{kind}'" if kind else ""
    return f"<ul{mark}>{''.join(f'<li>{escaped(line)}</li>' for line in lines)}</ul>" if lines else ""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph."""
    mark = f" class='{kind}'" if kind else ""
    return f"<p{mark}>{escaped(text)}</p>"


def folded(title: str, body: str) -> str:
    """A part that is closed until the reader opens it; "" without a body."""
    return f"<details><summary>{escaped(title)}</summary>{body}</details>" if body else ""


def scrolling(body: str, label: str) -> str:
    """A box that scrolls sideways where it is wider than the screen, by the arrow keys too."""
    return f"<div class='scroll' role='region' tabindex='0' aria-label='{escaped(label)}'>{body}</div>"


def table(frame: pd.DataFrame, label: str, words: Sequence[str] = (), groups: Mapping[str, int] | None = None) -> str:
    """A table of texts with its index as the heading of every row, in a box that scrolls.

    Columns among ``words`` are set to the left. ``groups`` are the rows, by index, that stand for a group, with its place.
    """
    kinds = ["words" if str(name) in words else "" for name in frame.columns]
    mark = {"words": " class='words'", "": ""}
    named = escaped(frame.index.name or "")
    first = f"<th scope='col'>{named}</th>" if named else "<td></td>"
    head = first + "".join(
        f"<th scope='col'{mark[kind]}>{escaped(name)}</th>" for name, kind in zip(frame.columns, kinds, strict=True)
    )
    rows = []
    for name, cells in zip(frame.index, frame.values.tolist(), strict=True):
        group = (groups or {}).get(str(name))
        filled = "".join(f"<td{mark[kind]}>{escaped(cell)}</td>" for cell, kind in zip(cells, kinds, strict=True))
        rows.append(f"<tr{'' if group is None else f' data-group={group}'}><th scope='row'>{escaped(name)}</th>{filled}</tr>")
    return scrolling(
        f"<table><caption>{escaped(label)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>", label
    )


def cards(groups: Sequence[Card]) -> str:
    """A card for each group, with a bar as long as its share."""
    return "".join(["<div class='cards'>", *map(_card, groups), "</div>"]) if groups else ""


def _card(card: Card) -> str:
    facts = bullets(card.facts) or "<p>differs little from all rows</p>"
    return (
        f"<article class='card' data-group='{card.place}' style='--own:{colour(card.place)}'><h3>{escaped(card.name)}</h3>"
        f"<p class='size'>{escaped(card.size)}</p><div class='bar'><span style='width:{100 * card.share:.1f}%'></span></div>"
        f"{facts}</article>"
    )


def definitions(pairs: Mapping[str, str]) -> str:
    """Words with what they mean; "" of none."""
    entries = "".join(f"<dt>{escaped(word)}</dt><dd>{escaped(meaning)}</dd>" for word, meaning in pairs.items())
    return f"<dl>{entries}</dl>" if entries else ""


def preformatted(text: str) -> str:
    """Text that keeps its lines."""
    return f"<pre tabindex='0'>{escaped(text)}</pre>"


def picture(source: str, alt: str, caption: str) -> str:
    """A picture with its caption; on a narrow screen it keeps its size and scrolls inside its box."""
    image = scrolling(f"<img src='{escaped(source)}' alt='{escaped(alt)}'>", alt)
    return f"<figure>{image}<figcaption>{escaped(caption)}</figcaption></figure>"
