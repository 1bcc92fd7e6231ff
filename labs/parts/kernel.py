"""A Markov kernel made of the student's functions: certified as `inference.certify` does it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from labs.parts.calls import AnswerError, not_written
from labs.parts.lab import Answer, Result
from labs.student.words import in_a_line

INVARIANT, UNDECIDED = "invariant", "inconclusive"  # verdicts of `inference.samplers.report`
SAMPLER = "the sampler"  # students have not seen the class that holds their functions


class Kernel(NamedTuple):
    """All points for a kernel that leaves the posterior alone and moves. The hints of the certificate say what is wrong."""

    functions: tuple[str, ...]
    points: int
    model: str
    made: Callable[[Any], Any]  # student -> an object as `inference.certify` takes it, for ``compiled=False``
    name: str = "kernel"
    patience: float = 15.0

    def collect(self, student: Any, seed: int) -> Answer:
        """The verdict of the certificate, and its hints. Where one seed decides nothing, another is tried."""
        from models.errors import ZooError

        try:
            report = self._certified(student, seed)
            if report.verdict == UNDECIDED:
                report = self._certified(student, seed + 1)
        except NotImplementedError as error:
            return Answer({}, {"verdict": "fails", "hints": [not_written(error, self.name)]})
        except (AnswerError, ZooError) as error:
            return Answer({}, {"verdict": "fails", "hints": [str(error)]})
        except (Exception, SystemExit) as error:  # whatever the student's functions raise
            return Answer({}, {"verdict": "fails", "hints": [f"stops with {in_a_line(error)}"]})
        return Answer({}, {"verdict": report.verdict, "still": stood_still(report), "hints": list(report.hints)})

    def _certified(self, student: Any, seed: int) -> Any:
        from inference.samplers.certification import certify

        return certify(self.made(student), model=self.model, seed=seed, compiled=False, name=SAMPLER)

    def judge(self, answer: Answer, seed: int) -> Result:
        """Exact or not, and which update is to blame. Half of the points where nothing is wrong, but nothing is decided."""
        if answer.notes["verdict"] == INVARIANT:
            return Result(self.name, self.points, self.points, ())
        if answer.notes["verdict"] == UNDECIDED:
            return Result(self.name, self.points / 2, self.points, (NOT_DECIDED,))
        hints = [*answer.notes.get("still", []), *map(str, answer.notes["hints"])]
        return Result(self.name, 0.0, self.points, tuple(hints[:3]) or (UNEXPLAINED,))


NOT_DECIDED = (
    "The certificate is inconclusive: it would not have noticed a wrong prior either. Does every step update all parameters? "
    "`budget='full'` takes more replicates."
)
UNEXPLAINED = "the sampler does not leave the posterior alone: draws that were exact are not exact after a few steps"


def stood_still(report: Any) -> list[str]:
    """``mean stays unchanged in 100 % of the runs``: what a kernel that stands still leaves alone for a bad reason."""
    shares = [figure for check in report.checks for figure in check.figures if figure.unit == "share" and not figure.passed]
    names = [figure.name.removeprefix("share of ").removesuffix(" left unchanged") for figure in shares]
    return [
        f"{SAMPLER} hardly moves: {name} stays unchanged in {100 * figure.value:.0f} % of the runs; each step should update it"
        for name, figure in zip(names, shares, strict=True)
    ]
