"""The tree of contents: which pages stand in the bar at the top, and what follows them where a page does not say so itself."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from typing import NamedTuple


class Section(NamedTuple):
    """A part of the site: its name in the bar, and what its card on the first page says."""

    name: str
    about: str


SECTIONS = {  # page -> section; those that do not exist are left out
    "start/index": Section("Start", "Install it, take a tour in five minutes, choose a model and a method."),
    "tutorials/index": Section("Tutorials", "Notebooks that take one model from a question to an answer."),
    "course/index": Section("Course", "The theory in eight chapters, with exercises and their answers."),
    "labs": Section("Labs", "Programs to write yourself, which are graded at once."),
    "how_to/index": Section("How to", "Your own table, program, prior or sampler; missing cells, sequences, topics."),
    "models/index": Section("Models", "The program of each model, its diagram, sites, options and prior."),
    "methods/index": Section("Methods", "What each method approximates, when it misleads, what it costs."),
    "reference/index": Section("Reference", "How to read a result, every warning, the commands, and all functions."),
    "project/index": Section("Quality", "Certificates, errata, benchmarks, and what has changed."),
}
BELOW = {  # page -> pattern of the pages below it, unless it has a tree of its own
    "course/index": "course/*",
    "labs": "labs_*",
    "tutorials/index": "tutorials/*",
    "certificates": "certificates/index",
    "certificates/index": "certificates/*",
}


def contents(pages: Collection[str]) -> str:
    """The cards of the first page, and its tree."""
    here = {page: section for page, section in SECTIONS.items() if page in pages}
    cards = [
        f":::{{grid-item-card}} {section.name}\n:link: {page}\n:link-type: doc\n{section.about}\n:::"
        for page, section in here.items()
    ]
    grid = "\n".join(["::::{grid} 1 2 2 3", ":gutter: 3", "", *cards, "::::"])
    return f"{grid}\n\n{tree([f'{section.name} <{page}>' for page, section in here.items()])}"


def tree(entries: Collection[str]) -> str:
    """A tree that the page does not show; the bars at the top and at the side do."""
    return "\n".join(["```{toctree}", ":hidden:", "", *entries, "```"])


def with_tree(page: str, text: str, pages: Collection[str], below: Mapping[str, str] = BELOW) -> str:
    """The text of a page followed by the tree of the pages below it, if there are any.

    >>> with_tree("labs", "# Labs", ["labs", "labs_instructor", "index"]).splitlines()
    ['# Labs', '', '```{toctree}', ':hidden:', '', '/labs_instructor', '```']
    """
    if page not in below or "{toctree}" in text:
        return text
    found = sorted(other for other in pages if other != page and fnmatch(other, below[page]))
    return f"{text.rstrip()}\n\n{tree([f'/{other}' for other in found])}\n" if found else text
