"""A certificate: the checks of a model under a method, every figure, and the command that repeats them."""

import json
import math
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, NamedTuple

from inference.certificates.checks.figure import COVERAGE, Check, control_of, false_alarm_of, verdict_of
from inference.certificates.oracles import words_of
from inference.certificates.packing import packed, spelled_out, unpacked
from inference.runtime.files import write
from models.errors import ZooError

MODEL_CHECKS = ("parity", "contracts", control_of("contracts"))  # the same under every method
VERSIONS = ("numpyro", "jax", "jaxlib", "numpy", "scipy", "numba", "llvmlite", "arviz-stats", "xarray")


class Certificate(NamedTuple):
    """All checks of one cell."""

    model: str
    method: str
    claim: str  # the claim of a pass: exact, mode or approximate
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
        """The claim, ``fails``, or ``inconclusive`` where only power is lacking."""
        return verdict_of(self.checks, self.claim)

    @property
    def false_alarm(self) -> float | None:
        """Probability at most with which deviations fail a right cell; None: not known. Limits of sizes do not count."""
        return false_alarm_of(self.checks)

    @property
    def coverage(self) -> float | None:
        """Of an approximation: how often its 90 % intervals hold the truth, for the worst statistic; None: it is none.

        One half of the replicates selects the worst statistic, the other half counts how often its intervals hold the truth.
        """
        return next((figure.value for check in self.checks for figure in check.figures if figure.unit == COVERAGE), None)

    @property
    def command(self) -> str:
        """The command that prints the same figures again."""
        options = f"{words_of(self.model)} method={self.method} budget={self.budget} seed={self.seed} again=true"
        return f"python -m inference.certify {options}"


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
    """Write a certificate as JSON: the checks of the model in the file of the model in the same folder, all others at ``path``.

    The file of the model is not written where some of its checks are lacking.
    """
    of_model = [check for check in certificate.checks if check.name in MODEL_CHECKS]
    of_method = [check for check in certificate.checks if check.name not in MODEL_CHECKS]
    if len(of_model) == len(MODEL_CHECKS):
        facts = {name: getattr(certificate, name) for name in ("model", "seed", "versions")}
        write(model_path(certificate.model, path.parent), packed(facts, of_model).encode())
    write(path, packed(_facts(certificate), of_method).encode())


def write_unfinished(certificate: Certificate, path: Path) -> None:
    """Write all checks so far in one file."""
    write(path, packed(_facts(certificate), certificate.checks).encode())


def model_path(model: str, folder: Path) -> Path:
    """The file of the checks that do not depend on the method."""
    return folder / f"{model}.json"


def cell_paths(folder: Path) -> list[Path]:
    """The files of finished certificates in a folder."""
    return sorted(path for path in folder.glob("*-*.json") if "." not in path.stem)


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; raises `ZooError` for another file, and where the file of its model is missing or of another seed."""
    facts, checks = unpacked(path)
    try:
        model_file, whole = model_path(facts["model"], path.parent), any(check.name in MODEL_CHECKS for check in checks)
        if not whole and not model_file.is_file():
            raise ZooError(f"{path} is half of a certificate: {model_file.name} has the checks of the model, and is missing")
        shared, of_model = (facts, ()) if whole else unpacked(model_file)
        if shared["seed"] != facts["seed"]:
            raise ZooError(f"{path} is of seed {facts['seed']}, and {model_file} of seed {shared['seed']}: certify again")
        return Certificate(**{name: facts[name] for name in Certificate._fields[:-1]}, checks=(*of_model, *checks))
    except (KeyError, TypeError) as error:
        raise ZooError(f"{path} is no certificate: {error}") from error


def certificate_or_none(path: Path) -> Certificate | None:
    """The certificate of a file; None where there is none that can be read."""
    try:
        return read_certificate(path) if path.is_file() else None
    except ZooError:
        return None


def _facts(certificate: Certificate) -> dict[str, Any]:
    return {"verdict": certificate.verdict} | {name: getattr(certificate, name) for name in Certificate._fields[:-1]}


def as_json(certificate: Certificate) -> str:
    """A certificate as one text of JSON for readers elsewhere: with every digit, and words in place of NaN and infinities."""
    facts = {"false_alarm": certificate.false_alarm, "command": certificate.command}
    checks = {"checks": [spelled_out(check) for check in certificate.checks]}
    return json.dumps(_facts(certificate) | facts | checks, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
