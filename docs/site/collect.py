"""What the site shows as it stands in the repository: pages, notebooks, pictures, the changelog; and MathJax beside them."""

import json
import shutil
from importlib.metadata import files
from pathlib import Path, PurePosixPath

from docs.site.links import site_links

PAGES = {  # files outside docs/ -> their page
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
}
ASSETS = (".png", ".svg", ".json", ".css", ".gif", ".csv", ".sbatch", ".yaml")
LEFT_OUT = {"_build", "site"}  # folders of docs/ without pages
STATIC = "_static"  # styles
MATHJAX = ("tex-chtml-full.js", "output/chtml/fonts/woff-v2")  # of the package sphinx-mathjax-offline


def places_of(root: Path) -> dict[PurePosixPath, PurePosixPath]:
    """File of the repository -> its place on the site: what is in ``docs/``, the notebooks, and `PAGES`.

    A folder of ``docs/`` is left out until it has an ``index.md``, which leads to its pages.
    """
    found = {PurePosixPath(source): PurePosixPath(place) for source, place in PAGES.items()}
    docs = root / "docs"
    for path in sorted(docs.rglob("*")):
        inside = path.relative_to(docs)
        if path.is_file() and path.suffix in (".md", ".ipynb", *ASSETS) and _is_shown(docs, inside):
            found[PurePosixPath(path.relative_to(root).as_posix())] = PurePosixPath(inside.as_posix())
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        found[PurePosixPath("notebooks", path.name)] = PurePosixPath("tutorials", path.name)
    return found


def _is_shown(docs: Path, inside: Path) -> bool:
    folder = inside.parts[0]
    led_to = len(inside.parts) == 1 or folder == STATIC or (docs / folder / "index.md").is_file()
    return led_to and folder not in LEFT_OUT


def collect(root: Path, source: Path) -> None:
    """Copy every file of `places_of` to the folder ``source``, with its links turned into links between pages."""
    places = places_of(root)
    for path, place in places.items():
        target = source / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(site_links(_text(root / path), path, root, places), encoding="utf-8")
        elif path.suffix == ".ipynb":
            notebook = json.loads(_text(root / path))
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = site_links("".join(cell["source"]), path, root, places)
            target.write_text(json.dumps(notebook), encoding="utf-8")
        else:
            shutil.copy(root / path, target)


def copy_mathjax(target: Path) -> None:
    """Copy MathJax and its fonts from the installed package, so that the site needs no network."""
    installed = files("sphinx-mathjax-offline") or []
    folder = next(Path(str(path.locate())).parent for path in installed if path.name == MATHJAX[0])
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (folder / name).is_dir():
            shutil.copytree(folder / name, target / name, dirs_exist_ok=True)
        else:
            shutil.copy(folder / name, target / name)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
