"""Links between files of the repository, as links between pages of the site."""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

LINK = re.compile(r"(?P<start>!?\[(?P<text>[^\]\n]*)\]\()(?P<target>(?!\w+:|#)[^()#\s]+)(?P<anchor>#[^()\s]*)?\)")
README_SECTIONS = {"#which-model": "start/which_model.md", "#what-runs-with-what": "methods/index.md"}


def site_links(text: str, source: PurePosixPath, root: Path, places: Mapping[PurePosixPath, PurePosixPath]) -> str:
    """The Markdown ``text`` of the file ``source`` with its links to other files turned into links between pages.

    ``places`` maps files of the repository to pages of the site. A link to a file that is no page keeps its text alone. What is
    no link to a file of the repository, such as an index in code, stays as it is.

    >>> places = {PurePosixPath("docs/a.md"): PurePosixPath("a.md"), PurePosixPath("LICENSE"): PurePosixPath("x/licence.md")}
    >>> site_links("[the licence](../LICENSE), MODELS[name](data)", PurePosixPath("docs/a.md"), Path(), places)
    '[the licence](x/licence.md), MODELS[name](data)'
    """
    here = places[source].parent

    def replaced(found: re.Match[str]) -> str:
        target = PurePosixPath(os.path.normpath(source.parent / found["target"]))
        anchor = found["anchor"] or ""
        if target == PurePosixPath("README.md") and anchor in README_SECTIONS:
            place: PurePosixPath | None = PurePosixPath(README_SECTIONS[anchor])
        else:
            place = places.get(target)
        if place is not None:
            return f"{found['start']}{relative(place, here)}{anchor})"
        return found["text"] if (root / target).exists() else found[0]

    return LINK.sub(replaced, text)


def relative(place: PurePosixPath, folder: PurePosixPath) -> str:
    """The way from a folder of the site to a page."""
    return os.path.relpath(place, folder).replace(os.sep, "/")
