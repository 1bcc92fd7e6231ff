"""A certificate: what was checked of a model under a method, every figure, and what to run to get the same figures again."""

import hashlib
import json
import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, NamedTuple

from inference.certificates.checks.figure import COVERAGE, Check, Figure, false_alarm_of, verdict_of
from inference.runtime.files import read, write
from models.errors import ZooError

SCHEMA = 2  # of the file
VERSIONS = ("numpyro", "jax", "jaxlib", "numpy", "scipy", "numba", "llvmlite", "arviz-stats", "xarray")


class Certificate(NamedTuple):
    """All checks of one cell."""

    model: str
    method: str
    claim: str  # what passing means: exact, mode or approximate
    budget: str
    seed: int
    versions: dict[str, str]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def verdict(self) -> str:
        """The claim, ``fails``, or ``inconclusive`` where all that is wrong is that the mutant was not rejected."""
        return verdict_of(self.checks, self.claim)

    @property
    def false_alarm(self) -> float | None:
        """Probability at most with which deviations fail a right cell; None: not known. Limits of sizes do not count."""
        return false_alarm_of(self.checks)

    @property
    def coverage(self) -> float | None:
        """Of an approximation: how often its 90 % intervals hold the truth, for the worst statistic; None: it is none.

        One half of the replicates says which statistic is the worst, the other half how often its intervals hold the truth.
        """
        return next((figure.value for check in self.checks for figure in check.figures if figure.unit == COVERAGE), None)

    @property
    def code(self) -> str:
        """Hash of the code of all checks."""
        return hash_of([check.code for check in self.checks])

    @property
    def command(self) -> str:
        """What prints the same figures again."""
        options = f"model={self.model} method={self.method} budget={self.budget} seed={self.seed} again=true"
        return f"python -m inference.certify {options}"


def hash_of(codes: Sequence[str]) -> str:
    """One hash for those of all checks."""
    return hashlib.sha256(" ".join(codes).encode()).hexdigest()[:16]


def at_most(probability: float) -> str:
    """A bound with one digit, rounded up.

    >>> at_most(1.24e-5), at_most(1e-6), at_most(0.0)
    ('2e-05', '1e-06', '0e+00')
    """
    if not probability:
        return f"{probability:.0e}"
    unit = 10.0 ** math.floor(math.log10(probability))
    return f"{math.ceil(probability / unit * (1 - 1e-9)) * unit:.0e}"


def versions() -> dict[str, str]:
    """Python and the packages that figures depend on."""
    return {"python": python_version()} | {name: version(name) for name in VERSIONS}


def write_certificate(certificate: Certificate, path: Path) -> None:
    """Write a certificate as JSON."""
    write(path, as_json(certificate).encode())


def as_json(certificate: Certificate) -> str:
    """A certificate as a text."""
    found = {
        "schema": SCHEMA,
        "verdict": certificate.verdict,
        "false_alarm": certificate.false_alarm,
        "command": certificate.command,
    }
    checks = {"checks": checks_as_json(certificate.checks)}
    text = json.dumps(found | certificate._asdict() | checks, indent=1, allow_nan=False)
    return f"{text}\n"


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; raises `ZooError` for a file that is none."""
    try:
        found: dict[str, Any] = json.loads(read(path))
        if found["schema"] != SCHEMA:
            raise ZooError(f"{path} has schema {found['schema']}, and this version reads {SCHEMA}: certify again")
        checks = [
            Check(**{name: check[name] for name in Check._fields} | {"figures": tuple(_figure(f) for f in check["figures"])})
            for check in found["checks"]
        ]
        return Certificate(**{name: found[name] for name in Certificate._fields} | {"checks": tuple(checks)})
    except (KeyError, TypeError, ValueError) as error:
        raise ZooError(f"{path} is no certificate: {error}") from error


def checks_as_json(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Every check with every figure."""
    return [check._asdict() | {"figures": [_figure_as_json(figure) for figure in check.figures]} for check in checks]


def _figure_as_json(figure: Figure) -> dict[str, Any]:
    return {name: _plain(value) for name, value in figure._asdict().items()} | {"passed": figure.passed}


def _plain(value: Any) -> Any:
    """JSON has no infinities and no NaN: they are written as words."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _figure(found: dict[str, Any]) -> Figure:
    again = None if found["again"] is None else float(found["again"])
    return Figure(found["name"], float(found["value"]), float(found["limit"]), found["unit"], again)
