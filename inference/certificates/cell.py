"""All checks of one cell, a model under a method, and its certificate."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from inference.certificates.certificate import Certificate, hash_of, versions
from inference.certificates.checks import (
    assigned,
    calibration,
    contracts,
    kernel_law,
    optimum,
    parity,
    pipeline,
    posterior,
    predictions,
)
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
from inference.certificates.checks.pipeline import pipeline_check
from inference.certificates.checks.posterior import SAMPLERS, posterior_check, posterior_control
from inference.certificates.checks.predictions import Asking, predictions_check, predictions_control
from inference.certificates.fingerprint import edited, fingerprint
from inference.certificates.oracles import ORACLES, oracle_of
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
    control: Callable[[Oracle, int, int], Check] | None  # None: the check itself says whether it would notice a fault
    sizes: Mapping[str, int]  # by budget; a budget without one does not ask
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
    sizes = {"quick": quick, "full": full}
    return Question("predictions", check, control, sizes, predictions.__name__)


TABLES = {"gibbs": 300, "tempered_gibbs": 300, "collapsed_gibbs": 200, "nuts": 200}  # a fit of the last two may take seconds


def _of_pipeline(method: str) -> Question:
    """The draws of `fit` of many tables. It takes minutes, and is left to the full budget."""
    return Question("pipeline", partial(pipeline_check, method), None, {"full": TABLES[method]}, pipeline.__name__)


def _of_kernel(method: str, kernel: KernelOf) -> Way:
    check, control = partial(law_check, kernel), partial(law_control, kernel)
    law = Question("kernel law", check, control, {"quick": 2_500, "full": 10_000}, kernel_law.__name__)
    return Way("exact", kernel.takes, (law, _of_fits(method), _of_results(method, True, **DRAWS), _of_pipeline(method)))


def _of_optimiser(method: str, takes: Takes) -> Way:
    check, control = partial(optimum_check, method), partial(optimum_control, method)
    best = Question("optimum", check, control, {"quick": 3, "full": 10}, optimum.__name__, beside=tuple(OPTIMISERS))
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
PRECISION = 64
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


class Asked(NamedTuple):
    """A check of one cell: its name, how to run it, and the hash of the code that decides its figures.

    The hash leaves out what `asked_of` itself decides: the order of the checks, and the seeds that it makes of the cell's.
    """

    name: str
    run: Callable[[], Check]
    code: str


def certify(
    method: str,
    model: str = "gmm",
    budget: str = "quick",
    seed: int = 0,
    say: Say | None = None,
    before: Certificate | None = None,
) -> Certificate:
    """Check the cell of ``model`` and ``method``: is it right?

    ``budget`` is quick or full, which has up to four times the replicates, and runs samplers over many tables (the pipeline).
    ``say`` is called with a line at every step. Checks that a certificate ``before`` has of the same code, packages, seed and
    budget are taken from it if they passed.
    Raises `ZooError` for names that are not in the zoo, and where the method does not take the model or has no check.

    >>> certificate = certify("gibbs", model="gmm_simple")
    >>> certificate.verdict
    'exact'
    """
    require_cell(model, method)
    require_settings(budget, seed)
    _require_unedited(model, method)
    tell, known = say or (lambda line: None), {} if before is None else _known(before, budget, seed)
    found = []
    with x64(PRECISION):
        for asked in asked_of(model, method, budget, seed):
            check = known.get((asked.name, asked.code))
            if check is None:
                tell(f"{model} {method}: {asked.name}")
                check = asked.run()._replace(code=asked.code)
            found.append(check)
    _require_unedited(model, method)
    return Certificate(model, method, WAYS[method].claim, budget, seed, versions(), tuple(found))


def _known(before: Certificate, budget: str, seed: int) -> dict[tuple[str, str], Check]:
    """The checks of a certificate that may be taken again, by name and code."""
    if (before.budget, before.seed, before.versions) != (budget, seed, versions()):
        return {}
    return {(check.name, check.code): check for check in before.checks if check.passed}


def asked_of(model: str, method: str, budget: str, seed: int) -> list[Asked]:
    """All checks of a cell as this process runs it, in their order."""
    oracle, way = oracle_of(model), WAYS[method]
    shared = _code(model, [parity.__name__], ""), _code(model, [contracts.__name__], "")
    found = [
        Asked("parity", partial(timed, partial(parity_check, oracle, seed)), shared[0]),
        Asked("contracts", partial(_contracts, contracts_check, model, seed), shared[1]),
        Asked(f"{CONTROL} of the contracts", partial(_contracts, contracts_control, model, seed), shared[1]),
    ]
    for place, question in enumerate(way.questions):
        if budget not in question.sizes:
            continue
        own, size, code = seed + 2 * place, question.sizes[budget], _code_of_question(model, method, place)
        found.append(Asked(question.name, partial(timed, partial(question.check, oracle, own + 1, size)), code))
        if question.control is not None:
            control = partial(timed, partial(question.control, oracle, own + 2, size))
            found.append(Asked(f"{CONTROL} of the {question.name}", control, code))
    return found


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


def is_stale(certificate: Certificate) -> bool:
    """Whether a check of a certificate is of other code than this process runs or is not asked any more, or one is missing.

    So is one that claims what its method does not claim any more. Of other packages it is not stale, but made again.
    """
    asked = asked_of(certificate.model, certificate.method, certificate.budget, certificate.seed)
    same = [(check.name, check.code) for check in certificate.checks] == [(each.name, each.code) for each in asked]
    return not same or certificate.claim != WAYS[certificate.method].claim


def is_current(certificate: Certificate) -> bool:
    """Whether a certificate is of the code and the packages that this process runs."""
    return not is_stale(certificate) and certificate.versions == versions()


def code_of(model: str, method: str) -> str:
    """Hash of the code of all checks of a cell, those of the full budget, as this process runs it."""
    return hash_of([asked.code for asked in asked_of(model, method, "full", 0)])


def _code_of_question(model: str, method: str, place: int) -> str:
    """Hash of the code of a check, with what `WAYS` says of it, and its place, by which its seed goes."""
    question = WAYS[method].questions[place]
    methods = [METHODS[name] for name in (method, *question.beside)]
    said = [question.name, place, question.check, question.control, sorted(question.sizes.items())]
    return _code(model, [question.module, *methods], in_words(said))


def in_words(said: Any) -> str:
    """A setting in words that are the same in every process: functions by name, with the arguments that are fixed.

    >>> in_words([partial(max, 0), {"b", "a"}, None])
    "[builtins.max(0), ['a', 'b'], None]"
    """
    if isinstance(said, partial):
        return f"{in_words(said.func)}({', '.join(map(in_words, said.args))})"
    if isinstance(said, set | frozenset):
        return repr(sorted(said))
    if isinstance(said, tuple | list):
        return f"{'' if type(said) is list else type(said).__name__}[{', '.join(map(in_words, said))}]"
    return f"{said.__module__}.{said.__qualname__}" if callable(said) else repr(said)


def _code(model: str, modules: Sequence[str], settings: str) -> str:
    """Hash of the code of a model, its oracle, what `predict` asks, and ``modules``, with ``settings`` in words."""
    build = MODELS[model]  # presets of one function differ in what they fix alone
    made = f"{build.func.__module__}.{build.func.__qualname__} {build.args} {sorted(build.keywords.items())}"
    return fingerprint([*_modules_of_model(model), *modules], f"{made} {settings} {PRECISION}")


def _modules_of_model(model: str) -> list[str]:
    view = VIEWS[_algebra(model).latent.kind]  # the module that `predict` asks
    return [MODELS[model].func.__module__, ORACLES[model], view]


def _modules(model: str, method: str) -> list[str]:
    """The modules that a cell is of; they import the others."""
    questions = WAYS[method].questions
    methods = {METHODS[name] for name in (method, *(other for question in questions for other in question.beside))}
    checks = [parity.__name__, contracts.__name__, *(question.module for question in questions)]
    return [*_modules_of_model(model), *checks, *methods]


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
