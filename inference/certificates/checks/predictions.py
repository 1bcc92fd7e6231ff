"""Are predictions of rows right? Against weighted averages of naive formulas at the draws that the result stores.

`fit` runs on a small table. Its group `latent` is compared with the average over all its draws. `predict` is run on the fitted
rows, which weight all draws alike. It is also run on another table, whose rows weight draws by their density; where
columns are numbers, one row is 4 standard deviations out. For that the result is cut to `FEW` draws, so that a wrong weight
shows. A point is one draw. For any draws, the averages are exact: only rounding remains.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from inference.certificates.checks.cases import built, small_table
from inference.certificates.checks.figure import Check, Figure, answer, control, worst
from inference.certificates.oracles.answers import Answers, averages, best_paths
from inference.certificates.oracles.oracle import Answer, Oracle, Tables
from inference.fitting.fit import fit
from inference.predictions.predict import predict
from inference.results.draws import draws_of
from models.data.table import Data

CHAINS = 4
FEW = 5  # draws of each chain that predictions are averaged over
BLOCK = 2_000  # draws whose answers are held at a time
SAME = 1e-9  # of 1 plus its size: averages of a few numbers up to 1e3 at draws that both sides read from the result
STORED = 1e-6  # the group `latent` is stored in single precision


class Asking(NamedTuple):
    """A method whose predictions are checked, and the options of `fit` in addition to the number of draws."""

    method: str
    draws: bool  # whether it has draws; else a point


class Result:
    """A fit of a table that the oracle draws, with another table of new rows."""

    def __init__(self, asking: Asking, oracle: Oracle, seed: int, draws: int) -> None:
        self.oracle, self.model = oracle, built(oracle)
        self.table = small_table(oracle, seed)
        other = small_table(oracle, seed + 1)
        self.other: Tables = other if oracle.far is None else oracle.far(other)
        self.tree = self.fitted_tree(asking, seed, draws)
        self.few = thinned_result(self.tree, draws // FEW) if asking.draws else self.tree
        self.answered = {name: self._predicted(name) for name in self._rows_by_name(asking.draws)}

    def fitted_tree(self, asking: Asking, seed: int, draws: int) -> xr.DataTree:
        """Draws; or a point after one step from parameters of the prior, because a mode may have all components alike."""
        options: dict[str, Any] = {"num_samples": draws, "num_chains": CHAINS}
        if not asking.draws:
            begin = self.oracle.draw_parameters(np.random.default_rng(seed), 1)
            options = {"start": {name: value[0] for name, value in begin.items()}, "max_iter": 1}
        return fit(self.model, self.oracle.table(self.table, 0), asking.method, seed=seed, **options)

    def _rows_by_name(self, draws: bool) -> dict[str, Tables]:
        """Rows by name. Without a density of new rows in closed form, only the fitted ones are compared, and only at draws."""
        sites = draws_of(self.model, self.few)
        closed = self.oracle.answers(sites, self.table, False).log_density is not None
        return ({"fitted": self.table} if closed or draws else {}) | ({"new": self.other} if closed else {})

    def rows_of(self, name: str) -> Tables:
        return self.table if name == "fitted" else self.other

    def _predicted(self, name: str) -> xr.Dataset:
        return predict(self.model, self.few, self.oracle.table(self.rows_of(name), 0), num_draws=CHAINS * FEW)

    def figures(self, answer: Answer) -> tuple[Figure, ...]:
        """How far the result is from averages of ``answer``."""
        figures = [self._latent(answer)]
        sites = draws_of(self.model, self.few)
        for name, prediction in self.answered.items():
            table = self.rows_of(name)
            answers = answer(sites, table, False)
            fitted = name == "fitted" and "posterior" in self.few
            off = compared(prediction, answers, fitted, self.oracle.table(table, 0))
            figures += [Figure(f"{what} of {name} rows", value, SAME, "relative") for what, value in off.items()]
        return tuple(figures)

    def _latent(self, answer: Answer) -> Figure:
        """The group `latent` compared with the mean over all draws."""
        sites = draws_of(self.model, self.tree)
        number = len(next(iter(sites.values())))
        total, undefined = np.zeros(()), False
        for first in range(0, number, BLOCK):
            some = {name: value[first : first + BLOCK] for name, value in sites.items()}
            answers = answer(some, self.table, True)
            size = len(next(iter(some.values())))
            undefined = answers.reported in answers.undefined
            total = total + size / number * averages(answers, True)[answers.reported]
        reported = self.tree["latent"].to_dataset()[self.model.naming.reports].values
        return Figure("group latent", distance(reported, total, undefined), STORED, "relative")


def thinned_result(tree: xr.DataTree, step: int) -> xr.DataTree:
    """A result with every ``step``-th draw alone."""
    result = tree.copy()
    result["posterior"] = xr.DataTree(tree["posterior"].to_dataset().isel(draw=slice(None, None, step)))
    return result


def compared(prediction: xr.Dataset, answers: Answers, fitted: bool, data: Data) -> dict[str, float]:
    """The distance of every variable of a prediction from the averages over the draws; infinite where one is absent."""
    wanted = {name: value for name, value in averages(answers, fitted).items() if name not in answers.stored}
    absent = [name for name in (*wanted, *_named(answers)) if name not in prediction]
    if absent:
        return dict.fromkeys(absent, np.inf)
    off = {}
    for name, value in wanted.items():
        of_cells = name in answers.cells or name.removesuffix("_mean").removesuffix("_sd") in answers.uncertain_cells
        here = at_cells(prediction, value, data) if of_cells else value
        off[name] = distance(prediction[name].values, here, name in answers.undefined)
    if "probs" in wanted:
        off["assignment"] = shortfall(wanted["probs"], prediction["assignment"].values)
    if answers.paths is not None:
        best, shown = best_paths(answers, fitted, prediction["viterbi"].values)
        off["most probable path"] = distance(shown, best)
        off["probability of the most probable path"] = distance(prediction["viterbi_log_prob"].values, best)
    return off


def _named(answers: Answers) -> tuple[str, ...]:
    """Variables of a prediction in addition to averages: choices by them, and the cells that they are of."""
    chosen = ("assignment",) if "probs" in answers.values else ()
    cells = ("cell_row", "cell_column") if answers.cells or answers.uncertain_cells else ()
    return (*chosen, *cells, *(("viterbi", "viterbi_log_prob") if answers.paths is not None else ()))


def at_cells(prediction: xr.Dataset, wanted: np.ndarray, data: Data) -> np.ndarray:
    """Entries of (N, D, …) at the missing cells that a prediction lists."""
    columns = [data.columns.index(str(name)) for name in prediction["cell_column"].values]
    return wanted[prediction["cell_row"].values, columns]


def shortfall(probs: np.ndarray, chosen: np.ndarray) -> float:
    """By how much the entries that were chosen are less probable than the most probable ones.

    −1 stands for none, and must stand exactly where there are no probabilities; it is infinitely off elsewhere.
    """
    there = chosen >= 0
    if chosen.shape != probs.shape[:-1] or (there == np.isnan(probs).any(-1)).any() or (chosen >= probs.shape[-1]).any():
        return np.inf
    of_chosen = np.take_along_axis(probs, np.maximum(chosen, 0)[..., None], axis=-1)[..., 0]
    return float(np.max((probs.max(-1) - of_chosen)[there], initial=0.0))


def distance(computed: np.ndarray, wanted: np.ndarray, undefined: bool = False) -> float:
    """The largest difference relative to 1 plus the size; infinite where one is infinite or NaN and the other is not the same.

    NaN equals NaN only if ``undefined``, where some entries do not exist; then there must be others.
    """
    if computed.shape != wanted.shape:
        return np.inf
    finite = np.isfinite(wanted)
    same = (computed == wanted) | (undefined & np.isnan(computed) & np.isnan(wanted))
    if not (same | finite).all() or not np.isfinite(computed[finite]).all() or (undefined and wanted.size and not finite.any()):
        return np.inf
    return float(np.max(np.abs(computed[finite] - wanted[finite]) / (1 + np.abs(wanted[finite])), initial=0.0))


def predictions_check(asking: Asking, oracle: Oracle, seed: int, draws: int) -> Check:
    """Whether latents of fitted rows and predictions are averages over the draws."""
    figures = Result(asking, oracle, seed, draws).figures(oracle.answers)
    most = worst(figures)
    off = f"{most.name}: {most.value:.0e} off, {most.limit:.0e} is allowed"
    says = f"{len(figures)} comparisons with averages at the draws; {off}"
    return answer("predictions", says, figures, 0.0)


def predictions_control(asking: Asking, oracle: Oracle, seed: int, draws: int) -> Check:
    """Whether averages of formulas that are wrong, as a document prints them, are rejected: all those of a model.

    A figure that is not finite rejects nothing, because it may have another cause.
    """
    result = Result(asking, oracle, seed, draws)
    outcomes, figures = [], []
    for slip in oracle.slips:
        finite = [figure for figure in result.figures(slip.answers) if np.isfinite(figure.value)]
        most = worst(finite) if finite else Figure("nothing finite", np.nan, 0.0, "relative")
        figures.append(most._replace(name=f"{slip.what}: {most.name}"))
        outcomes.append(f"{slip.what} is {'rejected' if most.rejects else 'NOT rejected'} ({most.name}: {most.value:.1g} off)")
    return control("predictions", "; ".join(outcomes), bool(figures) and all(figure.rejects for figure in figures), figures)
