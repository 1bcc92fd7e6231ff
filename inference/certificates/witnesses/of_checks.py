"""The numbers that each kind of check compares, at a few replicates.

All that the code computes for a check enters: its draws, the kernel or the fit that it runs, both sides of the comparison, and
their figures, with their limits. Random checks have 4 replicates where certificates have thousands. Warm-up
is short, because rounding grows with every adaptive step. Posterior, predictions and calibration of a cell share one fit, as it
is compiled for longer than it runs. docs/certificates.md has the limits of witnesses.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from inference.certificates.checks import assigned, contracts, parity, pipeline
from inference.certificates.checks.calibration import (
    APPROXIMATE,
    DRAWS,
    INTERVAL,
    NARROW,
    ONE_SD,
    rank_deviations,
    replicated_of,
)
from inference.certificates.checks.cases import built, pairs_in_strata, small_table
from inference.certificates.checks.figure import (
    FALSE_ALARM,
    FAR,
    MOST,
    POWER,
    TIMES,
    Deviations,
    Figure,
    large_stage,
    rejection,
    two_stages,
)
from inference.certificates.checks.optimum import GAIN, CheckedOptimum
from inference.certificates.checks.posterior import CHAINS, DENSITIES, TAILS, FitSpec, Pipeline, bounded, deviations_of
from inference.certificates.checks.predictions import FEW, Asking, Result
from inference.certificates.laws.kernel_law import (
    NEVER,
    STILL,
    UNSEEN,
    deviations,
    law_of,
    without_last_rows,
)
from inference.certificates.laws.kernels import KernelOf
from inference.certificates.laws.kernels_on_reals import KERNELS
from inference.certificates.oracles import oracle_of
from inference.certificates.oracles.answers import averages
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.oracle import Oracle, Tables
from inference.certificates.oracles.posterior import Posterior
from inference.certificates.witnesses.witness import Numbers
from inference.engine.sweep import has_temperatures
from inference.evidence.thermodynamic import thermodynamic_evidence
from inference.fitting.fit import fit
from inference.methods import stochastic_em
from inference.methods.method import method_named
from inference.results.draws import draws_of, one_axis
from inference.results.tree import values
from inference.results.triangles import sites_of

REPLICATES = 4
STEPS = 4  # of `stochastic_em`
WARMUP = 4
ITERATIONS = 2
OVERDISPERSED = {"starts": "overdispersed"}
# Younger than certificates, which they leave as they are: with these defaults runs what ran before, and `n_steps` has what the
# statistics say
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "map": {"optimizer": "lbfgs", "learning_rate": 0.1},
    "nuts": {"backend": "numpyro", **OVERDISPERSED},
    "chees": OVERDISPERSED,
    "mclmc": OVERDISPERSED,
}
LATER_STATISTICS = ("tree_depth", "reached_max_treedepth")
ATTRIBUTES = ("log_evidence", "log_evidence_laplace", "log_evidence_importance", "elbo", "pareto_k")  # of a result
REFERENCE = 50  # draws of the oracle
# Of thermodynamic integration
LADDER: dict[str, Any] = {"num_temperatures": 4, "num_sweeps": 4, "num_chains": 4, "reference": 0.0}

NumbersOf = Callable[[Oracle, int], Numbers]  # (oracle, seed of the check)


def of_parity(oracle: Oracle, seed: int) -> Numbers:
    """Log densities of program, algebra and oracle."""
    wanted, densities = parity.compared(oracle, seed, REPLICATES)
    return {"oracle": wanted} | densities


def of_contracts(oracle: Oracle, seed: int) -> Numbers:
    """Densities of a table and the parameters after a step of EM, and which contracts hold."""
    case = contracts.Contracted(oracle, seed)
    weighted = case.weighted() if oracle.contracts.weighted else case.values
    return {
        "log joint": np.concatenate([case.values.joint, weighted.joint]),
        "rows": np.concatenate([case.values.rows, weighted.rows]),
        "after a step": _flat([*case.values.after.values(), *weighted.after.values()]),
        "verdicts": judgements_of([*case.figures(), *case.wrong()]),
    }


def of_law(kernel: KernelOf, oracle: Oracle, seed: int) -> Numbers:
    """Parameters and latents after the steps of a kernel, shares that stood still, and deviations and names of statistics."""
    law = law_of(oracle, built(oracle), kernel, REPLICATES)
    pairs = law.pairs(seed, 1)
    still, of_statistics = law.still_figures(), deviations(pairs.before, pairs.after)
    return {
        **pairs.moved,
        "unchanged": _flat([[figure.value for figure in still], judgements_of(still)]),
        "statistics": _flat([*pairs.before.values(), *pairs.after.values()]),
        "deviations": list(of_statistics.values()),
        "names": [_number(name) for name in (*of_statistics, *(figure.name for figure in still))],
        "rules": rules(STILL, NEVER),
    }


class ShortResult(Result):
    """A fit for all witnesses of a cell: of few draws after a short warm-up, or a point after few steps.

    An approximation has one start. Of several, two may end at modes that differ by labels alone, and rounding chooses.
    """

    def fitted_tree(self, asking: Asking, seed: int, draws: int) -> xr.DataTree:
        options: dict[str, Any] = {"num_samples": draws, "num_chains": CHAINS} if asking.draws else {"max_iter": ITERATIONS}
        if asking.method in KERNELS:
            options["num_warmup"] = WARMUP
        if asking.method in APPROXIMATE:
            options["num_starts"] = 1
        return fit(self.model, self.oracle.table(self.table, 0), asking.method, seed=seed, **options)


@cache
def short_result(asking: Asking, model: str) -> ShortResult:
    """The result of a method on one table of a model."""
    return ShortResult(asking, oracle_of(model), 0, FEW)


def of_posterior(sampler: FitSpec, oracle: Oracle, seed: int) -> Numbers:
    """Draws of a fit, their densities in the result, the oracle's draws, and the deviations of all statistics."""
    result = short_result(Asking(sampler.method, True), oracle.name)
    drawn, table = one_axis(sites_of(result.tree, "posterior")), result.table
    wanted = _reference(oracle, table, seed)
    reference = oracle.invariants(wanted.sites, repeated(table, REFERENCE))
    statistics = oracle.invariants({name: drawn[name] for name in wanted.sites}, repeated(table, CHAINS * FEW))
    pairs = {name: bounded(name, reference[name], wanted.weights, statistics[name].reshape(CHAINS, FEW)) for name in reference}
    judge = Pipeline(sampler, oracle, seed, FEW)
    judge.table = table
    reported = {name: values(result.tree, "functionals", name).reshape(-1) for name in ("log_joint", "log_likelihood")}
    judge.compare_densities(drawn, reported)
    judge.compare_evidence(wanted, result.tree.attrs)
    for pair in pairs.values():
        judge.keep_sizes(pair, wanted)
    return {
        **drawn,
        "densities": _flat(reported.values()),
        "oracle": _flat([*reference.values(), wanted.weights, [wanted.log_evidence, wanted.error]]),
        "deviations": _flat(list(deviations_of(pair, wanted.weights).values()) for pair in pairs.values()),
        "verdicts": judgements_of(list(judge.worst.values())),
        "rules": rules(DENSITIES, *TAILS, *_options(sampler.method)),
        "log evidence": [*_evidence_in(result.tree), *_integrated(sampler, result, seed)],
    }


def _reference(oracle: Oracle, table: Tables, seed: int) -> Posterior:
    """Draws of the oracle where it lists the latents, else of the prior: an optimiser's rounding differs between processors."""
    rng = np.random.default_rng(seed)
    if oracle.enumeration is not None:
        return oracle.posterior(rng, table, REFERENCE)
    return Posterior(oracle.draw_parameters(rng, REFERENCE), np.full(REFERENCE, 1 / REFERENCE), 0.0, 1.0)


def _evidence_in(tree: xr.DataTree) -> list[float]:
    """The evidence of a result, or its estimate with the error; NaN where there is none."""
    estimate = [float(tree.attrs[name]) for name in ("log_evidence_smc", "log_evidence_smc_se") if name in tree.attrs]
    return estimate or [float(tree.attrs.get("log_evidence", np.nan))]


def _integrated(sampler: FitSpec, result: ShortResult, seed: int) -> list[float]:
    assert result.model.algebra is not None
    if not sampler.integrates or not has_temperatures(result.model.algebra):
        return []
    estimate = thermodynamic_evidence(result.model, result.oracle.table(result.table, 0), seed=seed, **LADDER)
    return [float(value) for value in estimate]


def of_predictions(asking: Asking, oracle: Oracle, seed: int) -> Numbers:
    """A result and its predictions, predictions by wrong formulas, and which averages are right."""
    result = short_result(asking, oracle.name)
    sites = draws_of(result.model, result.few)
    slips = (
        value
        for slip in oracle.slips
        for name in result.answered
        for value in averages(slip.answers(sites, result.rows_of(name), False), name == "fitted").values()
    )
    return {
        **{f"{name} rows": _flat(_numeric(prediction)) for name, prediction in result.answered.items()},
        "group latent": result.tree["latent"].to_dataset()[result.model.naming.reports].values,
        "options": _options(asking.method),
        "result": _flat(
            [*_numbers_of(result.tree, "functionals"), *_numbers_of(result.tree, "sample_stats"), *_attributes(result.tree)]
        ),
        "verdicts": judgements_of(result.figures(oracle.answers)),
        "slips": _flat(slips),
    }


def _numbers_of(tree: xr.DataTree, group: str) -> list[np.ndarray]:
    if group not in tree.children:
        return []
    dataset = tree[group].to_dataset()
    return _numeric(dataset.drop_vars([name for name in LATER_STATISTICS if name in dataset]))


def _attributes(tree: xr.DataTree) -> list[float]:
    """The evidence and the fit of an approximation, where there are any."""
    return [float(tree.attrs[name]) for name in ATTRIBUTES if name in tree.attrs]


def _numeric(prediction: xr.Dataset) -> list[np.ndarray]:
    return [prediction[name].values for name in sorted(map(str, prediction.data_vars)) if prediction[name].dtype.kind in "biuf"]


def of_pipeline(method: str, oracle: Oracle, seed: int) -> Numbers:
    """Statistics of a table that the pipeline draws, or one of each stratum; of the fit the posterior has the numbers."""
    rng = pipeline.generator(oracle.name, method, seed)
    sites, tables = pairs_in_strata(oracle, rng, max(len(oracle.strata), 1))
    parameters = _flat(oracle.invariants(sites, tables).values())
    values_of = np.arange(12.0).reshape(3, CHAINS)  # of one statistic, at the draws that are ranked
    each = pipeline.ranked_of(np.array([1.5, 1.5, 99.0]), values_of, rng)
    return {"parameters": parameters, "ranks": _flat([*each]), "rules": rules(pipeline.DRAWS, pipeline.POWER)}


def of_calibration(method: str, oracle: Oracle, seed: int) -> Numbers:
    """Statistics of a table at its parameters, and mean, spread and rank among draws given it."""
    result = short_result(Asking(method, True), oracle.name)
    rng = np.random.default_rng(seed)
    drawn = oracle.statistics(one_axis(sites_of(result.tree, "posterior")), repeated(result.table, CHAINS * FEW))
    true = oracle.statistics(oracle.draw_parameters(rng, 1), result.table)
    ranked = {name: replicated_of(true[name], value[None], rng) for name, value in drawn.items()}
    numbers = {field: _flat(getattr(each, field) for each in ranked.values()) for field in ("true", "mean", "spread", "rank")}
    return {
        **numbers,
        "deviations": list(rank_deviations(ranked).values()),
        "rules": rules(DRAWS, INTERVAL, NARROW, ONE_SD, *_options(method)),
    }


def of_optimum(method: str, oracle: Oracle, seed: int) -> Numbers:
    """Statistics of the best point, its density as reported and as the oracle has it, and whether it is a mode.

    Statistics do not depend on labels. Two starts may end at modes that differ by labels alone, and rounding chooses.
    """
    point = CheckedOptimum(oracle, method, seed)
    statistics = _flat(oracle.invariants(point.sites, point.tables).values())
    density = float(point.density(point.sites)[0])
    return {
        "statistics": statistics,
        "densities": [point.reported, density],
        "verdicts": judgements_of(point.figures()),
        "rules": [np.log10(GAIN)],
    }


def of_fixed_point(oracle: Oracle, seed: int) -> Numbers:
    """Statistics of the point, its density as reported, and whether it is a fixed point."""
    table = small_table(oracle, seed)
    sites, reported = assigned.point_of("hard_em", oracle, table, seed, False)
    statistics = _flat(oracle.invariants(sites, table).values())
    return {"statistics": statistics, "density": [reported], "verdicts": judgements_of([assigned.fixed_point(oracle, seed)])}


def of_random_step(oracle: Oracle, seed: int) -> Numbers:
    """Parameters after steps from one point, the law that they have, and whether the reported density is right."""
    density = assigned.density("stochastic_em", oracle, seed)
    return {**assigned_steps(oracle, seed), "verdicts": judgements_of([density]), "rules": rules(-np.log10(assigned.OFTEN))}


def assigned_steps(oracle: Oracle, seed: int) -> Numbers:
    """Steps of `stochastic_em`, and the law that they have."""
    table, latents = small_table(oracle, seed), oracle.enumeration
    assert latents is not None
    start = oracle.draw_parameters(np.random.default_rng(seed), 1)
    keys = jax.random.split(jax.random.PRNGKey(seed), STEPS)
    after = assigned.after_steps(oracle, built(oracle), stochastic_em.FIXED_POINT.updates, table, start, keys)
    z = latents.assignments(table)
    logs = latents.complete(repeated(start, len(z)), table, z)
    return {**after, "assignments": logs, "modes": _flat(latents.mode(table, z).values())}


def of_mutant(oracle: Oracle) -> Numbers:
    """The numbers of the wrong prior: the rest of a control is the check itself."""
    model = built(oracle, mutated=True)
    return {"prior": _flat(jax.tree.leaves((dict(model.hyper), dict(model.prior))))}


def of_law_mutants(oracle: Oracle) -> Numbers:
    """The numbers of the wrong prior, and the table of the mutant that does not see its last row."""
    if oracle.contracts.by_row:
        return of_mutant(oracle)
    rng = np.random.default_rng(0)
    seen = without_last_rows(oracle.draw_tables(rng, oracle.draw_parameters(rng, 1)), UNSEEN)
    return {**of_mutant(oracle), "seen": _flat(seen.values())}


def judgements_of(figures: Sequence[Figure]) -> np.ndarray:
    """Of every figure whether it passes, whether it rejects, and the order of magnitude of its limit."""
    return _flat([figure.passed, figure.rejects, np.log10(max(figure.limit, 1e-300))] for figure in figures)


def rules(*constants: float) -> np.ndarray:
    """The limits of a random check, and the answers of the two-stage rule to deviations just beyond them."""
    beyond = 1.01 * MOST
    seconds = (beyond, -beyond, -FAR * beyond, 0.0)  # deviations at the second look
    figures = [two_stages(partial(_look, beyond, second), 0)[0] for second in seconds]
    alone = large_stage(partial(_look, 0.0, beyond), 0)
    rejections = [rejection("a check", "a mutant", alone, least).passed for least in (MOST, POWER)]
    return _flat([judgements_of([*figures, *alone]), rejections, [MOST, POWER, TIMES, -np.log10(FALSE_ALARM)], constants])


def _look(first: float, second: float, seed: int, times: int) -> Deviations:
    """A deviation at the first and at the second stage."""
    return {"x": first if times == 1 else second}


def _options(method: str) -> list[float]:
    """The defaults of a method's options, each word as a number; without `LATER_OPTIONS` while these are as they were."""
    defaults, later = method_named(method).options._field_defaults.items(), LATER_OPTIONS.get(method, {})
    values = [value for name, value in defaults if name not in later or later[name] != value]
    return [float(value) if isinstance(value, int | float) else 2.0**32 * _number(str(value)) for value in values]


def _number(word: str) -> float:
    """A number from 0 to 1 that stands for a word."""
    return zlib.crc32(word.encode()) / 2**32


def _flat(arrays: Any) -> np.ndarray:
    """All entries of arrays of any shapes as one axis."""
    return np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in arrays] or [np.zeros(0)])
