"""The page of a certificate, in Markdown: the verdict, every check, its figures nearest to their limits, how to repeat it."""

from collections.abc import Sequence
from pathlib import Path

from inference.certificates.certificate import MODEL_CHECKS, Certificate, at_most
from inference.certificates.checks.figure import Check, Figure, relative_to_limit
from inference.certificates.page import CLAIMS, UNCOUNTED, has_picture, picture, verdict_words
from inference.runtime.files import write, write_figure

ABOUT = "`docs/certificates.md`"
SHOWN = 8  # figures of a check; the JSON file has all


def write_pages(certificate: Certificate, path: Path) -> None:
    """Write the page of a certificate, and its picture if there are deviations to draw, next to its JSON file at ``path``."""
    from matplotlib import rc_context

    if has_picture(certificate):
        with rc_context({"svg.fonttype": "none"}):  # names of statistics as text: a third of the size
            write_figure(path.with_suffix(".svg"), picture(certificate))
    write(path.with_suffix(".md"), page_of(certificate, path.stem, about_of(path)).encode())


def about_of(path: Path) -> str:
    """The page that explains the checks: a link where certificates stand in the folder below it."""
    is_published = path.resolve().parent.parent.joinpath("certificates.md").is_file()
    return "[certificates](../certificates.md)" if is_published else ABOUT


def page_of(certificate: Certificate, stem: str, about: str = ABOUT) -> str:
    """The page, for files that begin with ``stem``; ``about`` names the page that explains the checks."""
    parts = [f"# {certificate.model} by {certificate.method}: {certificate.verdict}", _summary(certificate, stem, about)]
    if has_picture(certificate):
        cell = f"{certificate.model} by {certificate.method}"
        parts.append(f"![Deviations of every statistic of {cell}, and the largest of mutants]({stem}.svg)")
    parts += [_section(check, certificate.model if check.name in MODEL_CHECKS else stem) for check in certificate.checks]
    parts.append(_repeat(certificate))
    return "\n\n".join(parts) + "\n"


def _summary(certificate: Certificate, stem: str, about: str) -> str:
    meaning = CLAIMS[certificate.verdict]
    files = f"`{stem}.json` and `{certificate.model}.json`"
    return (
        f"**{verdict_words(certificate)}**: {meaning}. {_rate(certificate.false_alarm)} Budget: {certificate.budget}.\n\n"
        f"What the checks are: {about}. [All cells](index.md). All figures, of mutants the largest: {files}."
    )


def _rate(probability: float | None) -> str:
    """How often a right cell fails by chance, in a sentence."""
    if probability is None:
        return "How often a right cell fails by chance is not known."
    if probability == 0:
        return "Chance plays no part in these checks."
    return f"A right cell fails by a deviation with probability {at_most(probability)} at most. {UNCOUNTED}"


def _section(check: Check, stem: str) -> str:
    """One check: its answer, and the figures nearest to their limits or beyond."""
    lines = [f"## {check.name.capitalize()}: {'passed' if check.passed else 'failed'}", "", f"{check.says}."]
    if check.kind == "control" or not check.figures:
        return "\n".join(lines)
    if check.kind == "bias":  # sizes, which have no limits
        header = ["figure", "value", "in"]
        rows = [[figure.name, _number(figure.value), figure.unit] for figure in check.figures]
    else:
        header = ["figure", "value", "limit", "again", "in"]
        rows = [_compared(figure) for figure in sorted(check.figures, key=relative_to_limit, reverse=True)[:SHOWN]]
    lines += ["", _row(header), "|---" * len(header) + "|", *(_row(row) for row in rows)]
    if left := len(check.figures) - len(rows):
        more = "1 more figure is" if left == 1 else f"{left} more figures are"
        lines += ["", f"{more} in `{stem}.json`, further from the limits."]
    return "\n".join(lines)


def _compared(figure: Figure) -> list[str]:
    again = "" if figure.again is None else _number(figure.again)
    return [figure.name, _number(figure.value), _number(figure.limit), again, figure.unit]


def _row(entries: Sequence[str]) -> str:
    return f"| {' | '.join(entry.replace('|', '\\|') for entry in entries)} |"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _repeat(certificate: Certificate) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in certificate.versions.items())
    return (
        "## The same figures again\n\n"
        f"```shell\n{certificate.command}\n```\n\n"
        f"{packages}. Other processors may round differently."
    )
