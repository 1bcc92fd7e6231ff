"""``python -m inference.support``: the model × method table of the README, made from the code."""

import re
import sys
from importlib import import_module
from pathlib import Path

from inference import METHODS

BEGIN, END = "<!-- support table: python -m inference.support -->", "<!-- end of support table -->"


def support_table() -> str:
    """A Markdown table: which method runs on which model, and by which verbs."""
    from models import MODELS

    lines = ["| method | parameters | latents | " + " | ".join([*MODELS, "program"]) + " |"]
    lines.append("|---" * (len(MODELS) + 4) + "|")
    for method, path in METHODS.items():
        verbs = _verbs(method, path)
        cells = ["yes"] * len(MODELS) + ["yes" if verbs is None else "–"]
        parameters, latents = ("on the NumPyro program", "summed out") if verbs is None else verbs
        lines.append(f"| `{method}` | {parameters} | {latents} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
