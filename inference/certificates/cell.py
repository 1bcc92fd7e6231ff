"""All checks of one cell, a model under a method, and its certificate."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import NamedTuple

from inference.certificates.certificate import MODEL_CHECKS, Certificate, versions
from inference.certificates.checks.assigned import fixed_check, fixed_control, step_check, step_control
from inference.certificates.checks.calibration import (
    APPROXIMATE,
    EXACT,
    bias_check,
    calibration_check,
    calibration_control,
)
from inference.certificates.checks.cases import built
from inference.certificates.checks.contracts import contracts_check, contracts_control
from inference.certificates.checks.figure import Check, control_of, timed
from inference.certificates.checks.optimum import optimum_check, optimum_control
from inference.certificates.checks.parity import parity_check
from inference.certificates.checks.pipeline import pipeline_check
from inference.certificates.checks.posterior import SAMPLERS, FitSpec, posterior_check, posterior_control
from inference.certificates.checks.predictions import Asking, predictions_check, predictions_control
from inference.certificates.laws.kernel_law import law_check, law_control
from inference.certificates.laws.kernels_on_reals import KERNELS
from inference.certificates.oracles import ORACLES, VARIANTS, oracle_of
from inference.certificates.oracles.oracle import Oracle
from inference.certificates.witnesses import of_checks
from inference.certificates.witnesses.of_checks import NumbersOf
from inference.certificates.witnesses.witness import Difference, Numbers, differences, witness_of
from inference.fitting.prepare import x64
from inference.methods import METHODS
from inference.methods.method import Method, method_named
from models.base import Algebra
from models.errors import ZooError, did_you_mean


class CheckSpec(NamedTuple):
    """One check of a cell, with its control and its witness."""

    name: str
    check: Callable[[Oracle, int, int], Check]  # (oracle, seed, size)
    control: Callable[[Oracle, int, int], Check] | None  # None: the check itself tests whether it would detect a fault
    sizes: Mapping[str, int]  # by budget; a budget without one leaves the check out
    numbers: NumbersOf  # of the witness
    of_control: Callable[[Oracle], Numbers] = of_checks.of_mutant  # of the control's witness


class Plan(NamedTuple):
    """How a method is certified: its checks after parity and contracts."""

    method: Method
    checks: tuple[CheckSpec, ...]

    @property
    def enumerates(self) -> bool:
        """Whether the oracle must list all assignments of the latents."""
        return any(check.name in ENUMERATES for check in self.checks)


DRAWS = {"quick": 2_000, "full": 8_000}  # in each chain


def _of_fits(method: str) -> CheckSpec:
    """The draws of `fit` against the posterior."""
    fits = SAMPLERS.get(method, FitSpec(method))
    check, control = partial(posterior_check, fits), partial(posterior_control, fits)
    return CheckSpec("posterior", check, control, DRAWS, partial(of_checks.of_posterior, fits))


def _of_results(method: str) -> CheckSpec:
    """Predictions of rows from results: from a point, or from draws, of which an approximation needs few."""
    record = method_named(method)
    draws = "num_samples" in record.options._fields
    asking = Asking(method, draws)
    check, control = partial(predictions_check, asking), partial(predictions_control, asking)
    few = {"quick": 25, "full": 25} if draws else {"quick": 1, "full": 1}
    sizes = DRAWS if "posterior" in record.evidence else few
    return CheckSpec("predictions", check, control, sizes, partial(of_checks.of_predictions, asking))


TABLES = {"gibbs": 300, "tempered_gibbs": 300}  # of a pipeline
FEWER_TABLES = 200  # of other methods, whose fits may take seconds


def _of_pipeline(method: str) -> CheckSpec:
    """The draws of `fit` of many tables. It takes minutes, and is left to the full budget."""
    numbers = partial(of_checks.of_pipeline, method)
    return CheckSpec("pipeline", partial(pipeline_check, method), None, {"full": TABLES.get(method, FEWER_TABLES)}, numbers)


def _of_law(method: str) -> CheckSpec:
    if method not in KERNELS:
        raise ValueError(
            f"{method} has the check 'kernel law', and no line in KERNELS of inference/certificates/laws/kernels_on_reals.py"
        )
    kernel = KERNELS[method]
    check, control = partial(law_check, kernel), partial(law_control, kernel)
    sizes = {"quick": 2_500, "full": 10_000}
    return CheckSpec("kernel law", check, control, sizes, partial(of_checks.of_law, kernel), of_checks.of_law_mutants)


def _of_optimum(method: str) -> CheckSpec:
    check, control = partial(optimum_check, method), partial(optimum_control, method)
    return CheckSpec("optimum", check, control, {"quick": 3, "full": 10}, partial(of_checks.of_optimum, method))


FIXED = CheckSpec("fixed point", fixed_check, fixed_control, {"quick": 3, "full": 10}, of_checks.of_fixed_point)
STEP = CheckSpec("random step", step_check, step_control, {"quick": 2_500, "full": 10_000}, of_checks.of_random_step)


def _of_calibration(method: str) -> CheckSpec:
    check, control = partial(calibration_check, EXACT[method]), partial(calibration_control, EXACT[method])
    sizes = {"quick": 1_250, "full": 2_500}
    return CheckSpec("calibration", check, control, sizes, partial(of_checks.of_calibration, method))


def _of_bias(method: str) -> CheckSpec:
    sizes = {"quick": 100, "full": 300}  # a replicate is a fit, and takes about a second
    return CheckSpec("bias", partial(bias_check, APPROXIMATE[method]), None, sizes, partial(of_checks.of_calibration, method))


SPECS: dict[str, Callable[[str], CheckSpec]] = {  # name of a check, as methods list them -> the check of a method
    "kernel law": _of_law,
    "posterior": _of_fits,
    "predictions": _of_results,
    "pipeline": _of_pipeline,
    "optimum": _of_optimum,
    "fixed point": lambda method: FIXED,
    "random step": lambda method: STEP,
    "calibration": _of_calibration,
    "bias": _of_bias,
}
ENUMERATES = {FIXED.name, STEP.name}  # checks whose oracle must list all assignments of the latents


def _plan_of(name: str) -> Plan:
    method = method_named(name)
    return Plan(method, tuple(SPECS[check](name) for check in method.evidence))


BUDGETS = ("quick", "full")
PRECISION = 64
PLANS = {name: _plan_of(name) for name in METHODS}
Say = Callable[[str], None]


class BoundCheck(NamedTuple):
    """A check of one cell, ready to run, and the numbers of its witness."""

    name: str
    size: int
    check: Callable[[], Check]
    numbers: Callable[[], Numbers]
    follows: str = ""  # of a control: the check of which it shows that it can fail

    def run(self) -> Check:
        """The answer of the check, with its witness."""
        return self.check()._replace(size=self.size, witness=witness_of(self.numbers()))

    def changes(self, stored: Check | None) -> list[Difference]:
        """Differences between the check and the stored one: in its size, or in the numbers that it compares."""
        if stored is None:
            return [Difference("the check", math.inf)]
        if stored.size != self.size:
            return [Difference("size", abs(self.size - stored.size) / max(stored.size, 1))]
        return differences(stored.witness, self.numbers())


def certify(
    method: str,
    model: str = "gmm",
    budget: str = "quick",
    seed: int = 0,
    say: Say | None = None,
    before: Certificate | None = None,
    keep: Callable[[Certificate], None] | None = None,
) -> Certificate:
    """Check the cell of ``model`` and ``method``: is it right?

    ``budget`` is quick or full, which has up to four times the replicates, and runs samplers over many tables (the pipeline).
    ``say`` is called with a line at every step. Checks of a certificate ``before`` with the same seed and budget are taken from
    it if they passed and their witnesses are the same; a control is made again with its check. ``keep`` is called after every
    check with the certificate so far.
    Raises `ZooError` for names that are not in the zoo, and where the method does not take the model or has no check.

    >>> certificate = certify("gibbs", model="gmm_simple")
    >>> certificate.verdict
    'invariant'
    """
    require_cell(model, method)
    require_settings(budget, seed)
    tell, known = say or (lambda line: None), {} if before is None else _known(before, budget, seed)
    certificate = Certificate(model, method, PLANS[method].method.claim, budget, seed, versions(), ())
    with x64(PRECISION):
        made: set[str] = set()
        for bound in bound_checks(model, method, budget, seed):
            check = known.get(bound.name)
            if check is None or bound.follows in made or bound.changes(check):
                tell(f"{model} {method}: {bound.name}")
                check = bound.run()
                made.add(bound.name)
            certificate = certificate._replace(checks=(*certificate.checks, check))
            if keep is not None:
                keep(certificate)
    return before if before is not None and certificate._replace(versions=before.versions) == before else certificate


def _known(before: Certificate, budget: str, seed: int) -> dict[str, Check]:
    """The checks of a certificate that may be taken again, by name."""
    if (before.budget, before.seed) != (budget, seed):
        return {}
    return {check.name: check for check in before.checks if check.passed}


def bound_checks(model: str, method: str, budget: str, seed: int) -> list[BoundCheck]:
    """All checks of a cell, in their order."""
    oracle, checks = oracle_of(model), [*_model_checks(model, seed)]
    for place, spec in enumerate(PLANS[method].checks):
        if budget in spec.sizes:
            size, first = spec.sizes[budget], seed + 2 * place + 1
            numbers = partial(spec.numbers, oracle, first)
            checks.append(BoundCheck(spec.name, size, partial(timed, partial(spec.check, oracle, first, size)), numbers))
            if spec.control is not None:
                control = partial(timed, partial(spec.control, oracle, first + 1, size))
                mutant = partial(spec.of_control, oracle)
                checks.append(BoundCheck(control_of(spec.name), size, control, mutant, spec.name))
    return checks


@cache
def _model_checks(model: str, seed: int) -> tuple[BoundCheck, ...]:
    """The checks that do not depend on the method, in the order of `MODEL_CHECKS`: each runs once in a process."""
    oracle = oracle_of(model)
    parity, contracts, control = MODEL_CHECKS
    checks = (
        BoundCheck(parity, 1, partial(parity_check, oracle, seed), partial(of_checks.of_parity, oracle, seed)),
        BoundCheck(contracts, 1, partial(contracts_check, oracle, seed), partial(of_checks.of_contracts, oracle, seed)),
        BoundCheck(control, 1, partial(contracts_control, oracle, seed), partial(of_checks.of_mutant, oracle), contracts),
    )
    return tuple(each._replace(check=cache(partial(timed, each.check)), numbers=cache(each.numbers)) for each in checks)


def require_settings(budget: str, seed: int | str) -> None:
    """Raise `ZooError` for an unknown budget, or a seed that is no number from 0 to 2³¹ − 1."""
    if budget not in BUDGETS:
        raise ZooError(f"budget={budget!r} is not one of {', '.join(BUDGETS)}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise ZooError(f"seed must be a whole number from 0 to {2**31 - 1}, got {seed!r}")


def cells(models: Iterable[str] = ORACLES) -> list[tuple[str, str]]:
    """Every model with every method that has a check and takes the model; ``models`` may have variants."""
    return [(model, method) for model in models for method in PLANS if refusal(model, method) is None]


def require_cell(model: str, method: str) -> None:
    """Raise `ZooError` for a cell that cannot be certified."""
    if model not in ORACLES and model not in VARIANTS:
        known = (*ORACLES, *VARIANTS)
        raise ZooError(f"model={model!r} is not one of {', '.join(known)}{did_you_mean(model, known)}")
    if method not in METHODS:
        raise ZooError(f"method={method!r} is not one of {', '.join(METHODS)}{did_you_mean(method, METHODS)}")
    if method not in PLANS:
        raise ZooError(f"there is no check of method={method} yet; certificates are made for {', '.join(PLANS)}")
    if (why := refusal(model, method)) is not None:
        raise ZooError(f"{model} has no certificate of {method}: {why}")


def refusal(model: str, method: str) -> str | None:
    """Why there is no certificate of a method on a model, in words, or None."""
    plan = PLANS[method]
    if (why := plan.method.support.why_not(_algebra(model))) is not None:
        return why
    if plan.enumerates and oracle_of(model).enumeration is None:
        return (
            "the certificate lists all assignments of the latents, and its oracle lists none: some are continuous, or "
            "parameters have no closed form given them"
        )
    return None


@cache
def _algebra(model: str) -> Algebra:
    algebra = built(oracle_of(model)).algebra
    if algebra is None:
        raise ZooError(f"{model} is a program only; certificates need its algebra")
    return algebra
