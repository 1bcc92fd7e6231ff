"""Fills in the pages: a line ``<!-- generated: gmm -->`` is replaced by what the code says."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.site.certificates import write_certificates
from docs.site.collect import places_of
from docs.site.contents import contents, with_tree

MARKER = re.compile(r"^<!-- generated: ([\w-]+)(?: (\w+))? -->$", re.MULTILINE)


def generators() -> dict[str, Callable[[str, Path], str]]:
    """Name in a marker -> (argument of the marker, folder of the page) -> Markdown. Loads the zoo."""
    from docs.site import method_facts, model_facts, reference, verdicts

    return {
        "model": model_facts.model_facts,
        "models": lambda _argument, _folder: model_facts.model_index(),
        "method": lambda name, _folder: method_facts.method_facts(name),
        "methods": lambda _argument, _folder: method_facts.method_index(),
        "support": lambda _argument, _folder: method_facts.support_tables(),
        "verdicts": lambda _argument, _folder: verdicts.verdicts(),
        "commands": lambda _argument, _folder: reference.commands(),
        "options": lambda _argument, _folder: reference.options(),
        "api": lambda _argument, _folder: reference.api(),
        "estimators": lambda _argument, _folder: reference.estimators(),
    }


def generate(root: Path, source: Path) -> None:
    """Write the pages of certificates, replace every marker in the pages of ``source``, and add the trees of contents."""
    places = [place for place in places_of(root).values() if place.suffix in (".md", ".ipynb")]
    places += write_certificates(source)
    pages = [place.with_suffix("").as_posix() for place in places]
    made = generators() | {"contents": lambda _argument, _folder: contents(pages)}
    for place in places:
        if place.suffix == ".md":
            path = source / place
            text = filled(path.read_text(encoding="utf-8"), path.parent, made)
            path.write_text(with_tree(place.with_suffix("").as_posix(), text, pages), encoding="utf-8")


def filled(text: str, folder: Path, made: Mapping[str, Callable[[str, Path], str]]) -> str:
    """The Markdown of a page in ``folder`` with every marker replaced."""

    def replaced(found: re.Match[str]) -> str:
        return made[found[1]](found[2] or "", folder)

    return MARKER.sub(replaced, text)
