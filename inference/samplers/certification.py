"""`inference.certify`: is a method of the zoo right, or a user's kernel, or the fit of a user's program?"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpyro import infer

from inference.certificates import cell
from inference.certificates.certificate import Certificate
from inference.certificates.checks.figure import Check, Figure
from inference.certificates.laws.kernel_law import STEPS
from inference.certificates.oracles import ORACLES
from inference.fitting.fit import fit
from inference.fitting.prepare import x64
from inference.methods.user_kernel import MarkovKernel
from inference.programs.arguments import name_of
from inference.results.triangles import sites_of
from inference.samplers.draws import DrawsReport, check_draws
from inference.samplers.kernels import GradientKernel, OwnKernel, Runner, StartableKernel, oracle_at_bench
from inference.samplers.programs.calibration import calibrated
from inference.samplers.report import CALIBRATED, SamplerReport, Settings
from inference.samplers.target import Target, target
from inference.samplers.trial import Say, Trial
from models.base import Model
from models.errors import ZooError, did_you_mean

CHAINS = 4
DEFAULT_MODEL = "gmm"  # the model of a method or a kernel where none is named
NAMING = ("symmetry", "dims", "coords")  # of a program


class Length(NamedTuple):
    """The number of steps of each chain that are dropped, and that are used."""

    num_warmup: int
    num_samples: int


LENGTHS = {"quick": Length(500, 2_000), "full": Length(2_000, 8_000)}  # of chains, by budget
SIZES = {"quick": 2_500, "full": 10_000}  # replicates, by budget


def certify(
    sampler: str | StartableKernel | MarkovKernel | GradientKernel | Callable[..., Any],
    model: str = DEFAULT_MODEL,
    budget: str = "quick",
    seed: int = 0,
    say: Say | None = None,
    *,
    compiled: bool = True,
    steps: int = STEPS,
    require: str | Sequence[str] = (),
    name: str | None = None,
    data: Any = None,
    **of_fit: Any,
) -> Certificate | SamplerReport:
    """Is a method of the zoo right on a model, or a user's kernel, or the fit of a user's program?

    A name of a method gives the `Certificate` that ``python -m inference.certify`` writes. A kernel gives a `SamplerReport`,
    which prints itself: an object with ``start(key, data, sites)`` and ``step(key, state, data) -> (state, sites)``
    (`inference.samplers.kernels.StartableKernel`), or `inference.blackjax_kernel` and `inference.numpyro_kernel`. It must
    sample the posterior of `inference.target(model)`, which has a special prior. ``compiled=False`` is for a kernel in NumPy;
    its ``key`` is a `numpy.random.Generator`. ``steps`` are run from an exact draw of the posterior, 2,500 times
    (``budget="full"``: 10,000 times). Parameters and table must then have the law that they had before (Gandy and Scott 2020).

    A kernel with ``init(key, data)`` in place of ``start`` cannot be started at a draw of the posterior. Four chains of it are
    then compared with draws of a method that has a certificate (`inference.check_draws`). That tests less, and presumes that
    the chains converge.

    Kernels with ``blocks`` are also checked block by block, and those with ``log_conditionals`` by ratios of densities (Grosse
    and Duvenaud 2014). If a check fails, hints name the block, or the number of the prior that would explain it. Notes name
    what was not checked. ``require="path"`` (or several names) makes it an error if the kernel does not return the latents.
    ``name`` is the name of the kernel in report and messages; by default that of its class. ``say=print`` prints a line at
    every step.

    A NumPyro program, with ``data`` and everything else as `inference.fit` takes it (``method="nuts"``, ``symmetry``, further
    data by name), gives a `SamplerReport` on `fit` (simulation-based calibration, Talts et al. 2018). Parameters are drawn from
    the prior of the program, and its observations given them, 120 times (``budget="full"``: 200 times). Everything else in
    ``data`` stays as it is. Among draws of `fit`, the parameters must have uniform ranks. The verdict is ``calibrated``,
    ``fails`` or ``inconclusive``. Data whose names are arguments of `certify`, such as ``name``, go into a tuple:
    ``data=(x, y)``.

    Raises `ZooError` for unknown names, for a program that cannot be simulated (`inference.samplers.programs`), for a kernel
    whose parameters have other names or shapes than the model's sites, or which returns something else than a pair
    (state, sites), and for one that writes into ``data``.

    >>> certify("gibbs", model="gmm_simple").verdict
    'invariant'
    >>> import numpyro
    >>> from numpyro import distributions as dist, infer
    >>> kernel = numpyro_kernel(lambda potential: infer.NUTS(potential_fn=potential, step_size=0.3, max_tree_depth=4))
    >>> certify(kernel, model="gmm_simple").verdict
    'invariant'
    >>> def program(x):
    ...     mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    ...     numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    >>> certify(program, data=np.zeros(3)).verdict
    'calibrated'
    """
    if _is_program(sampler):
        if not isinstance(model, str):
            raise ZooError(
                "the data of a program are given by name, as in certify(program, data=x), and further ones, too: y=y"
            )
        if not compiled or steps != STEPS or require or model != DEFAULT_MODEL:
            raise ZooError("model=, compiled=, steps= and require= are for kernels; a program has data=, as of inference.fit")
        return _certified_program(sampler, data, budget, seed, say, name, of_fit)
    if data is not None or of_fit:
        first = "data" if data is not None else next(iter(of_fit))
        raise ZooError(f"{first}= is for NumPyro programs, and {_described(sampler)} is none")
    if isinstance(sampler, str):
        if not compiled or steps != STEPS or require or name:
            raise ZooError("compiled=, steps=, require= and name= are for kernels of your own, not for methods of the zoo")
        return cell.certify(sampler, model, budget, seed, say)
    _require_kernel(sampler)
    _require_model(model)
    cell.require_settings(budget, seed)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ZooError(f"steps must be a whole number from 1, got {steps!r}")
    tell, called = say or (lambda line: None), name or _name(sampler)
    if not isinstance(sampler, GradientKernel | StartableKernel):
        if require:
            raise ZooError(
                f"require= is for kernels with start(key, data, sites); {called} has init, and its latents are not seen"
            )
        assert isinstance(sampler, MarkovKernel)
        report = check_chains(sampler, target(model), LENGTHS[budget], seed, compiled, tell)
        check = _chains_check(report)
        settings = Settings(budget, seed, None, None)
        return SamplerReport(model, called, (check,), report.hints, (NO_LATENTS, *report.notes), settings, report.verdict)
    runner: Runner = sampler if isinstance(sampler, GradientKernel) else OwnKernel(sampler, compiled, name)
    properties = (require,) if isinstance(require, str) else tuple(require)
    trial = Trial(called, oracle_at_bench(model), runner, SIZES[budget], seed, steps, properties, tell)
    with x64(64):
        checks, hints, notes = trial.checked()
    settings = Settings(budget, seed, trial.replicates, steps)
    return SamplerReport(model, called, tuple(checks), tuple(hints), tuple(notes), settings)


def _is_program(sampler: Any) -> bool:
    """Whether this is a function, or acts as one, and is neither a kernel nor a class of them."""
    known = isinstance(sampler, type | GradientKernel | StartableKernel | MarkovKernel | infer.mcmc.MCMCKernel)
    return callable(sampler) and not known and _library(sampler) != "blackjax"


def _certified_program(
    program: Any, data: Any, budget: str, seed: int, say: Say | None, name: str | None, of_fit: dict[str, Any]
) -> SamplerReport:
    """The report on `fit` of a program; raises `ZooError` where its data are missing."""
    called = name or name_of(program)
    if data is None:
        raise ZooError(
            f"{called} is a function, which is taken for a NumPyro program, and data= is missing: certify({called}, data=…), "
            "with a table as inference.fit takes it; a kernel is an object with start or init, and step"
        )
    cell.require_settings(budget, seed)
    options = {option: value for option, value in of_fit.items() if option not in ("method", *NAMING)}
    naming = {option: value for option, value in of_fit.items() if option in NAMING}
    method = of_fit.get("method", "nuts")
    check, hints, notes = calibrated(program, data, method, options, budget, seed, say or (lambda line: None), **naming)
    settings = Settings(budget, seed, check.size, None)
    return SamplerReport(called, method, (check,), tuple(hints), tuple(notes), settings, CALIBRATED)


NO_LATENTS = "chains are compared by parameters alone, and on one table: start(key, data, sites) in place of init tests more"


def _require_kernel(sampler: Any) -> None:
    """Raise `ZooError` for what is no kernel."""
    if isinstance(sampler, Model):
        raise ZooError(
            f"{sampler.name} is a model: give the name of a method, and of the model, as in certify('nuts', "
            "model='gmm'), or a NumPyro program as the function that it is, with data="
        )
    if isinstance(sampler, type):
        raise ZooError(f"{sampler.__name__} is a class; certify an object of it: {sampler.__name__}(…)")
    if isinstance(sampler, infer.mcmc.MCMCKernel) or _library(sampler) == "blackjax":
        raise ZooError("kernels of NumPyro and blackjax are wrapped: inference.numpyro_kernel(…), inference.blackjax_kernel(…)")
    if not isinstance(sampler, GradientKernel | StartableKernel | MarkovKernel):
        raise ZooError(
            f"a {type(sampler).__name__} is no kernel: it needs start(key, data, sites) -> state, or init(key, data) -> state, "
            "and step(key, state, data) -> (state, sites); inference.blackjax_kernel and inference.numpyro_kernel wrap others"
        )


def _require_model(model: Any) -> None:
    """Raise `ZooError` for what is not the name of a model with an oracle."""
    if isinstance(model, Target | Model):
        name = model.model.name if isinstance(model, Target) else model.name
        raise ZooError(
            f"model= is a name, such as model={name!r}: kernels are certified on tables that are drawn anew. Chains on a table "
            "of your own are compared by inference.check_draws"
        )
    if not isinstance(model, str) or model not in ORACLES:
        near = did_you_mean(model, ORACLES) if isinstance(model, str) else ""
        raise ZooError(f"model={model!r} is not one of {', '.join(ORACLES)}{near}")


def _library(sampler: Any) -> str:
    """The package that the type of a kernel comes from."""
    return type(sampler).__module__.partition(".")[0]


def _described(sampler: Any) -> str:
    return repr(sampler) if isinstance(sampler, str) else f"a {type(sampler).__name__}"


def _name(sampler: Any) -> str:
    return "kernel" if isinstance(sampler, GradientKernel) else type(sampler).__name__


def _chains_check(report: DrawsReport) -> Check:
    """The comparison of chains as a check."""
    rows = report.table["deviation"]
    figures = tuple(
        Figure(f"{what} of {quantity}", float(value), report.limit, "deviation")
        for (quantity, what), value in zip(rows.index, rows, strict=True)
    )
    return Check("chains", report.says, report.passed, figures, None)


def check_chains(
    kernel: MarkovKernel, posterior: Target, length: Length, seed: int, compiled: bool, say: Callable[[str], None]
) -> DrawsReport:
    """Four chains of ``kernel`` on the table of ``posterior``, compared with draws of a method that has a certificate.

    Raises `ZooError` for a kernel that does not return the sites of the model.
    """
    say(f"{CHAINS} chains of {sum(length):,} steps")
    options = {"seed": seed, "num_chains": CHAINS, "compiled": compiled, **length._asdict()}
    tree = fit(posterior.model, posterior.table, kernel, **options)
    draws = sites_of(tree, "posterior" if posterior.model.symmetry is None else "posterior_raw")
    say("reference")
    return check_draws(posterior.model, posterior.table, draws, seed=seed, num_samples=length.num_samples)
