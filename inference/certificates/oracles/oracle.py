"""The second implementation of a model for certificates: a simulator, its density and statistics, in NumPy and SciPy.

An oracle is written from the generative program in the docstring of the model's file, not from its code: it imports no
formula of `models`. Arrays have the leading axis of R replicates: independent draws of parameters, each with a table.
"""

from collections.abc import Callable, Mapping
from itertools import combinations, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from inference.certificates.oracles.answers import Answers
from inference.certificates.oracles.contracts import Contracts
from inference.certificates.oracles.posterior import Enumeration, Posterior
from models.data.table import Data

Sites = Mapping[str, np.ndarray]  # NumPyro site name -> (R, …)
Tables = Mapping[str, np.ndarray]  # the data of R tables: name -> (R, N, …)
Statistics = dict[str, np.ndarray]  # name -> (R,)
HIDDEN = -1  # code of a label that is missing
FEW = 8  # rows of which all pairs are compared; of more, neighbours alone


class Mutant(NamedTuple):
    """A prior that is wrong on purpose: a certificate means something only if its checks reject this one."""

    what: str  # in words
    options: Mapping[str, Any]  # of build


def ten_percent(name: str, value: float, options: Callable[[float], Mapping[str, Any]], where: str = "") -> Mutant:
    """A number of the prior 1.1 times as large, in words and as options; ``where`` ends the words."""
    wrong = 1.1 * value
    return Mutant(f"{name} {wrong:.2g} for {value:.2g}{where}", options(wrong))


Answer = Callable[[Sites, Tables, bool], Answers]


class Slip(NamedTuple):
    """A formula for rows that is wrong on purpose, most of them as a document prints it (`docs/errata.md`)."""

    what: str  # in words
    answers: Answer


class Oracle(NamedTuple):
    """One model with numbers for its prior, on small tables."""

    model: str  # name in `models.MODELS`
    options: Mapping[str, Any]  # of build, with every number of the prior
    draw_parameters: Callable[[np.random.Generator, int], dict[str, np.ndarray]]  # (generator, R) -> sites from the prior
    draw_tables: Callable[[np.random.Generator, Sites], dict[str, np.ndarray]]  # (generator, sites) -> tables from the model
    table: Callable[[Tables, int], Data]  # one of R tables as the zoo reads it
    log_prior: Callable[[Sites], np.ndarray]  # (R,): log p(θ) in the coordinates of the sites
    log_likelihood: Callable[[Sites, Tables], np.ndarray]  # (R,): log p(x | θ), latents summed out
    functions: Callable[[Sites, Tables], Statistics]  # of parameters and table, that do not depend on labels of components
    mutant: Mutant
    # (sites (S, …), one table, whether its labels are known) -> the predictions of every row at every draw
    answers: Answer
    contracts: Contracts
    slips: tuple[Slip, ...]  # of `answers`, that a certificate must reject
    posterior: Callable[[np.random.Generator, Tables, int], Posterior]  # (generator, one table, S) -> S draws given it
    far: Callable[[Tables], dict[str, np.ndarray]] | None = None  # a table -> the same with a row 4 standard deviations out
    enumeration: Enumeration | None = None  # of the latents, where they are assignments
    simplices: tuple[str, ...] = ()  # sites that sum to 1 along the last axis
    symmetric: tuple[str, ...] = ()  # sites of symmetric matrices
    signs: tuple[str, ...] = ()  # sites whose columns may change their sign together, as loadings of a factor
    # The latents of the rows, for samplers that draw them: their entry in drawn tables. None: none
    latent: str | None = None
    # The place (R, N, …) of every entry of the latents among those that the zoo's model has, where it sorts them within a row
    sorted_places: Callable[[Tables], np.ndarray] | None = None
    # The factors of p(x, z | θ), each by its name, as logs (R,): an error in one of them must not hide behind the others
    complete: Callable[[Sites, Tables], Statistics] | None = None
    # The parameters that one latent points at: noise that two blocks of a kernel share shows there, where sums over all latents
    # hide it
    pointed: Callable[[Sites, Tables], Statistics] | None = None
    # `draw_tables` where nothing is enumerated, if those tables are too small to show an error in the latents
    draw_larger_tables: Callable[[np.random.Generator, Sites], dict[str, np.ndarray]] | None = None
    # A few shapes of tables, where shapes differ: the lengths of the rows of each, in any order. In drawn tables they are
    # `length`. The check that runs `fit` on many tables takes these alone, as every shape is compiled by itself
    strata: tuple[tuple[int, ...], ...] = ()
    known: Mapping[str, np.ndarray] = MappingProxyType({})  # arrays that all tables share, which users' kernels need
    variant: str = ""  # name of the variant of the model (`inference.certificates.oracles.VARIANTS`), if it is one

    @property
    def name(self) -> str:
        """What it is certified as: the model, or its variant."""
        return self.variant or self.model

    def log_complete(self, sites: Sites, tables: Tables) -> np.ndarray:
        """(R,): log p(x, z | θ), the sum of `complete`; of oracles with latents alone."""
        assert self.complete is not None
        total_density: np.ndarray = np.sum(list(self.complete(sites, tables).values()), axis=0)
        return total_density

    def statistics(self, sites: Sites, tables: Tables) -> Statistics:
        """The statistics that compare laws of (θ, x): `functions`, the log-likelihood, and summaries of every site."""
        statistics_of = {"log likelihood": self.log_likelihood(sites, tables)} | self.functions(sites, tables)
        for name, value in sites.items():
            statistics_of |= site_statistics(name, value, name in self.simplices)
        return statistics_of

    def invariants(self, sites: Sites, tables: Tables) -> Statistics:
        """`statistics` without those that a free sign changes: a result has one sign, and the posterior has both."""
        signed = {f"{what} {name}" for name in self.signs for what in ("largest", "mean of")}
        return {name: value for name, value in self.statistics(sites, tables).items() if name not in signed}


def site_statistics(name: str, value: np.ndarray, is_simplex: bool) -> Statistics:
    """Mean, mean square and largest entry of a site (R, …): none depends on the order of components.

    The mean of probabilities is a constant; their product is in its place.
    """
    entries = value.reshape(len(value), -1)
    if entries.shape[1] == 1:
        return {name: entries[:, 0]}
    summaries = {f"largest {name}": entries.max(1), f"mean square of {name}": (entries**2).mean(1)}
    if is_simplex and entries.shape[1] == 2:  # one number decides all summaries
        return {f"largest {name}": entries.max(1)}
    if is_simplex:
        return summaries | {f"log product of {name}": np.log(np.maximum(entries, 1e-300)).sum(1)}
    return summaries | {f"mean of {name}": entries.mean(1)}


def pointed_at(latent: str, place: int, axes: Mapping[str, int]) -> Callable[[Sites, Tables], Statistics]:
    """Statistics of the parameters that one entry of a discrete latent points at: the first of their entries minus the last.

    ``place`` is the entry among those of all rows. ``axes`` names the sites, with the axis that runs over the latent's values.
    """

    def statistics_of(sites: Sites, tables: Tables) -> Statistics:
        code = tables[latent].reshape(len(tables[latent]), -1)[:, place]
        statistics = {}
        for name, axis in axes.items():
            entry = np.moveaxis(sites[name], axis, 1)[np.arange(len(code)), code].reshape(len(code), -1)
            statistics[f"{name} at {latent} {place}"] = entry[:, 0] if entry.shape[1] == 1 else entry[:, 0] - entry[:, -1]
        return statistics

    return statistics_of


def drawn_rows(tables: Tables) -> list[int]:
    """The rows whose latents are drawn: those without a label."""
    number = next(iter(tables.values())).shape[1]
    label = tables.get("label", np.full((1, number), HIDDEN))
    return np.flatnonzero((label == HIDDEN).all(0)).tolist()


def pairs_of_rows(latent: str, tables: Tables) -> Statistics:
    """Whether (R,) the latents of two rows are alike: rows that share random numbers, or have opposite ones, show there.

    All pairs of rows that are drawn, or neighbours where there are more than `FEW`. Of discrete latents, whether they are
    equal; where a row has several, the share of equal ones among all pairs of one of either row, and within a row. Of real
    ones their product, which a change of all signs leaves alone.
    """
    values, rows = tables[latent], drawn_rows(tables)
    pairs = list(combinations(rows, 2) if len(rows) <= FEW else pairwise(rows))
    if values.dtype.kind not in "iu":
        flat = values.reshape(*values.shape[:2], -1)
        return {f"{latent} {one} × {other}": (flat[:, one] * flat[:, other]).sum(-1) for one, other in pairs}
    if values.ndim == 2:
        return {f"{latent} {one} = {other}": values[:, one] == values[:, other] for one, other in pairs}
    count = _counts(values, tables)
    size = count.sum(-1)
    counts_of = {f"{latent} {one} = {other}": (count[:, one] * count[:, other]).sum(-1) for one, other in pairs}
    number = {f"{latent} {one} = {other}": size[:, one] * size[:, other] for one, other in pairs}
    counts_of |= {f"{latent} {row} = {row}": (count[:, row] * (count[:, row] - 1)).sum(-1) for row in rows}
    number |= {f"{latent} {row} = {row}": size[:, row] * (size[:, row] - 1) for row in rows}
    return {name: value / np.maximum(number[name], 1) for name, value in counts_of.items()}


def _counts(codes: np.ndarray, tables: Tables) -> np.ndarray:
    """(R, N, K): how often each value is among the latents (R, N, T) of a row, without those after the end of a sequence."""
    length = tables.get("length", np.full(codes.shape[:2], codes.shape[2]))
    there = np.arange(codes.shape[2]) < length[..., None]
    return np.stack([((codes == value) & there).sum(-1) for value in range(int(codes.max()) + 1)], axis=-1)
