"""A program with discrete latents as a program without them: NumPyro enumerates them, and funsor adds up.

The program that `summed_out` returns has the same continuous sites. Each observed site that depends on a discrete one has its
log density given the sites before it, with the discrete ones summed out: for rows n on a plate that holds all discrete sites,

    log p(x_n | θ) = log Σ_z p(z | θ) p(x_n | z, θ),    log p(y_n | x_n, θ) = log p(x_n, y_n | θ) − log p(x_n | θ)

Where a discrete site is shared by the rows, only the density of all of them together is defined, and the site has one number.
A continuous site that depends on a discrete one (w ~ p(w | z)) counts nothing by itself: its density is the factor `PRIOR`.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpyro import distributions as dist
from numpyro import factor as add_factor
from numpyro import handlers, sample
from numpyro.infer import init_to_sample
from numpyro.primitives import Messenger

from inference.programs.support import discrete_latents
from models.errors import ZooError

PRIOR = "summed_out"  # the factor of continuous sites that depend on discrete ones; numbered if there are several


class Summed(dist.Distribution):  # type: ignore[misc]  # NumPyro has no types
    """Log densities that are known already, of an observed value whose first dimensions are theirs."""

    pytree_data_fields = ("log_density",)
    support = dist.constraints.real

    def __init__(self, log_density: Array, event_shape: tuple[int, ...]) -> None:
        self.log_density = log_density
        super().__init__(jnp.shape(log_density), event_shape, validate_args=False)

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log densities; ``value`` is the one that they belong to."""
        return self.log_density


class Factor(NamedTuple):
    """One sample statement of the enumerated program."""

    site: Mapping[str, Any]
    log_prob: Any  # a funsor: its inputs are plates and discrete sites
    plates: dict[str, int]  # plate -> its dimension, counted from the right

    @property
    def is_data(self) -> bool:
        """Whether it is observed; a factor of the user's is no data."""
        return bool(self.site["is_observed"]) and not isinstance(self.site["fn"], dist.Unit)


def summed_out(spec: Callable[..., Any]) -> Callable[..., Any]:
    """The spec of a program without its discrete latents; with ``marginal=False`` the program as it is, which samples them."""

    def summed(hyper: Any, rows: Any, *, marginal: bool = True) -> Any:
        if not marginal:
            return spec(hyper, rows, marginal=False)
        plain = _plain_trace(spec, hyper, rows)
        discrete = {name: jnp.zeros(jnp.shape(site["value"]), int) for name, site in discrete_latents(plain).items()}
        free_dim = -1 - max(len(site["fn"].batch_shape) for site in plain.values() if site["type"] == "sample")
        run = _Run(spec, hyper, rows, plain, discrete)
        given = _continuous(run, _dependent(run, free_dim))
        factors = _factors(spec, hyper, rows, given, free_dim)
        for factor in factors:
            if factor.site["is_observed"] and not _sums(factor, discrete):
                with handlers.scale(scale=1.0 if factor.site["scale"] is None else factor.site["scale"]):
                    sample(factor.site["name"], factor.site["fn"], obs=factor.site["value"])
        for number, group in enumerate(_components([each for each in factors if _sums(each, discrete)], discrete)):
            _sample_component(group, discrete, f"{PRIOR}_{number}" if number else PRIOR)
        return None

    return summed


def _plain_trace(spec: Callable[..., Any], hyper: Any, rows: Any) -> dict[str, Any]:
    """The program run once as it is, hidden from the handlers around it."""
    with handlers.block():
        seeded = handlers.substitute(handlers.seed(spec, jax.random.PRNGKey(0)), substitute_fn=init_to_sample)
        return handlers.trace(seeded).get_trace(hyper, rows, marginal=True)


class _Unweighted(Messenger):  # type: ignore[misc]  # NumPyro has no types
    """Some sites without a density."""

    def __init__(self, fn: Callable[..., Any], names: set[str]) -> None:
        self.names = names
        super().__init__(fn)

    def process_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "sample" and message["name"] in self.names:
            message["fn"] = message["fn"].mask(False)


class _Run(NamedTuple):
    """A program on its rows, as it ran once."""

    spec: Callable[..., Any]
    hyper: Any
    rows: Any
    plain: Mapping[str, Any]  # its trace
    discrete: Mapping[str, Array]  # its discrete latents, at 0


def _continuous(run: _Run, dependent: set[str]) -> dict[str, Any]:
    """Values of the continuous sites, which the handlers around the program give or draw here."""
    # By name: the handlers around the program may add factors, as for the Jacobian of a transform.
    plain, discrete = run.plain, run.discrete
    hidden = [name for name, site in plain.items() if name in discrete or site["type"] == "deterministic" or _is_observed(site)]
    program = handlers.block(_Unweighted(handlers.substitute(run.spec, data=dict(discrete)), dependent), hide=hidden)
    trace = handlers.trace(program).get_trace(run.hyper, run.rows, marginal=True)
    for name in dependent:
        if not all(isinstance(bound, int | float) for bound in jax.tree.leaves(plain[name]["fn"].support)):
            raise ZooError(
                f"the density of the site {name!r} depends on a discrete site, and the bounds of its values are computed, so "
                "that they may depend on it, too; draw it between fixed bounds, and shift and scale it afterwards"
            )
    return {name: site["value"] for name, site in trace.items() if name in plain and site["type"] in ("sample", "param")}


def _is_observed(site: Mapping[str, Any]) -> bool:
    return site["type"] == "sample" and bool(site["is_observed"])


def _dependent(run: _Run, free_dim: int) -> set[str]:
    """The continuous sites whose density depends on a discrete one: traced on shapes, no number is computed."""
    values = {
        name: site["value"]
        for name, site in run.plain.items()
        if site["type"] in ("sample", "param") and name not in run.discrete and not _is_observed(site)
    }
    dependent: set[str] = set()

    def visit(values: dict[str, Any]) -> None:
        factors = _factors(run.spec, run.hyper, run.rows, values, free_dim)
        dependent.update(
            factor.site["name"]
            for factor in factors
            if not factor.site["is_observed"] and factor.site["name"] not in run.discrete and _sums(factor, run.discrete)
        )

    jax.eval_shape(visit, values)
    return dependent


def _factors(spec: Callable[..., Any], hyper: Any, rows: Any, given: Mapping[str, Any], free_dim: int) -> list[Factor]:
    """The log densities of all sample statements at given continuous sites, with a dimension for each discrete site."""
    import funsor
    from numpyro.contrib import funsor as contrib

    program = handlers.substitute(handlers.seed(spec, jax.random.PRNGKey(0)), data=dict(given))
    program = contrib.enum(contrib.config_enumerate(program), first_available_dim=free_dim)
    with handlers.block(), contrib.infer_util.plate_to_enum_plate():
        trace = contrib.trace(program).get_trace(hyper, rows, marginal=True)
    factors = []
    for name, site in trace.items():
        if site["type"] != "sample":
            continue
        log_prob = site["fn"].log_prob(site["value"])
        names = dict(site["infer"]["dim_to_name"])
        if site["scale"] is not None:
            if set(names.values()) - {frame.name for frame in site["cond_indep_stack"]}:
                raise ZooError(
                    f"the site {name!r} is scaled, and depends on a discrete site: the sum over its values would be of scaled "
                    "densities; leave the scale out, or sum the discrete site out yourself"
                )
            log_prob = site["scale"] * log_prob
        plates = {frame.name: frame.dim for frame in site["cond_indep_stack"] if frame.dim is not None}
        if others := [each for each in names.values() if each.startswith(("_time", "_PREV_", "_pyro_dim"))]:
            what = "rows without a numpyro.plate" if others[0].startswith("_pyro_dim") else "steps of a scan"
            raise ZooError(
                f"the site {name!r} depends on {what}, over which discrete sites are not summed out here; put rows on a plate, "
                "or sum the discrete sites out yourself"
            )
        if not names:
            log_prob = log_prob.reshape(())
        factors.append(Factor(site, funsor.to_funsor(log_prob, funsor.Real, dim_to_name=names), plates))
    return factors


def _sums(factor: Factor, discrete: Mapping[str, Any]) -> set[str]:
    """The discrete sites on which a log density depends."""
    return set(factor.log_prob.inputs) & set(discrete)


def _components(factors: list[Factor], discrete: Mapping[str, Any]) -> list[list[Factor]]:
    """Factors in groups that share no discrete site."""
    groups: list[tuple[set[str], list[Factor]]] = []
    for factor in factors:
        names, members = _sums(factor, discrete), [factor]
        for group in [each for each in groups if each[0] & names]:
            names, members = names | group[0], group[1] + members
            groups.remove(group)
        groups.append((names, members))
    return [members for _, members in groups]


def _sample_component(factors: list[Factor], discrete: Mapping[str, Any], name: str) -> None:
    """Observe the data of one group, each given those before it, and add the density of the sites that are no data."""
    data = [factor for factor in factors if factor.is_data]
    others = [factor for factor in factors if not factor.is_data]
    plates = _shared_plates(factors, data, discrete)
    before = None
    if any(factor.site["name"] not in discrete for factor in others):
        before = _log_sum(others, discrete, plates)
        add_factor(name, before)
    for number, factor in enumerate(data, start=1):
        now = _log_sum([*others, *data[:number]], discrete, plates)
        given = now if before is None else jnp.where(before > -jnp.inf, now - before, -jnp.inf)
        before, value = now, factor.site["value"]
        sample(factor.site["name"], Summed(given, jnp.shape(value)[given.ndim :]), obs=value)


def _shared_plates(factors: list[Factor], data: list[Factor], discrete: Mapping[str, Any]) -> dict[str, int]:
    """The plates over which the group falls apart: all discrete sites, and so all factors, are on them.

    They must be the first dimensions of all data, so that log densities are those of rows; otherwise there are none.
    """
    shared = set.intersection(*(set(factor.plates) & set(factor.log_prob.inputs) for factor in factors))
    for factor in data:
        leading = sorted(factor.plates, key=factor.plates.__getitem__)[: len(shared)]
        shared = shared if set(leading) == shared else set()
    return {name: factors[0].plates[name] for name in shared}


def _log_sum(factors: list[Factor], discrete: Mapping[str, Any], open_plates: Mapping[str, int]) -> Array:
    """Log of the sum over the discrete sites of the product of all factors, by the ``open_plates``."""
    import funsor

    plates = frozenset(name for factor in factors for name in factor.plates) - set(open_plates)
    names = frozenset(name for factor in factors for name in _sums(factor, discrete))
    parts = funsor.sum_product.partial_sum_product(
        funsor.ops.logaddexp,
        funsor.ops.add,
        [factor.log_prob for factor in factors],
        eliminate=names | plates,
        plates=plates,
    )
    order = sorted(open_plates, key=open_plates.__getitem__)
    total = reduce(funsor.ops.add, parts)
    return jnp.asarray(funsor.to_data(total, name_to_dim={name: place - len(order) for place, name in enumerate(order)}))
