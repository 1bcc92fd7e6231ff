"""Are fits of a program calibrated? Simulation-based calibration (Talts et al. 2018; Cook, Gelman and Rubin 2006).

The program draws parameters θ₀ from its prior, and data given θ₀. `fit` of these data draws from the posterior. Among
independent draws of it, a function of θ₀ and the data has a uniform rank. Ranked are all quantities by which chains are
compared, which no declared symmetry changes, and the log joint and the log likelihood, which depend on the data, too. Without
these, draws from the prior would pass (Modrák et al. 2023). Labels, and discrete latents, are not ranked.

Draws of one chain depend on each other, those of several chains do not. So one draw of each of 8 chains is ranked, as in
`inference.certificates.checks.pipeline`. With 4 chains, half the spread would hardly show over 120 tables.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from inference.certificates.checks.figure import MOST, NEEDED, TIMES, Check, Figure, answer, relative_to_limit, timed
from inference.certificates.checks.pipeline import DRAWS, Ranked, generator, ranks_check
from inference.certificates.oracles.oracle import Statistics
from inference.diagnostics.quantities import quantities_of
from inference.engine.task import Kind, kind_of
from inference.fitting.fit import data_by_name, fit, modelled
from inference.fitting.foreign import as_result
from inference.methods.method import Method, checked_options, method_named
from inference.samplers.programs.simulator import Simulator, simulator_of
from models.base import Pytree
from models.errors import ZooError
from models.rows.encoded import spread

CHAINS = 8
TABLES = {"quick": 120, "full": 200}  # by budget
MOST_QUANTITIES = 100  # quantities that are ranked
SHOWN = 3  # hints
SAME = 1e-12  # relative: a constant varies less over draws of the prior, as the first entry of a Cholesky factor
CHECK = "ranks"
DENSITIES = ("log_joint", "log_likelihood")
SPREAD = ", spread"  # ending of the figures of `rank_deviations` that see the width
STEP = 20  # tables between two lines of progress
OF_FIT = ("num_samples", "num_chains", "start", "folder", "predictive", "progress", "precision", "checkpoint_seconds")


class NotFiniteError(Exception):
    """Draws of `fit` that are NaN or infinite: they have no rank, and more tables would not help."""

    def __init__(self, names: Sequence[str], table: int) -> None:
        super().__init__(names, table)
        self.names, self.table = names, table


class ProgramFits(Ranked):
    """Fits of tables that a program draws, one after the other."""

    chains = CHAINS

    def __init__(
        self, simulator: Simulator, method: str, options: Mapping[str, Any], tables: int, seed: int, say: Callable[[str], None]
    ) -> None:
        super().__init__(tables)
        self.simulator, self.method, self.say = simulator, method, say
        self.seed = int(self.generator(seed).integers(2**31))  # of the tables
        self.options = {**options, "num_chains": CHAINS, "num_samples": DRAWS}
        self.names: tuple[str, ...] = ()  # of the quantities that are ranked, as the tables of the first look have them
        self.left_out = 0  # quantities beyond `MOST_QUANTITIES`
        self.fits, self.divergent, self.approximate = 0, 0, False

    @property
    def size(self) -> str:
        """How many tables each look had, in words."""
        return f"{self.tables} and {TIMES * self.tables} tables" if self.fits > self.tables else f"{self.tables} tables"

    def generator(self, seed: int) -> np.random.Generator:
        """Random numbers of program and method."""
        return generator(self.simulator.task.model.name, self.method, seed)

    def require_tables(self) -> None:
        """Raise `ZooError` before the first fit if the program cannot draw a table of either look."""
        number = (1 + TIMES) * self.tables
        self.say(f"{number} tables are drawn")
        for place in range(number):
            self.simulator.draw(self.seed, place)

    def replicates(self, rng: np.random.Generator, number: int) -> tuple[Statistics, Statistics]:
        """Quantities at the parameters of the next ``number`` tables (R,), and at the draws (R, 8) that are ranked."""
        first = self.fits
        true = self._true([self._at(first + place) for place in range(number)])
        drawn = []
        for place in range(number):
            if place % STEP == 0:
                self.say(f"table {place + 1} of {number}")
            table = self.simulator.draw(self.seed, first + place).table
            drawn.append(self._ranked(table, int(rng.integers(2**31)), place))
        return true, {name: np.stack([quantities[name] for quantities in drawn]) for name in true}

    def _at(self, place: int) -> dict[str, float]:
        """Quantities at the parameters that a table was drawn with."""
        simulated = self.simulator.draw(self.seed, place)
        sites = {name: value[None, None] for name, value in simulated.sites.items()}
        try:
            values, names = quantities_of(as_result(self.simulator.task.model, simulated.table, sites, "prior"))
        except ZooError as error:
            raise ZooError(f"the prior of the program draws what a result cannot hold: {error}") from error
        return dict(zip(names.tolist(), values[0, 0].tolist(), strict=True))

    def _true(self, quantities: Sequence[Mapping[str, float]]) -> Statistics:
        """Quantities (R,) that are ranked, chosen by the first tables; raises `ZooError` where one is not finite."""
        if not self.names:
            self.names, self.left_out = _chosen(quantities)
        for name in (*DENSITIES, *self.names):
            if not all(name in each for each in quantities):
                raise ZooError(f"{name} is not finite at a draw from the prior of the program: give it a narrower prior")
        return {name: np.array([each[name] for each in quantities]) for name in self.names}

    def _ranked(self, table: Pytree, seed: int, place: int) -> dict[str, np.ndarray]:
        """Quantities at one draw of each chain of `fit`; raises `NotFiniteError` where one of them is NaN or infinite."""
        try:
            tree = fit(self.simulator.task.model, table, self.method, seed=seed, **self.options)
        except ZooError as error:
            raise ZooError(f"{error} (table {self.fits + 1} that the program drew)") from error
        if tree.attrs.get("interrupted"):
            raise KeyboardInterrupt
        self._remember(tree)
        values, names = quantities_of(tree.isel(draw=[place % DRAWS]))
        quantities = dict(zip(names.tolist(), np.moveaxis(values[:, 0], 1, 0), strict=True))
        if lost := [name for name in self.names if name not in quantities]:
            raise NotFiniteError(lost, self.fits)
        return {name: quantities[name] for name in self.names}

    def _remember(self, tree: xr.DataTree) -> None:
        self.fits += 1
        self.approximate = kind_of(tree) is Kind.APPROXIMATION
        stats: Any = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else {}
        self.divergent += bool("diverging" in stats and stats["diverging"].any())

    def notes(self, check: Check) -> list[str]:
        """Quantities that were not checked, and limits of the check."""
        lines = []
        if self.left_out:
            lines.append(f"{self.left_out} more quantities were not ranked")
        if self.simulator.discrete:
            lines.append(f"discrete latents were drawn and summed out, and not ranked: {', '.join(self.simulator.discrete)}")
        if self.divergent:
            lines.append(f"{self.divergent} of {self.fits} fits had divergent transitions")
        if self.approximate:
            lines.append(f"{self.method} approximates the posterior: a failure means that its error shows")
        if any(figure.unit == NEEDED and np.isfinite(figure.value) and not figure.passed for figure in check.figures):
            more = ": give budget='full'" if self.tables < TABLES["full"] else ""
            lines.append(f"half the spread of the same draws would not be seen{more}")
        return lines


def _chosen(quantities: Sequence[Mapping[str, float]]) -> tuple[tuple[str, ...], int]:
    """(names of at most `MOST_QUANTITIES` quantities, the densities among them; how many more there are).

    Constants are left out: their ranks would be those of rounding errors.
    """
    known = dict.fromkeys(name for each in quantities for name in each)
    values = {name: np.array([each.get(name, np.nan) for each in quantities]) for name in known}
    names = [name for name, value in values.items() if not np.ptp(value) <= SAME * np.abs(value).max()]
    first = [name for name in names if name in DENSITIES]
    others = [name for name in names if name not in DENSITIES]
    some = [others[place] for place in spread(len(others), MOST_QUANTITIES - len(first))]
    return (*first, *some), len(others) - len(some)


def calibrated(
    program: Callable[..., Any],
    data: Any,
    method: str,
    options: Mapping[str, Any],
    budget: str,
    seed: int,
    say: Callable[[str], None],
    **naming: Any,
) -> tuple[Check, list[str], list[str]]:
    """(the check of the ranks, hints, notes) of ``method`` on a program of the user's.

    ``data``, ``naming`` (symmetry, dims, coords) and ``options``, those of the method and further data by name, are as `fit`
    takes them. Raises `ZooError` for data or a program that cannot be simulated, for a method that does not draw or takes no
    programs, and for options that are not free here.

    >>> import numpyro
    >>> from numpyro import distributions as dist
    >>> def program(x):
    ...     mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    ...     numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    >>> calibrated(program, np.zeros(3), "nuts", {}, "quick", 0, print)[0].passed
    True
    """
    record = _drawing(method)
    if fixed_options := [name for name in OF_FIT if name in options]:
        raise ZooError(
            f"{fixed_options[0]}= cannot be chosen here: every fit has {CHAINS} chains of {DRAWS} draws in double precision, "
            "and is not kept"
        )
    options, named = data_by_name(program, record, options)
    checked_options(record, options)
    model, table = modelled(program, data, 64, **{"symmetry": None, "dims": None, "coords": None, **naming}, named=named)
    tables = TABLES[budget]
    fits = ProgramFits(simulator_of(model, table), method, options, tables, seed, say)
    fits.require_tables()
    check = timed(lambda: _check(fits, seed))._replace(size=tables)
    return check, hints_of(check), fits.notes(check)


def _check(fits: ProgramFits, seed: int) -> Check:
    """Whether ranks are uniform; draws that are NaN or infinite fail at once, at no stated rate."""
    try:
        return ranks_check(CHECK, fits, seed)
    except NotFiniteError as error:
        figures = [Figure(name, np.nan, MOST, "deviation") for name in error.names]
        number = f"{len(figures)} of {len(fits.names)} quantities"
        says = f"{number} are NaN or infinite at table {error.table}, and no more tables were fitted"
        return answer(CHECK, says, figures, None)


def _drawing(method: Any) -> Method:
    """The method that draws, and takes programs; a `ZooError` for any other."""
    if not isinstance(method, str):
        raise ZooError(
            "method= is the name of a method of the zoo, such as 'nuts'; a kernel of your own is certified on a model of the "
            "zoo: certify(kernel, model='gmm')"
        )
    record = method_named(method)
    if not {"num_chains", "num_samples"} <= set(record.options._fields):
        raise ZooError(f"method={method!r} gives a point and no draws, so that nothing can be ranked; use nuts")
    if record.updates is not None:  # it runs on the algebra
        raise ZooError(f"method={method!r} takes models of the zoo, and no NumPyro programs; use nuts, or laplace or advi")
    return record


def hints_of(check: Check) -> list[str]:
    """In which direction the draws are off, of the quantities that deviate most.

    Draws that are shifted have ranks far from ½, too. So the width has no hint where the location fails.
    """
    failed = {figure.name: figure for figure in check.figures if figure.unit == "deviation" and not figure.passed}
    to_show = [figure for name, figure in failed.items() if not (name.endswith(SPREAD) and name.removesuffix(SPREAD) in failed)]
    directions = map(_direction, sorted(to_show, key=relative_to_limit, reverse=True))
    return list(directions)[:SHOWN]


def _direction(figure: Figure) -> str:
    """Ranks beyond ½ on the average: draws are too low. Ranks further from ½ than ¼ on the average: draws are too narrow."""
    name = figure.name.removesuffix(SPREAD)
    if not np.isfinite(figure.value):
        return f"draws of {name} are NaN or infinite"
    ways = ("narrow", "wide") if figure.name.endswith(SPREAD) else ("low", "high")
    return f"draws of {name} are too {ways[0] if figure.value > 0 else ways[1]}"
