"""``python -m inference.support``: the model × method table of the README, made from the code."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from inference import METHODS
from models.base import Model
from models.data import Data

BEGIN, END = "<!-- support table: python -m inference.support -->", "<!-- end of support table -->"


def support_table() -> str:
    """A Markdown table: which method runs on which model, and by which verbs."""
    from models import MODELS

    lines = ["| method | parameters | latents | " + " | ".join([*MODELS, "program"]) + " |"]
    lines.append("|---" * (len(MODELS) + 4) + "|")
    for method, path in METHODS.items():
        verbs = _verbs(method, path)
        cells = [_cell(path, build) for build in MODELS.values()] + ["yes" if verbs is None else "–"]
        parameters, latents = ("on the NumPyro program", "summed out") if verbs is None else verbs
        lines.append(f"| `{method}` | {parameters} | {latents} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(path: str, build: Callable[..., Model]) -> str:
    """Whether a method takes a model with two classes and with more, by what it says of their algebras."""
    refuses = getattr(import_module(path), "refuses", lambda algebra: None)
    takes = [refuses(build(_table(size)).algebra) is None for size in (2, 3)]
    return {(True, True): "yes", (True, False): "two classes", (False, False): "–"}[takes[0], takes[1]]


def _table(num_classes: int) -> Data:
    """A small table of zeros and ones with labels: any model can be built on it."""
    labels = np.arange(12) % num_classes
    x = np.random.default_rng(0).integers(0, 2, (12, 2)).astype(float)
    return Data("table", x, ("a", "b"), labels, "class", tuple("abc"[:num_classes]))


def _verbs(method: str, path: str) -> tuple[str, str] | None:
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
