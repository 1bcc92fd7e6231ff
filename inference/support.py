"""``python -m inference.support``: the model × method table of the README, made from the code."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from inference import METHODS
from models.base import Model
from models.data import ZooError, load_data
from models.documents import documents

BEGIN, END = "<!-- support table: python -m inference.support -->", "<!-- end of support table -->"


def support_table() -> str:
    """Two Markdown tables: the methods by their verbs, and which of them run on which model."""
    from models import MODELS

    lines = ["| method | parameters | latents |", "|---|---|---|"]
    for method, path in METHODS.items():
        parameters, latents = _verbs(path) or ("on the NumPyro program", "summed out")
        lines.append(f"| `{method}` | {parameters} | {latents} |")
    lines += ["", f"| model | {' | '.join(f'`{method}`' for method in METHODS)} |", "|---" * (len(METHODS) + 1) + "|"]
    for name, build in MODELS.items():
        algebras = [_example(build, size).algebra for size in (2, 3)]
        lines.append(f"| `{name}` | {' | '.join(_cell(path, algebras) for path in METHODS.values())} |")
    own = " | ".join("yes" if _verbs(path) is None else "–" for path in METHODS.values())
    return "\n".join([*lines, f"| your own program | {own} |"])


def _cell(path: str, algebras: list[Any]) -> str:
    """Whether a method takes a model with two classes and with more, by what it says of their algebras."""
    refuses = getattr(import_module(path), "refuses", lambda algebra: None)
    two, more = (refuses(algebra) is None for algebra in algebras)
    return "yes" if two and more else "two classes" if two else "–"


def _example(build: Callable[..., Model], num_classes: int) -> Model:
    """The model on a small table of zeros and ones with labels, or on documents where it asks for those."""
    labels = [str(n % num_classes) for n in range(12)]
    rows = np.random.default_rng(0).integers(0, 2, (12, 6))
    try:
        return build(load_data(rows, labels=labels))
    except ZooError:
        return build(load_data(documents(rows.tolist()), labels=labels))


def _verbs(path: str) -> tuple[str, str] | None:
    """The pair of verbs of a method on the algebra; None for one on the program."""
    module = import_module(path)
    if hasattr(module, "VERBS"):
        parameters, latents = module.VERBS
        return str(parameters), str(latents)
    found = getattr(module, "METHOD", None)
    if found is None:
        return None
    verbs = getattr(found, "verbs", found)
    return verbs.parameters.__name__.removeprefix("at_"), verbs.latents


def in_readme(text: str) -> str:
    """A README with its support table made anew."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{support_table()}\n{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = Path(__file__).parent.parent / "README.md"
    readme.write_text(in_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(support_table() + "\n")
