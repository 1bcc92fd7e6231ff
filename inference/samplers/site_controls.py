"""Would an error in the law of each site be seen? Controls for every site, at the speed at which the kernel moves it.

A kernel that hardly moves a site leaves any law of it nearly alone, also the wrong one. So the kernel is run on draws under
other priors of that site, and statistics of the site must show it. And it is started far away, to see whether it reaches the
posterior.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from inference.certificates.checks.figure import MOST, Check, Figure, control, timed
from inference.certificates.laws.kernel_law import Move, deviations
from inference.certificates.oracles.oracle import Oracle, site_statistics
from inference.samplers.hints import SEEN_FROM, Prior, Priors, law_under
from inference.samplers.latents import entries

FACTORS = (1.25, 2.0)  # by which a number of a prior is wrong: the smallest one that is seen is named
SEEN = MOST + 1  # deviations of a wrong prior at the size of the check: the check sees it with a probability of 0.84
ROUNDS = 10  # times the steps of the check, from far away
AWAY = 3 * SEEN  # deviations of far starts of which enough must be lost
LEFT = 0.95  # share of such a deviation; a kernel that loses less does not move towards the posterior
STARTS = 1_000  # far starts, at most, of a kernel that is not compiled


class Controls(NamedTuple):
    """The controls of the sites of one kernel."""

    oracle: Oracle
    priors: Priors
    move: Move
    replicates: int
    seed: int

    def of_sites(self, say: Callable[[str], None]) -> list[Check]:
        """For every site, whether the kernel is rejected where the prior of this site is wrong."""
        checks = []
        for name in self.oracle.draw_parameters(np.random.default_rng(0), 1):
            say(f"control of the {name}")
            checks.append(timed(partial(self.of_site, name)))
        return checks

    def of_site(self, name: str) -> Check:
        """Whether a number of the prior of this site that is wrong by one of `FACTORS` shows in statistics of the site."""
        largest = Figure("", 0.0, MOST, "deviation")
        for factor in FACTORS:
            for other in self.other_priors(name, factor):
                figure = self._largest(name, other)
                largest = max(largest, figure, key=lambda one: abs(one.value))
                if abs(figure.value) > SEEN:
                    says = f"{other.what} is rejected: {figure.name} deviates by {abs(figure.value):.1f}"
                    return control(name, says, True, [figure])
        says = (
            f"no prior of {name} with a number {FACTORS[-1]:g} times as large is rejected (the largest deviation "
            f"{abs(largest.value):.1f}, where {SEEN:g} are needed), so that its law was hardly checked: more steps= or "
            "budget='full' see more"
        )
        return control(name, says, False, [largest])

    def other_priors(self, name: str, factor: float) -> list[Prior]:
        """Priors with one number ``factor`` times as large, on which the density of this site depends."""
        sites = self.oracle.draw_parameters(np.random.default_rng(0), 2)
        here, priors = self.priors.log_densities(self.priors.own, sites)[name], []
        for number, value in self.priors.own.items():
            if number not in SEEN_FROM and np.any(value):
                other = Prior(f"{number} × {factor:g}", {**self.priors.own, number: factor * value})
                there = self.priors.log_densities(other.hyper, sites)[name]
                priors += [] if np.array_equal(here, there) else [other]
        return priors

    def _largest(self, name: str, other: Prior) -> Figure:
        """The statistic of the site that deviates most under another prior."""
        law = law_under(self.priors, other.hyper, self.oracle, self.move, self.replicates)
        pairs = law.pairs(self.seed, 1)
        before, after = (
            site_statistics(name, value, name in self.oracle.simplices) | entries({name: value})
            for value in (pairs.sites[name], pairs.moved[name])
        )
        sizes = deviations(before, after)
        finite = {each: size for each, size in sizes.items() if np.isfinite(size)}
        most = max(finite, key=lambda each: abs(finite[each]), default="")
        return Figure(most, finite.get(most, 0.0), MOST, "deviation", finite.get(most, 0.0))

    def of_reach(self, starts: int, steps: int) -> Check:
        """Whether parameters from the prior, on tables of other parameters, come nearer to the posterior.

        Statistics of them and of the parameters that the tables were drawn from are compared at the start and at the end.
        """
        rng = np.random.default_rng(self.seed)
        right, sites = (self.oracle.draw_parameters(rng, starts) for _ in range(2))
        tables = self.oracle.draw_tables(rng, right)
        wanted = self.oracle.statistics(right, tables)
        far = deviations(wanted, self.oracle.statistics(sites, tables))
        for place in range(ROUNDS):
            moved = self.move(sites, tables, self.seed + 1 + place).sites
            sites = {name: moved[name] for name in right}
            if self.oracle.latent in moved:
                tables = {**tables, self.oracle.latent: moved[self.oracle.latent]}
        return reach(far, deviations(wanted, self.oracle.statistics(sites, tables)), ROUNDS * steps)


def reach(far: Mapping[str, float], near: Mapping[str, float], steps: int) -> Check:
    """Whether deviations of far starts are smaller after ``steps`` steps."""
    shares = {name: near[name] / value for name, value in far.items() if AWAY < abs(value) < np.inf}
    if not shares:
        return control("reach", "parameters drawn from the prior do not deviate: a start far away was not found", True, [])
    worst = max(shares, key=lambda name: shares[name])
    figures = [Figure(f"share of the deviation of {name} that is left", value, LEFT, "share") for name, value in shares.items()]
    largest = max(figures, key=lambda figure: figure.value)
    says = f"after {steps} steps from draws of the prior, {max(largest.value, 0):.0%} of the deviation of {worst} is left"
    if largest.value > LEFT:
        return control("reach", f"{says}: from there the posterior is not reached", False, [largest])
    return control("reach", says, True, [largest])
