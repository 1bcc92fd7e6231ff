"""All checks of one cell, a model under a method, and its certificate."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import NamedTuple

from inference.certificates.certificate import Certificate, versions
from inference.certificates.checks import assigned, calibration, contracts, kernel_law, optimum, parity, posterior, predictions
from inference.certificates.checks.assigned import ASSIGNING, fixed_check, fixed_control, step_check, step_control
from inference.certificates.checks.calibration import (
    APPROXIMATE,
    EXACT,
    DrawsOf,
    bias_check,
    calibration_check,
    calibration_control,
)
from inference.certificates.checks.cases import built
from inference.certificates.checks.contracts import contracts_check, contracts_control
from inference.certificates.checks.figure import CONTROL, Check, timed
from inference.certificates.checks.kernel_law import law_check, law_control
from inference.certificates.checks.kernels import KERNELS, KernelOf
from inference.certificates.checks.optimum import OPTIMISERS, optimum_check, optimum_control
from inference.certificates.checks.parity import parity_check
from inference.certificates.checks.posterior import SAMPLERS, posterior_check, posterior_control
from inference.certificates.checks.predictions import Asking, predictions_check, predictions_control
from inference.certificates.fingerprint import edited, fingerprint
from inference.certificates.oracles import ORACLES
from inference.certificates.oracles.oracle import Oracle
from inference.engine.task import Takes
from inference.fitting.prepare import x64
from inference.methods import METHODS
from inference.predictions.views import VIEWS
from models import MODELS
from models.base import Algebra
from models.errors import ZooError, did_you_mean


class Question(NamedTuple):
    """One check of a cell, and that of a mutant."""

    name: str  # of the check
    check: Callable[[Oracle, int, int], Check]  # (oracle, seed, size)
    control: Callable[[Oracle, int, int], Check] | None  # None: nothing can be rejected, because nothing is claimed
    sizes: Mapping[str, int]  # by budget
    module: str  # of the check
    beside: tuple[str, ...] = ()  # other methods that the check runs


class Way(NamedTuple):
    """How a method is certified: what passing means, the models that it takes, and its checks beside parity and contracts."""

    claim: str
    takes: Takes
    questions: tuple[Question, ...]
    enumerates: bool = False  # whether the oracle must list all assignments of the latents


DRAWS = {"quick": 2_000, "full": 8_000}  # in each chain


def _of_fits(method: str) -> Question:
    """The draws of `fit` against the posterior."""
    check, control = partial(posterior_check, SAMPLERS[method]), partial(posterior_control, SAMPLERS[method])
    return Question("posterior", check, control, DRAWS, posterior.__name__)


def _of_results(method: str, draws: bool, quick: int, full: int) -> Question:
    """What results say of rows; they have ``quick`` or ``full`` draws in each chain, or a point."""
    asking = Asking(method, draws)
    check, control = partial(predictions_check, asking), partial(predictions_control, asking)
    return Question("predictions", check, control, {"quick": quick, "full": full}, predictions.__name__)


def _of_kernel(method: str, kernel: KernelOf) -> Way:
    check, control = partial(law_check, kernel), partial(law_control, kernel)
    law = Question("kernel law", check, control, {"quick": 2_500, "full": 10_000}, kernel_law.__name__)
    return Way("exact", kernel.takes, (law, _of_fits(method), _of_results(method, True, **DRAWS)))


def _of_optimiser(method: str, takes: Takes) -> Way:
    check, control = partial(optimum_check, method), partial(optimum_control, method)
    best = Question("optimum", check, control, {"quick": 3, "full": 10}, optimum.__name__, tuple(OPTIMISERS))
    return Way("mode", takes, (best, _of_point(method)))


def _of_point(method: str) -> Question:
    return _of_results(method, False, 1, 1)


FIXED = Question("fixed point", fixed_check, fixed_control, {"quick": 3, "full": 10}, assigned.__name__)
STEP = Question("random step", step_check, step_control, {"quick": 2_500, "full": 10_000}, assigned.__name__)


def _of_draws(method: str, draws: DrawsOf) -> Way:
    check, control = partial(calibration_check, draws), partial(calibration_control, draws)
    ranks = Question("calibration", check, control, {"quick": 1_250, "full": 2_500}, calibration.__name__)
    return Way("exact", draws.takes, (ranks, _of_fits(method), _of_results(method, True, **DRAWS)))


def _of_approximation(method: str, draws: DrawsOf) -> Way:
    sizes = {"quick": 100, "full": 300}  # a replicate is a fit, and takes about a second
    bias = Question("bias", partial(bias_check, draws), None, sizes, calibration.__name__)
    return Way("approximate", draws.takes, (bias, _of_results(method, True, quick=25, full=25)))


BUDGETS = ("quick", "full")
WAYS: dict[str, Way] = {  # by the name of the method
    **{method: _of_kernel(method, kernel) for method, kernel in KERNELS.items()},
    **{method: _of_draws(method, draws) for method, draws in EXACT.items()},
    **{method: _of_optimiser(method, takes) for method, takes in OPTIMISERS.items()},
    "hard_em": Way("mode given assignments", ASSIGNING["hard_em"], (FIXED, _of_point("hard_em")), enumerates=True),
    "stochastic_em": Way(
        "mode given random assignments", ASSIGNING["stochastic_em"], (STEP, _of_point("stochastic_em")), enumerates=True
    ),
    **{method: _of_approximation(method, draws) for method, draws in APPROXIMATE.items()},
}
Say = Callable[[str], None]


def certify(method: str, model: str = "gmm", budget: str = "quick", seed: int = 0, say: Say | None = None) -> Certificate:
    """Check the cell of ``model`` and ``method``: is it right?

    ``budget`` is quick or full, which has up to four times the replicates. ``say`` is called with a line at every step.
    Raises `ZooError` for names that are not in the zoo, and where the method does not take the model or has no check.

    >>> certificate = certify("gibbs", model="gmm_simple")
    >>> certificate.verdict
    'exact'
    """
    require_cell(model, method)
    require_settings(budget, seed)
    _require_unedited(model, method)
    tell, way, oracle = say or (lambda line: None), WAYS[method], oracle_of(model)
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("parity", partial(timed, partial(parity_check, oracle, seed))),
        ("contracts", partial(_contracts, contracts_check, model, seed)),
        (f"{CONTROL} of the contracts", partial(_contracts, contracts_control, model, seed)),
    ]
    for place, question in enumerate(way.questions):
        own, size = seed + 2 * place, question.sizes[budget]
        checks.append((question.name, partial(timed, partial(question.check, oracle, own + 1, size))))
        if question.control is not None:
            control = partial(question.control, oracle, own + 2, size)
            checks.append((f"{CONTROL} of the {question.name}", partial(timed, control)))
    found = []
    with x64(64):
        for name, check in checks:
            tell(f"{model} {method}: {name}")
            found.append(check())
    _require_unedited(model, method)
    return Certificate(model, method, way.claim, budget, seed, code_of(model, method), versions(), tuple(found))


def _require_unedited(model: str, method: str) -> None:
    """Raise `ZooError` where a file of the cell is another than that which this process runs."""
    if others := edited(_modules(model, method)):
        raise ZooError(
            f"{model} {method}: {others[0]} was edited after this process had begun and runs as before; certify again"
        )


@cache
def _contracts(check: Callable[[Oracle, int], Check], model: str, seed: int) -> Check:
    """The contracts of a model, or their control: once in a process, as they are the same under every method."""
    return timed(partial(check, oracle_of(model), seed))


def require_settings(budget: str, seed: int | str) -> None:
    """Raise `ZooError` for a budget that there is not, or a seed that is no number from 0 to 2³¹ − 1."""
    if budget not in BUDGETS:
        raise ZooError(f"budget={budget!r} is not one of {', '.join(BUDGETS)}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise ZooError(f"seed must be a whole number from 0 to {2**31 - 1}, got {seed!r}")


def oracle_of(model: str) -> Oracle:
    """The naive implementation of a model of the zoo."""
    found: Oracle = getattr(import_module(ORACLES[model]), model)()
    return found


def code_of(model: str, method: str) -> str:
    """Hash of the code of a cell as this process runs it."""
    build = MODELS[model]  # presets of one function differ in what they fix alone
    made = f"{build.func.__module__}.{build.func.__qualname__} {build.args} {sorted(build.keywords.items())}"
    return fingerprint(_modules(model, method), made)


def is_stale(certificate: Certificate) -> bool:
    """Whether a certificate is of other code than this process runs. Of other packages it is not stale, but made again."""
    return certificate.code != code_of(certificate.model, certificate.method)


def is_current(certificate: Certificate) -> bool:
    """Whether a certificate is of the code and the packages that this process runs."""
    return not is_stale(certificate) and certificate.versions == versions()


def _modules(model: str, method: str) -> list[str]:
    """The modules that a cell is of; they import the others."""
    questions = WAYS[method].questions
    methods = {METHODS[name] for name in (method, *(other for question in questions for other in question.beside))}
    modules = [question.module for question in questions]
    view = VIEWS[_algebra(model).latent.kind]  # the module that `predict` asks
    modules += [parity.__name__, contracts.__name__, view]
    return [MODELS[model].func.__module__, ORACLES[model], *modules, *methods]


def cells() -> list[tuple[str, str]]:
    """Every model with every method that there is a check of and that takes the model."""
    return [(model, method) for model in ORACLES for method in WAYS if refusal(model, method) is None]


def require_cell(model: str, method: str) -> None:
    """Raise `ZooError` for a cell that cannot be certified."""
    if model not in ORACLES:
        raise ZooError(f"model={model!r} is not one of {', '.join(ORACLES)}{did_you_mean(model, ORACLES)}")
    if method not in METHODS:
        raise ZooError(f"method={method!r} is not one of {', '.join(METHODS)}{did_you_mean(method, METHODS)}")
    if method not in WAYS:
        raise ZooError(f"there is no check of method={method} yet; certificates are made for {', '.join(WAYS)}")
    if (why := refusal(model, method)) is not None:
        raise ZooError(f"{model} has no certificate of {method}: {why}")


def refusal(model: str, method: str) -> str | None:
    """Why there is no certificate of a method on a model, in words, or None."""
    way = WAYS[method]
    if (why := way.takes.refuses(_algebra(model))) is not None:
        return why
    if way.enumerates and oracle_of(model).enumeration is None:
        return "the certificate lists all assignments of the latents, and these are continuous"
    return None


@cache
def _algebra(model: str) -> Algebra:
    found = built(oracle_of(model)).algebra
    if found is None:
        raise ZooError(f"{model} is a program only; certificates need its algebra")
    return found
