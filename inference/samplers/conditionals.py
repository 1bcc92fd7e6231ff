"""Conditionals of a kernel against the joint density, by ratios (Grosse and Duvenaud 2014, "Testing MCMC code").

For any values of the other parameters, log p(a | rest) − log p(b | rest) = log p(a, rest) − log p(b, rest) for any two values a
and b of a site, or of the latents, which are among the rest of a site. So an error that depends on the value shows, above
rounding. One that is constant in the site never shows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from inference.certificates.checks.figure import Check, Figure, answer, worst
from inference.certificates.oracles.oracle import Oracle, Sites, Tables
from inference.samplers.hints import other_priors, priors_of
from inference.samplers.kernels import Conditionals, data_of, entry_of, given_of
from models.errors import ZooError, did_you_mean

PAIRS = 64  # of values of a site
ROUNDING = 1e-6  # relative: kernels may be in single precision in parts
SMALL = 1e-3  # share of a difference that a term leaves unexplained


def ratio_check(kernel: Conditionals, oracle: Oracle, seed: int, hint: Callable[[str], None]) -> Check:
    """The ratios of every conditional as a check; ``hint`` is called with what would explain a difference.

    Raises `ZooError` for a conditional of something that is no site, and none of the latents.
    """
    rng = np.random.default_rng(seed)
    one, other = (oracle.draw_parameters(rng, PAIRS) for _ in range(2))
    here = JointValues(one, oracle.draw_tables(rng, one))
    figures = []
    for name, log_conditional in kernel.log_conditionals.items():
        there = _changed(oracle, name, here, other, rng)
        with np.errstate(divide="ignore"):  # latents that a label excludes
            wanted = _log_joint(oracle, there) - _log_joint(oracle, here)
        possible = np.isfinite(wanted)
        computed = _values(log_conditional, oracle, there, possible) - _values(log_conditional, oracle, here, possible)
        off = np.where(possible, computed - np.where(possible, wanted, 0.0), 0.0)
        largest = float(np.max(np.abs(off) / (1 + np.abs(np.where(possible, wanted, 0.0)))))
        figure = Figure(f"log ratios of the conditional of {name}", largest, ROUNDING, "relative")
        figures.append(figure)
        if not figure.passed:
            hint(f"the conditional of {name} is not that of the joint density{_explained(oracle, here, there, off)}")
    size = worst(figures).value
    says = f"ratios of {len(figures)} conditionals beside those of the joint density: the largest difference is {size:.0e}"
    return answer("conditionals", says, figures, 0.0)


class JointValues(NamedTuple):
    """Parameters (R, …), and R tables with the latents."""

    sites: Sites
    tables: Tables


def _changed(oracle: Oracle, name: str, here: JointValues, other: Sites, rng: np.random.Generator) -> JointValues:
    """The same with other values of one site; of latents, with about half of their entries those of another table."""
    if name in here.sites:
        return here._replace(sites={**here.sites, name: other[name]})
    if name != oracle.latent:
        known = [*here.sites, *([] if oracle.latent is None else [oracle.latent])]
        raise ZooError(f"log_conditionals: {name!r} is not one of {', '.join(known)}{did_you_mean(name, known)}")
    others = here.tables[name]
    mixed = np.where(rng.random(others.shape) < 0.5, np.roll(others, 1, 0), others)
    return here._replace(tables={**here.tables, name: mixed})


def _log_joint(oracle: Oracle, values: JointValues) -> np.ndarray:
    """(R,): log p(x, z, θ), or log p(x, θ) where there are no latents."""
    density = oracle.log_likelihood if oracle.latent is None else oracle.log_complete
    return oracle.log_prior(values.sites) + density(*values)


def _values(log_conditional: Any, oracle: Oracle, values: JointValues, possible: np.ndarray) -> np.ndarray:
    """(R,): the kernel's log density, one replicate after the other; 0 where the latents are not possible."""
    given, data = given_of(oracle, *values), data_of(oracle, values.tables)
    return np.array(
        [float(log_conditional(entry_of(given, r), entry_of(data, r))) if ok else 0.0 for r, ok in enumerate(possible)]
    )


def _explained(oracle: Oracle, here: JointValues, there: JointValues, off: np.ndarray) -> str:
    """The number of the prior whose change adds just this to the log density, in words; empty if there is none."""
    priors = priors_of(oracle)
    for prior in other_priors(priors.own):
        term = priors.log_ratio(prior.hyper, there.sites) - priors.log_ratio(prior.hyper, here.sites)
        if np.abs(off - term).max() <= SMALL * np.abs(off).max():
            return f", but it is under another prior: {prior.what}"
    return ""
