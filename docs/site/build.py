"""The build: all sources in one folder, then Sphinx with warnings as errors."""

import shutil
from pathlib import Path

from docs.site.collect import collect, copy_mathjax
from docs.site.generate import generate

OPTIONS = ("execute", "out")


def build(root: Path, out: Path, *, execute: bool = False) -> int:
    """Build the site of the repository at ``root``: sources in ``out``/source, pages in ``out``/html. Returns Sphinx's code."""
    source, html = out / "source", out / "html"
    for folder in (source, html):  # a page that is gone must not stay
        shutil.rmtree(folder, ignore_errors=True)
    collect(root, source)
    copy_mathjax(source / "_static" / "mathjax")
    generate(root, source)
    from sphinx.cmd.build import build_main

    settings = {"html_static_path": source / "_static", "nb_execution_mode": "force" if execute else "off"}
    given = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    return int(build_main(["-q", "-W", "--keep-going", "-b", "html", *given, "-c", str(root / "docs"), str(source), str(html)]))
