"""Is the point of an optimiser a mode? The oracle's density, gradient and curvature at it, and the other optimisers.

The check is of the whole method, through `fit`: starts, iterations, convergence and the objective that it reports.
"""

import numpy as np

from inference.certificates.checks.cases import built
from inference.certificates.checks.figure import Check, Figure, answer, control, worst
from inference.certificates.checks.parity import ROUNDING
from inference.certificates.oracles.conjugate import repeated
from inference.certificates.oracles.oracle import Oracle, Sites, Tables
from inference.fitting.fit import fit
from inference.methods import METHODS
from inference.methods.method import method_named
from inference.results.triangles import sites_of

# Methods that maximise log p(x, θ), and the models that they support
OPTIMISERS = {name: method_named(name).support for name in METHODS if "optimum" in method_named(name).evidence}
STEP = 1e-4  # of central differences, relative to the size of a site
GAIN = 1e-6  # nats that may be missing
FLAT = 1e-3  # curvature (nats per squared step of the size of a site) that rounding can make of none


class CheckedOptimum:
    """The best point of an optimiser on a table that the oracle draws, and the oracle's density around it."""

    def __init__(self, oracle: Oracle, method: str, seed: int, mutated: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.oracle = oracle
        self.tables: Tables = oracle.draw_tables(rng, oracle.draw_parameters(rng, 1))
        tree = fit(built(oracle, mutated), oracle.table(self.tables, 0), method, seed=seed)
        self.sites = {name: np.asarray(value)[None] for name, value in sites_of(tree, "point_estimate").items()}
        self.reported = float(tree["functionals"]["log_joint"])

    def density(self, sites: Sites) -> np.ndarray:
        """(R,): log p(x, θ) of the oracle at R points."""
        number = len(next(iter(sites.values())))
        tables = repeated(self.tables, number)
        return self.oracle.log_prior(sites) + self.oracle.log_likelihood(sites, tables)

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (P,) and curvature (P, P) along all directions in which the sites can move, by central differences."""
        basis = tangents(self.oracle, self.sites)
        size = len(next(iter(basis.values())))
        pairs = [(i, j) for i in range(size) for j in range(i + 1)]
        axes = np.eye(size)
        steps = np.array([a * axes[i] + b * axes[j] for i, j in pairs for a in (1, -1) for b in (1, -1)])
        values = self._nearby_densities(basis, steps).reshape(-1, 2, 2)
        mixed = (values[:, 0, 0] - values[:, 0, 1] - values[:, 1, 0] + values[:, 1, 1]) / (4 * STEP**2)
        curvature = np.zeros((size, size))
        for (i, j), value in zip(pairs, mixed, strict=True):
            curvature[i, j] = curvature[j, i] = value
        above, below = self._nearby_densities(basis, axes), self._nearby_densities(basis, -axes)
        return (above - below) / (2 * STEP), curvature

    def _nearby_densities(self, basis: Sites, steps: np.ndarray) -> np.ndarray:
        """(R,): the density after R steps (R, P) along the directions of a basis."""
        return self.density({name: site + STEP * np.tensordot(steps, basis[name], 1) for name, site in self.sites.items()})

    def figures(self) -> tuple[Figure, Figure]:
        """The gain of a Newton step, in nats, and the largest curvature: positive where some direction leads up."""
        gradient, curvature = self.slopes()
        values, vectors = np.linalg.eigh(curvature)
        along = vectors.T @ gradient
        gain = float((along**2 / (2 * np.maximum(-values, FLAT))).sum())
        return (
            Figure("what a Newton step would gain", gain, GAIN, "nats"),
            Figure("curvature of the flattest direction, if it leads up", max(float(values.max()), 0.0), FLAT, "nats"),
        )


def tangents(oracle: Oracle, sites: Sites) -> dict[str, np.ndarray]:
    """All directions in which sites (1, …) can move within their support, as large as their entries: site -> (P, …)."""
    of_sites = {name: _of_site(oracle, name, value[0]) for name, value in sites.items()}
    size = sum(map(len, of_sites.values()))
    tangents_of, first = {}, 0
    for name, directions in of_sites.items():
        tangents_of[name] = np.zeros((size, *directions.shape[1:]))
        tangents_of[name][first : first + len(directions)] = directions
        first += len(directions)
    return tangents_of


def _of_site(oracle: Oracle, name: str, value: np.ndarray) -> np.ndarray:
    """Probabilities change one at a time against the others; a symmetric matrix by pairs of entries."""
    places = list(np.ndindex(value.shape))
    if name in oracle.simplices:
        directions_of = []
        for place in places:
            if place[-1] < value.shape[-1] - 1:
                direction = np.zeros_like(value)
                direction[place[:-1]] = -value[place] * value[place[:-1]]
                direction[place] += value[place]
                directions_of.append(direction)
        return np.array(directions_of)
    if name in oracle.symmetric:
        places = [place for place in places if place[-2] >= place[-1]]
    scale = float(np.abs(value).mean())
    directions_of = []
    for place in places:
        direction = np.zeros_like(value)
        direction[place] = scale
        if name in oracle.symmetric:
            direction[(*place[:-2], place[-1], place[-2])] = scale
        directions_of.append(direction)
    return np.array(directions_of)


def optimum_check(method: str, oracle: Oracle, seed: int, tables: int) -> Check:
    """Whether the method reports the oracle's density, its point is a mode, and no optimiser gets higher: the worst table."""
    algebra = built(oracle).algebra
    assert algebra is not None
    others = [name for name, support in OPTIMISERS.items() if support.why_not(algebra) is None]
    figures_of_tables = []
    for table in range(tables):
        points = {name: CheckedOptimum(oracle, name, seed + 1_000 * table) for name in others}
        heights = {name: float(point.density(point.sites)[0]) for name, point in points.items()}
        optimum, height = points[method], heights[method]
        difference = abs(optimum.reported - height) / (1 + abs(height))
        figures_of_tables.append(
            (
                Figure("reported density, difference from the oracle's", difference, ROUNDING, "relative"),
                *optimum.figures(),
                Figure(f"below the best of {', '.join(others)}", max(heights.values()) - height, GAIN, "nats"),
            )
        )
    figures = tuple(worst(column) for column in zip(*figures_of_tables, strict=True))
    says = (
        f"of {tables} tables, a Newton step would gain {figures[1].value:.0e} nats at most, and the best optimiser is "
        f"{figures[3].value:.0e} higher; {GAIN:.0e} are allowed"
    )
    return answer("optimum", says, figures, None)


def optimum_control(method: str, oracle: Oracle, seed: int, tables: int) -> Check:
    """Whether the point of the mutant is rejected: it is no mode of the oracle's density."""
    gain = CheckedOptimum(oracle, method, seed, mutated=True).figures()[0]
    outcome = "rejected" if gain.rejects else "NOT rejected"
    says = f"{oracle.mutant.what} is {outcome}: a Newton step would gain {gain.value:.0e} nats"
    return control("optimum", says, gain.rejects, [gain])
