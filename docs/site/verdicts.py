"""Every warning of a result, from the table of verdicts, each under an anchor of its own."""

import re

from inference.diagnostics.verdicts import FINISHED, VERDICTS, Verdict, anchor
from inference.engine.task import Kind

KINDS = {
    Kind.POINT: "points of optimisers",
    Kind.CHAINS: "draws of chains",
    Kind.INDEPENDENT: "independent draws",
    Kind.APPROXIMATION: "draws of approximations",
}


def verdicts() -> str:
    """A section for each verdict: what the message says, which results it concerns, its limit, its exit code."""
    return "\n\n".join(section(verdict) for verdict in VERDICTS)


def section(verdict: Verdict) -> str:
    """One verdict, under its anchor."""
    limit = "a limit that depends on the size of the run" if callable(verdict.threshold) else f"{verdict.threshold:g}"
    kinds = "every result" if set(verdict.applies) == set(Kind) else ", ".join(KINDS[kind] for kind in verdict.applies)
    code = "It is a remark: the exit code stays 0." if verdict.exit == FINISHED else f"The exit code is {verdict.exit}."
    message = re.sub(r"\{(\w+)(?::[^}]*)?\}", r"‹\1›", verdict.sentence)
    message = re.sub(r"›(?=[A-Z])|(?<=\w)‹", lambda found: {"›": "› ", "‹": " ‹"}[found[0]], message)
    fails = "" if verdict.threshold == 0 else f" It fails if the number is {verdict.fails} {limit}."  # 0: there is one, or more
    facts = f"It checks {kinds}.{fails} {code}"
    return f"({anchor(verdict.diagnostic)})=\n### {verdict.diagnostic}\n\n> {message}\n\n{facts}"
