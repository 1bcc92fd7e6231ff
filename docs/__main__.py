"""``python -m docs``: builds the documentation site in ``docs/_build/html``.

Arguments, as ``key=value``:

- ``execute=true`` runs the notebooks; by default the site shows the outputs that they hold.
- ``out=<folder>`` builds elsewhere.

Warnings are errors. The exit code is that of Sphinx.
"""

import sys
from pathlib import Path

from docs.site.build import OPTIONS, build

ROOT = Path(__file__).parents[1]


def main(arguments: list[str]) -> int:
    """Build the site as ``arguments`` say; returns the exit code."""
    given = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := [name for name in given if name not in OPTIONS]:
        sys.stderr.write(f"{unknown[0]!r} is not an option of python -m docs; it takes {', '.join(OPTIONS)}, as key=value\n")
        return 2
    if given.get("execute", "false") not in ("true", "false"):
        sys.stderr.write(f"execute must be true or false, got {given['execute']!r}\n")
        return 2
    out = Path(given.get("out", ROOT / "docs" / "_build"))
    return build(ROOT, out, execute=given.get("execute") == "true")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
