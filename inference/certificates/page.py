"""Certificates on the screen, as a picture, and all of a folder as a table."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from inference.certificates.cell import PLANS, refusal
from inference.certificates.certificate import MODEL_CHECKS, Certificate, at_most, certificate_or_none
from inference.certificates.checks.figure import MOST, Check
from inference.markup.palette import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE = 8.0  # deviations beyond this are drawn here


def lines_of(certificate: Certificate) -> list[str]:
    """The verdict, a line per check, and every figure that failed."""
    rate = certificate.false_alarm
    alarm = f" (a right cell fails by chance with probability {at_most(rate)} at most)" if rate else ""
    return [f"{certificate.model} {certificate.method}: {certificate.verdict}{alarm}", *check_lines(certificate.checks)]


def check_lines(checks: Sequence[Check], most: int | None = None) -> list[str]:
    """A line per check, and the figures that failed: ``most`` of each check, those that deviate most, or all."""
    lines = []
    for check in checks:
        lines.append(f"  {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.says}")
        if not check.passed and check.kind != "control":
            failed = [figure for figure in check.figures if not figure.passed]
            if most is not None:
                failed = sorted(failed, key=lambda figure: -abs(figure.value))[:most]
            lines += [f"       {figure.name}: {figure.value:.3g}{_again(figure.again)}" for figure in failed]
    return lines


def _again(value: float | None) -> str:
    return "" if value is None else f", and {value:.3g} when rerun"


def has_picture(certificate: Certificate) -> bool:
    """Whether there are deviations to draw: those of draws, which are compared by ranks."""
    return bool(_laws(certificate))


def _laws(certificate: Certificate) -> list[tuple[Check, Check | None]]:
    """Checks by deviations, each with that of the mutant, which comes after it."""
    laws: list[tuple[Check, Check | None]] = []
    for check in certificate.checks:
        if any(figure.unit == "deviation" for figure in check.figures):
            if check.kind == "control":
                laws[-1] = (laws[-1][0], check)
            else:
                laws.append((check, None))
    return laws


def picture(certificate: Certificate) -> "Figure":
    """Deviations of a cell, a panel for each check: all of the cell within the limits, the largest of its mutant beyond."""
    from matplotlib.figure import Figure as Canvas

    laws = _laws(certificate)
    names = [[figure.name for figure in law.figures if figure.unit == "deviation"] for law, _ in laws]
    heights = [0.6 + 0.19 * len(names_of_check) for names_of_check in names]
    figure = Canvas(figsize=(7.5, sum(heights)), layout="constrained")
    panels = figure.subplots(len(laws), squeeze=False, height_ratios=heights)[:, 0]
    for axes, names_of_check, (law, control) in zip(panels, names, laws, strict=True):
        _panel(axes, names_of_check, law, control)
        axes.set_title(law.name, fontsize=9, loc="left")
    panels[-1].set_xlabel(f"standard normal deviations; grey: up to {MOST}; beyond {EDGE:.0f} drawn at {EDGE:.0f}")
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, ncols=2, frameon=False)
    figure.suptitle(f"{certificate.model} {certificate.method}: {certificate.verdict}", fontsize=10)
    return figure


def _panel(axes: "Axes", names: list[str], law: Check, control: Check | None) -> None:
    height = np.arange(len(names))[::-1]
    axes.axvspan(-MOST, MOST, color="0.93", zorder=0)
    for check, colour, marker, label in ((law, COLOURS[0], "o", "cell"), (control, COLOURS[3], "x", "mutant")):
        if check is not None:
            axes.scatter(_deviations(check, names), height, color=colour, marker=marker, s=22, label=label, zorder=3)
    axes.set_yticks(height, names, fontsize=7)
    axes.set_ylim(-1, len(names))
    axes.set_xlim(-EDGE - 0.5, EDGE + 0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _deviations(check: Check, names: list[str]) -> np.ndarray:
    values = {figure.name: figure.value for figure in check.figures}
    return np.clip([values.get(name, math.nan) for name in names], -EDGE, EDGE)


def table_of(folder: Path, models: Sequence[str], leads_to: str = ".md") -> str:
    """A Markdown page: the verdict of every certificate in a folder, which leads to its page or to its JSON file."""
    verdicts = {model: [_verdict(folder / f"{model}-{method}.json", leads_to) for method in PLANS] for model in models}
    lines = [f"| model | {' | '.join(f'`{method}`' for method in PLANS)} |", "|---" * (len(PLANS) + 1) + "|"]
    lines += [f"| `{model}` | {' | '.join(row)} |" for model, row in verdicts.items()]
    every = [
        one
        for model in models
        for method in PLANS
        if (one := certificate_or_none(folder / f"{model}-{method}.json")) is not None
    ]
    return "\n".join([INTRODUCTION, *lines, "", LEGEND, *_alarm_lines(every), "", *_time_lines(every), *_refusals(models)])


def _time_lines(every: Sequence[Certificate]) -> list[str]:
    """The sum of the seconds of all checks, those that cells share counted once, and the five cells with most."""
    if not every:
        return []
    of_models = {(one.model, check.name): check.seconds for one in every for check in one.checks if check.name in MODEL_CHECKS}
    of_methods = [check.seconds for one in every for check in one.checks if check.name not in MODEL_CHECKS]
    hours = (sum(of_models.values()) + sum(of_methods)) / 3600
    minutes = {f"`{one.model}` `{one.method}`": sum(check.seconds for check in one.checks) / 60 for one in every}
    most = sorted(minutes, key=lambda cell: -minutes[cell])[:5]
    cells = ", ".join(f"{cell} ({minutes[cell]:.0f} minutes)" for cell in most)
    return [
        f"All checks took {hours:.1f} hours, summed over processes that ran side by side. The cells with most: {cells}.",
        "",
    ]


def _alarm_lines(every: Sequence[Certificate]) -> list[str]:
    """How often one at least of all right cells fails by chance, and the methods of which this is not known."""
    rates = [one.false_alarm for one in every if one.false_alarm]
    says = (
        f"If all {len(rates)} cells with a known false-alarm rate are right, at least one fails by a deviation with "
        f"probability {at_most(sum(rates))} at most. {UNCOUNTED}"
    )
    unknown = [method for method in PLANS if any(one.method == method and one.false_alarm is None for one in every)]
    lacking = f"No rate is known of {', '.join(f'`{method}`' for method in unknown)}."
    return [*([says] if rates else []), *([lacking] if unknown else [])]


def _verdict(path: Path, leads_to: str) -> str:
    if not path.is_file():
        return "–"
    certificate = certificate_or_none(path)
    if certificate is None:
        return "unreadable"
    return f"[{verdict_words(certificate)}]({path.with_suffix(leads_to).name}){budget_words(certificate)}"


def verdict_words(certificate: Certificate) -> str:
    """The verdict; of an approximation with the share of its 90 % intervals that hold the truth, for the worst statistic."""
    coverage = certificate.coverage
    return certificate.verdict if coverage is None else f"{certificate.verdict} ({coverage:.0%} of 90%)"


def budget_words(certificate: Certificate) -> str:
    """The remark on a verdict in a table: that it is of the smaller budget."""
    return ", quick" if certificate.budget == "quick" else ""


def _refusals(models: Sequence[str]) -> list[str]:
    """Why cells have no certificate: a line for each reason of a method."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for model in models:
        for method in PLANS:
            if (why := refusal(model, method)) is not None:
                reasons.setdefault((method, why), []).append(f"`{model}`")
    lines = [
        f"- `{method}` of {', '.join(names)}: {why.removeprefix(f'{method} ')}." for (method, why), names in reasons.items()
    ]
    return ["## Not certified, and why", "", CONDITIONS, "", *lines, ""] if lines else []


CLAIMS = {  # verdict -> what it means
    "exact": "on small tables the draws agree with the posterior within the limits, and those of a mutant do not",
    "invariant": (
        "on small tables the steps of the sampler leave the posterior as it is, within the limits, and those of a mutant do "
        "not; that chains reach every mode of another table is not certified"
    ),
    "mode": "on small tables the point is a local mode of the posterior, and that of a mutant is not",
    "mode given assignments": "the point is the mode given the latents that are most probable at it; that of a mutant is not",
    "mode given random assignments": (
        "a step draws the latents and moves to the mode given them; the mean over many steps agrees with the exact sum over "
        "all assignments"
    ),
    "approximate": (
        "the draws are of something near the posterior; in brackets, where the bias is measured, is the coverage of its 90 % "
        "intervals for the worst statistic, chosen on one half of the replicates and measured on the other (the exact "
        "posterior: 90 %, standard error 2.5 %, or 4.2 % of *quick*)"
    ),
    "inconclusive": "no check failed, but one lacks power, or a mutant was not rejected, so that passing means nothing",
    "fails": "a check failed; a random deviation must be beyond its limit twice",
}
UNCOUNTED = "Failures for lack of effective draws, of movement or of power are not counted."
CONDITIONS = (
    "Most of these cells do not take the small tables of the certificates, some of which have labels. Some run on other data: "
    "the table in the README says when."
)
INTRODUCTION = """\
# All certificates

Each entry is a verdict of `python -m inference.certify`, and leads to a page with its figures; the JSON files have all of them.
`docs/certificates.md` says what the checks are.
"""
LEGEND = "\n".join(
    [
        *(f"- *{verdict}*: {meaning}." for verdict, meaning in CLAIMS.items()),
        "- *quick*: with the smaller of the two budgets.",
        "- –: the method does not take the model, or there is no certificate yet.",
        "",
    ]
)
