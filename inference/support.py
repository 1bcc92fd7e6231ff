"""``python -m inference.support``: writes what derives from the records of methods, models and certificates.

These are the options of methods on the command line, the types of `fit`, and the tables of the README and of all certificates.
"""

import re
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from inference.certificates.certificate import read_certificate
from inference.certificates.command import PUBLISHED, TABLE
from inference.certificates.oracles import ORACLES, VARIANTS
from inference.certificates.page import budget_words, table_of, verdict_words
from inference.fitting.generated import generated_files
from inference.methods import METHODS
from inference.methods.method import Method, method_named
from models.base import Model
from models.data.documents import documents
from models.errors import ZooError
from models.reading.load import load_data

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- support table: python -m inference.support -->", "<!-- end of support table -->"


class Example(NamedTuple):
    """A model on small data, and the rows that it reads."""

    model: Model
    rows: Any


class Examples(NamedTuple):
    """Small data on which a model shows what runs; None where it does not accept them."""

    two: Example  # classes
    three: Example
    unlabelled: Example | None
    flat: Example | None  # under a flat prior


def support_table() -> str:
    """Two Markdown tables: the updates of each method, and which methods run on which model."""
    from models import MODELS

    lines = ["| method | parameters | latents |", "|---|---|---|"]
    methods = {name: method_named(name) for name in METHODS}
    for method, record in methods.items():
        if record.updates is not None:
            parameters, latents = record.updates
            lines.append(f"| `{method}` | {parameters} | {latents} |")
    on_programs = ", ".join(f"`{method}`" for method, record in methods.items() if record.updates is None)
    lines.append(f"| {on_programs} | on the NumPyro program | summed out |")
    lines += ["", f"| model | {' | '.join(f'`{method}`' for method in METHODS)} |", "|---" * (len(METHODS) + 1) + "|"]
    for name, build in MODELS.items():
        examples = Examples(_example(build, 2), _example(build, 3), _without_labels(build), _flat(build))
        cells = [_with_verdict(_cell(record, examples), name, method) for method, record in methods.items()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    programs = " | ".join("yes" if record.updates is None else "–" for record in methods.values())
    return "\n".join([*lines, f"| your own program | {programs} |"])


def _cell(method: Method, examples: Examples) -> str:
    """The cell for one model and method: yes, no, or the condition under which the method runs."""
    if method.where is not None:
        words_of = (method.where(*example) for example in (examples.two, examples.three, examples.flat) if example is not None)
        return next((words for words in words_of if words), "–")

    def supports(example: Example | None) -> bool:
        if example is None:
            return False
        assert example.model.algebra is not None  # a model of the zoo has one
        return method.support.why_not(example.model.algebra) is None

    if supports(examples.two):
        return "yes" if supports(examples.three) else "two classes"
    return "without labels" if supports(examples.unlabelled) else "–"


def _with_verdict(cell: str, name: str, method: str) -> str:
    """The cell with the verdict of its published certificate, if there is one: exact, mode, or approximate and how well.

    The cell names a certificate of the smaller budget, or of other code. Raises `ZooError` for a file that is none.
    """
    path = PUBLISHED / f"{name}-{method}.json"
    if cell == "–" or not path.is_file():
        return cell
    certificate = read_certificate(path)
    words = f"{verdict_words(certificate)}{budget_words(certificate)}"
    return words if cell == "yes" else f"{words}, {cell}"


def _example(build: Callable[..., Model], num_labels: int, **options: Any) -> Example:
    """The model on a small table of zeros and ones with labels, or on documents if it needs those."""
    labels = [str(n % num_labels) for n in range(12)] if num_labels else None
    rows = np.random.default_rng(0).integers(0, 2, (12, 6))
    data = load_data(rows, labels=labels)
    try:
        model = build(data, **options)
    except ZooError:
        data = load_data(documents(rows.tolist()), labels=labels)
        model = build(data, **options)
    return Example(model, model.rows(data))


def _flat(build: Callable[..., Model]) -> Example | None:
    """The model under a flat prior, if it allows one."""
    try:
        return _example(build, 2, prior="flat")
    except ZooError:
        return None


def _without_labels(build: Callable[..., Model]) -> Example | None:
    """The model of two classes on rows without labels, if it allows them."""
    if "num_classes" not in signature(build).parameters:
        return None
    try:
        return _example(build, 0, num_classes=2)
    except ZooError:
        return None


def renewed_readme(text: str) -> str:
    """The text of the README with renewed tables."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{support_table()}\n{END}", text, flags=re.DOTALL)


def renew_table() -> None:
    """Write the table of the published certificates again."""
    if PUBLISHED.is_dir():
        (PUBLISHED / TABLE).write_text(table_of(PUBLISHED, [*ORACLES, *VARIANTS], ".json"), encoding="utf-8")


if __name__ == "__main__":
    for path, content in generated_files().items():
        path.write_text(content, encoding="utf-8")
    renew_table()
    readme = ROOT / "README.md"
    readme.write_text(renewed_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(support_table() + "\n")
