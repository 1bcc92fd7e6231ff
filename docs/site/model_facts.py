"""What a model's page takes from the code: program, plate diagram, sites, options, prior, symmetry, methods."""

import inspect
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from docs.site.support import row_of, with_link
from docs.site.tables import options_table, plain, table
from inference import METHODS, fit, show
from inference.plots.plate_diagram import Diagram, Node
from inference.report.page import CAPTIONS
from inference.report.views import drawings
from inference.runtime.entries import choices, default_data_of
from models import MODELS, Model, load_data
from models.data.table import Data
from models.symmetries import Permutation, Reflection, Rotation

SYMMETRIES = {
    Permutation: "The likelihood does not change when the labels of `{dim}` are exchanged. Draws are relabelled, and summaries "
    "that do not depend on labels are in the group `functionals`.",
    Rotation: "The likelihood does not change when the loadings are rotated along `{dim}`. Draws are rotated onto one another.",
    Reflection: "The likelihood does not change when the columns of the loadings along `{dim}` are exchanged or change their "
    "sign. Draws are matched.",
}
DOCUMENT, ERRATA = re.compile(r"\bdocuments? (\d{3})\b", re.IGNORECASE), "../errata.md"  # what the zoo is made after
SHOWN = 2  # pictures of a model, the first that a run draws
NO_SYMMETRY = "None: every parameter means the same in every draw."


def model_facts(name: str, folder: Path) -> str:
    """The sections of a model's page that come from the code; the plate diagram is written to ``folder``."""
    source = default_data_of(name)
    data = load_data(source)
    model = MODELS[name](data)
    diagram = show(model, data)
    (folder / f"{name}.svg").write_text(diagram._repr_svg_(), encoding="utf-8")
    example = f"of the example `{source}`"
    parts = [
        f"## The program\n\n{as_markdown(model.description or '')}",
        f"## Plate diagram\n\nA circle is a random variable, and a shaded one is observed. What a frame holds repeats.\n\n"
        f"![Plate diagram of {name}: {described(diagram)}]({name}.svg)",
        f"## Sites\n\nDimensions with the sizes {example}.\n\n{sites_table(model, diagram)}",
        f"## Options\n\n{options_of(name)}\n\nOn the command line:\n\n{options_table('model', name)}",
        f"## Default prior\n\nThe numbers are those {example}. Results keep them in the group `constant_data`.\n\n"
        f"{prior_table(model)}",
        f"## Symmetry\n\n{symmetry_of(model)}",
        pictures(model, data, folder),
        f"## Methods\n\n{methods_table(name)}",
        f"## Run it\n\n```shell\nuv run python -m inference.run model={name} method={first_method(name)}\n```",
    ]
    return "\n\n".join(part for part in parts if part)


def model_index() -> str:
    """All models, with what each is."""
    return table(["model", "is"], [[f"[`{name}`]({name}.md)", in_short("model", name)] for name in MODELS])


def in_short(group: str, name: str) -> str:
    """What a model or method is, without its options."""
    return plain(choices(group)[name].partition(";")[0])


def options_of(name: str) -> str:
    """What the build function says of its options, and which of them a preset has fixed."""
    build = MODELS[name]
    text = as_markdown(without_examples(inspect.getdoc(build.func) or ""))
    fixed = [f"`{option}={value}`" for option, value in build.keywords.items() if option != "name"]
    return f"{text}\n\nHere {' and '.join(fixed)} are fixed." if fixed else text


def as_markdown(docstring: str) -> str:
    """A docstring in Markdown: code in single backticks, programs as blocks of text, and documents lead to the errata."""
    text = DOCUMENT.sub(
        lambda found: f"[{found[0]}]({ERRATA}#{documents()[found[1]]})", re.sub(r"``([^`]+)``", r"`\1`", docstring)
    )
    blocks = re.split(r"\n{2,}", text)
    return "\n\n".join(fenced(block) if block.startswith("    ") else block for block in blocks)


@cache
def documents() -> dict[str, str]:
    """Number of a source document -> the anchor of its section in the errata."""
    text = Path(__file__).parents[1].joinpath("errata.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (Document (\d{3}): .*)$", text, re.MULTILINE)
    return {number: re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading, number in headings}


def fenced(block: str) -> str:
    """An indented block as a fence, which keeps what is between dollar signs or underscores."""
    return f"```text\n{inspect.cleandoc(block)}\n```"


def without_examples(docstring: str) -> str:
    """A docstring up to its examples."""
    return docstring.partition("\n>>> ")[0].rstrip()


def described(diagram: Diagram) -> str:
    """A diagram in words, for those who do not see it."""
    return "; ".join(
        f"{name} given {', '.join(node.parents)}" if node.parents else name for name, node in diagram.nodes.items()
    )


def sites_table(model: Model, diagram: Diagram) -> str:
    """Site, distribution, dimensions with their sizes, what it depends on."""
    sizes = {dim: len(labels) for dim, labels in model.naming.coords.items()} | dict(diagram.plates)
    rows = [
        [f"`{name}`" + (" (observed)" if node.observed else ""), node.family, dimensions(node, sizes), given(node)]
        for name, node in diagram.nodes.items()
    ]
    return table(["site", "distribution", "dimensions", "given"], rows)


def dimensions(node: Node, sizes: Mapping[str, int | None]) -> str:
    """The dimensions of a site, those of its plates first."""
    return " × ".join(f"{dim} ({sizes[dim]})" if sizes.get(dim) else dim for dim in (*node.plates, *node.dims)) or "a number"


def given(node: Node) -> str:
    """The parents of a site."""
    return ", ".join(f"`{parent}`" for parent in node.parents) or "–"


def prior_table(model: Model) -> str:
    """Name, shape and value of every number of the prior; ranges in the place of long arrays."""
    rows = []
    for name, value in model.hyper.items():
        array = np.asarray(value, dtype=float)
        low, high = float(array.min()), float(array.max())
        shown = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        rows.append([f"`{name}`", " × ".join(map(str, array.shape)) or "a number", shown])
    return table(["name", "shape", "value"], rows)


def symmetry_of(model: Model) -> str:
    """What transformations leave the likelihood unchanged."""
    if model.symmetry is None:
        return NO_SYMMETRY
    return SYMMETRIES[type(model.symmetry)].format(dim=model.symmetry.dim)


def pictures(model: Model, data: Data, folder: Path) -> str:
    """A section with the first pictures that a run on the example draws, which are written to ``folder``; empty without any."""
    method = first_method(model.name)
    tree = fit(model, data, method)
    shown = []
    for picture, draw in list(drawings(model, tree, data).items())[:SHOWN]:
        file = f"{model.name}_{picture}.svg"
        draw(folder / file)
        shown.append(f"![{picture.replace('_', ' ')} of {model.name}]({file})\n\n{CAPTIONS[picture]}")
    opening = f"## Pictures\n\nA run of `{method}` on the example draws these, among others."
    return "\n\n".join([opening, *shown]) if shown else ""


def methods_table(name: str) -> str:
    """Which methods take the model, or what their certificates say."""
    cells = row_of(name)
    rows = [[f"[`{method}`](../methods/{method}.md)", with_link(name, method, cells[method])] for method in METHODS]
    return table(["method", "runs, or the verdict of its certificate"], rows)


def first_method(name: str) -> str:
    """The fastest method that takes the model, for the example of the page."""
    cells = row_of(name)
    return next(method for method in ("em", "map") if cells[method] != "–")
