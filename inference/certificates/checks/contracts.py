"""Does a model depend on how its table is written? Offsets, orders, weights, missing cells, and the number of free parameters.

By a contract two cases are equal; a case is a table with a prior and parameters. Equal are the log joint of program and
algebra, the log-likelihood of every row, and the parameters after one step of EM, which reads all sufficient statistics. The
oracle declares the contracts of a model. The likelihood without a cell is compared with the oracle's, summed or integrated over
the values of the cell.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpyro import infer
from scipy.special import logsumexp

from inference.certificates.checks.cases import small_table
from inference.certificates.checks.figure import Check, Figure, answer, control, worst
from inference.certificates.checks.predictions import distance
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.contracts import Case, Missing
from inference.certificates.oracles.oracle import Oracle, Tables
from inference.engine.evaluate import Static, static_of
from inference.engine.program import num_parameters
from inference.engine.sweep import Updates, rows_weight, sweep, weighted_sum
from inference.fitting.prepare import as_arrays
from inference.identification.symmetry import num_flat
from inference.predictions.predict import log_likelihood
from models import MODELS
from models.algebra import at_mode, log_prior
from models.base import Hyper, Model, Pytree, Sites, Stats
from models.data.table import take

ASIDE = 1e-3  # by which a row is moved too far for the control
OFFSETS = (2.0**13, 2.0**20, 2.0**27)  # about 1e4, 1e6 and 1e8 times the spread of the columns
SAME = 1e-9  # of 1 plus its size, where only the order of sums changes
# A cell moved by c is rounded by ε c / 2, and a row's density changes by precision × distance, a few, of that. Sites after a
# step are moved back before they are compared, so that a mean may be off by a few ε c and no more. A computation that squares
# numbers before it centres them is off by ε c², which for the largest offset is 8e6 times the limit.
ROUNDING = 16 * float(np.finfo(float).eps)
UPDATES = Updates(at_mode, "mean")


class CaseValues(NamedTuple):
    """The quantities that are equal in equal cases."""

    joint: np.ndarray  # (2,): log p(x, θ) of the program and of the algebra
    rows: np.ndarray  # (N,): log p(x_n | θ)
    after: Mapping[str, np.ndarray]  # sites after a step of EM


def values_of_case(oracle: Oracle, case: Case) -> CaseValues:
    """All compared quantities of one case."""
    model = MODELS[oracle.model](case.data, **case.options)
    hyper, prior, rows, sites = as_arrays((dict(model.hyper), dict(model.prior), model.rows(case.data), dict(case.sites)))
    joint, after = _step(static_of(model), hyper, prior, rows, sites)
    return CaseValues(
        np.asarray(joint), log_likelihood(model, sites, case.data), {name: np.asarray(site) for name, site in after.items()}
    )


@partial(jax.jit, static_argnames=("static",))
def _step(static: Static, hyper: Hyper, prior: Mapping[str, Stats], rows: Pytree, sites: Sites) -> tuple[Array, Any]:
    """Log joint of program and algebra, and the sites after a step."""
    algebra = static.algebra
    assert algebra is not None
    T = algebra.natural(hyper, sites)
    local = algebra.local_natural_parameters(T)(algebra.features(hyper, rows))
    likelihood = weighted_sum(rows_weight(rows), algebra.latent.log_partition(local))
    program = infer.util.log_density(static.spec, (hyper, rows), {"marginal": True}, sites)[0]
    after = sweep(algebra, UPDATES, hyper, prior, jax.random.PRNGKey(0), T, rows)[0]
    return jax.numpy.stack([program, log_prior(algebra, prior, T) + likelihood]), algebra.sites(hyper, after)


class Contracted:
    """One case of a model, and how far equal cases are from it."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self.oracle, self.contracts = oracle, oracle.contracts
        self.table: Tables = small_table(oracle, seed)
        sites = oracle.draw_parameters(np.random.default_rng(seed), 1)
        self.case = Case(oracle.options, oracle.table(self.table, 0), {name: value[0] for name, value in sites.items()})
        self.values = values_of_case(oracle, self.case)
        data = self.case.data
        self.starts = np.arange(data.num_rows + 1) if data.starts is None else data.starts
        self.size = len(self.starts) - 1  # rows, or sequences

    def figures(self) -> tuple[Figure, ...]:
        """All contracts of the model."""
        return (
            self.parameters(self.contracts.free),
            *self.offsets(),
            self.columns(),
            self.rows(),
            *self.weights(),
            *self.cells(),
        )

    def wrong(self) -> tuple[Figure, ...]:
        """Cases that are not equal, one of every kind: each has the values of a model that breaks the contract."""
        prior = self._against(self.oracle.mutant.what, lambda case: case._replace(options=self.oracle.mutant.options), SAME)
        backwards = off(values_of_case(self.oracle, self._turned(self.case)), self.values, self.values.after)
        cases = [prior, Figure("rows in reverse order, compared in the old order", backwards, SAME, "relative")]
        if self.contracts.offset is not None:
            cases.append(self._nearly_moved(OFFSETS[-1]))
        if not self.contracts.named:
            cases.append(
                self._against("columns in another order, parameters and prior in the old one", self._table_alone, SAME)
            )
        if self.contracts.weighted:
            ignored = off(self.weighted(), self.values, self.values.after)
            cases.append(Figure("weights ignored", ignored, SAME, "relative"))
        return (*cases, *(self._cell(cell, " read as 0", 0.0) for cell in self.contracts.missing))

    def _nearly_moved(self, size: float) -> Figure:
        """One row is `ASIDE` from where the offset takes it: that must exceed the rounding of the offset."""
        assert self.contracts.offset is not None
        moved = self.contracts.offset(self.case, size)
        x = moved.data.x.copy()
        x[0, x[0] != self.case.data.x[0]] += ASIDE
        return self._moved_back(f"a row moved by {ASIDE}", moved._replace(data=moved.data._replace(x=x)), size)

    def _table_alone(self, case: Case) -> Case:
        return case._replace(data=self.contracts.order(case).data)

    def parameters(self, wanted: int) -> Figure:
        model: Model = MODELS[self.oracle.model](self.case.data, **self.case.options)
        free = num_parameters(model.spec, dict(model.hyper), model.rows(self.case.data)) - num_flat(model)
        return Figure("number of free parameters", float(abs(free - wanted)), 0.0, "count")

    def offsets(self) -> list[Figure]:
        offset = self.contracts.offset
        if offset is None:
            return []

        return [self._moved_back(f"offset of {size:.0e}", offset(self.case, size), size) for size in OFFSETS]

    def _moved_back(self, name: str, moved: Case, size: float) -> Figure:
        """How far a case that was moved is from this one, its sites after a step moved back."""
        assert self.contracts.offset is not None
        moved_values = values_of_case(self.oracle, moved)
        back = self.contracts.offset(moved._replace(sites=moved_values.after), -size).sites
        value = off(moved_values._replace(after=back), self.values, self.values.after)
        return Figure(name, value, SAME + ROUNDING * size, "relative")

    def columns(self) -> Figure:
        return self._against("columns in another order", self.contracts.order, SAME)

    def rows(self) -> Figure:
        return self._against("rows in another order", self._turned, SAME, np.arange(self.size)[::-1])

    def _turned(self, case: Case) -> Case:
        """The last row first."""
        order = np.arange(self.size)[::-1]
        sites = {name: value[order] if name in self.contracts.by_row else value for name, value in case.sites.items()}
        return Case(case.options, take(case.data, self._lines(order)), sites)

    def _lines(self, order: np.ndarray) -> np.ndarray:
        """The lines of the table with these rows, or sequences."""
        return np.concatenate([np.arange(self.starts[row], self.starts[row + 1]) for row in order])

    def weights(self) -> list[Figure]:
        """Rows with weights 1, 2, 3, 1, … compared with rows repeated as often."""
        if not self.contracts.weighted:
            return []
        often = np.repeat(np.arange(self.size), self._weight())
        data = take(self.case.data, self._lines(often))
        weighted, copied = self.weighted(), values_of_case(self.oracle, self.case._replace(data=data))
        wanted = weighted._replace(rows=weighted.rows[often])
        return [Figure("weights against repeated rows", off(copied, wanted, weighted.after), SAME, "relative")]

    def _weight(self) -> np.ndarray:
        return 1 + np.arange(self.size) % 3

    def weighted(self) -> CaseValues:
        of_lines = np.repeat(self._weight().astype(float), np.diff(self.starts))
        data = self.case.data._replace(weight=of_lines)
        return values_of_case(self.oracle, self.case._replace(data=data))

    def cells(self) -> list[Figure]:
        return [self._cell(cell) for cell in self.contracts.missing]

    def _cell(self, cell: Missing, how: str = "", left: float = np.nan) -> Figure:
        return Figure(f"missing value of column {cell.column}{how}", self._without(cell, left), SAME, "relative")

    def _without(self, cell: Missing, left: float) -> float:
        """Log-likelihood of the table without a cell, compared with the oracle's, summed over all values of the cell.

        ``left`` is the value in the cell: NaN if it is missing.
        """
        number = len(cell.values)
        tables = repeated(self.table, number)
        tables["x"] = tables["x"].copy()
        tables["x"].reshape(number, -1, tables["x"].shape[-1])[:, cell.row, cell.column] = cell.values  # of sequences, steps
        sites = repeated({name: value[None] for name, value in self.case.sites.items()}, number)
        wanted = logsumexp(self.oracle.log_likelihood(sites, tables)) + np.log(cell.step)
        x = self.case.data.x.copy()
        x[cell.row, cell.column] = left
        data = self.case.data._replace(x=x)
        model = MODELS[self.oracle.model](data, **self.case.options)
        return distance(log_likelihood(model, self.case.sites, data).sum(), np.asarray(wanted))

    def _against(self, name: str, change: Any, limit: float, order: np.ndarray | None = None) -> Figure:
        """How far a changed case is from this one; sites after a step change as the sites do."""
        changed = values_of_case(self.oracle, change(self.case))
        rows = self.values.rows if order is None else self.values.rows[order]
        after = change(self.case._replace(sites=self.values.after)).sites
        return Figure(name, off(changed, self.values._replace(rows=rows), after), limit, "relative")


def off(values: CaseValues, wanted: CaseValues, after: Mapping[str, np.ndarray]) -> float:
    """The largest distance between two cases, infinite if one has a number that is none; ``after`` are the wanted sites."""
    pairs = [(values.joint, wanted.joint), (values.rows, wanted.rows), *((values.after[name], after[name]) for name in after)]
    return max(distance(one, other) if np.isfinite(other).all() else np.inf for one, other in pairs)


def contracts_check(oracle: Oracle, seed: int) -> Check:
    """Whether all contracts of the model hold."""
    figures = Contracted(oracle, seed).figures()
    most = worst(figures)
    says = f"{len(figures)} contracts; {most.name}: {most.value:.0e} off, {most.limit:.0e} is allowed"
    return answer("contracts", says, figures, 0.0)


def contracts_control(oracle: Oracle, seed: int) -> Check:
    """Whether cases that differ are rejected: another prior, and a case for every contract that it breaks.

    The count of free parameters is compared with a number, and has no case.
    """
    case = Contracted(oracle, seed)
    figures = case.wrong()
    rejected = all(figure.rejects for figure in figures)
    names = "; ".join(figure.name for figure in figures)
    says = f"{'rejected' if rejected else 'NOT all rejected'}: {names}"
    return control("contracts", says, rejected, figures)
