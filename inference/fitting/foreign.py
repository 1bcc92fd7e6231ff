"""Draws that another program made, as a result: `inference.as_result`.

Draws of Stan, PyMC or `numpyro.infer.MCMC` are draws of the sites of a model. Everything else that a result holds is computed
from the sites by the functions that evaluate draws in `inference.fit`: log joint, log-likelihoods, functionals, labels. So
foreign draws and those of the zoo have the same diagnostics.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from numpyro import infer  # in this form: ArviZ leaves a lazy numpyro behind, which the other form half loads

from inference.engine.sites import checked_sites, sites_of_model
from inference.engine.task import Draws, Kind, Task, timing
from inference.fitting.assembly import as_tree
from inference.fitting.fit import described, evaluated, modelled
from inference.fitting.prepare import make_task, x64
from inference.programs.tracing import prior_trace
from inference.results.observed import DRAWS
from inference.results.triangles import sites_of
from inference.runtime.progress import Silent
from models.base import Model, ZooError
from models.errors import did_you_mean

# extra field of NumPyro's MCMC -> its name in ArviZ's schema, by which diagnostics know it
FIELDS = {
    "accept_prob": "acceptance_rate",
    "adapt_state.step_size": "step_size",
    "diverging": "diverging",
    "energy": "energy",
    "num_steps": "n_steps",
}
COMPUTED = {"lp", "log_weight", "permutation", "rotation", "relabel_confidence"}  # statistics that are computed anew
KINDS = [str(kind) for kind in Kind if kind is not Kind.POINT]
UNKNOWN = timing(np.nan, np.nan, np.nan)


class Foreign(NamedTuple):
    """Draws as another program left them."""

    sites: Mapping[str, Any]  # name -> (chain, draw, …), in the shape of the program
    stats: dict[str, np.ndarray]  # (chain, draw)
    may_hold_more: bool  # whether other quantities than the parameters are usual


def as_result(
    model: Model | Any,
    data: Any,
    draws: xr.DataTree | xr.Dataset | infer.MCMC | Mapping[str, ArrayLike],
    method: str = "foreign",
    *,
    kind: str = "chains",
    symmetry: Any = None,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    coords: Mapping[str, list[Any]] | None = None,
) -> xr.DataTree:
    """A result of ``model`` on ``data`` out of draws of its sites that another program made.

    ``draws`` is a DataTree of ``az.from_dict({"posterior": {...}})``, a group of it, a `numpyro.infer.MCMC` that has run, or a
    dict of arrays. Every site of the program is there with its name and shape after the dimensions (chain, draw). Other
    quantities of a DataTree, such as Stan's generated quantities, and of an MCMC are left out; ``attrs["not_sites"]`` names
    them. A dict holds the sites alone. Statistics by draw, such as ``diverging``, stay. Seconds are not known, and NaN.

    ``model`` may be a NumPyro function; ``symmetry``, ``dims`` and ``coords`` are then as in `inference.fit`. ``method`` is the
    name under which the result goes. ``kind`` is the kind of the draws: "chains" of a Markov chain, "independent" draws of the
    posterior, or of an "approximation", such as variational inference. Draws of exchangeable components are relabelled as
    those of `inference.fit` are. The result is one as of `inference.fit`: `compare`, `predict`, `save` and the report take it.

    Raises `ZooError` for a site that is missing, unknown, of another shape or outside its support (as probabilities that do not
    sum to 1), and for an MCMC that has not run.

    >>> data = load_data("iris")
    >>> model = MODELS["gmm_simple"](data, num_components=2)
    >>> mean = np.array([[5.0, 3.4, 1.5, 0.2], [6.3, 2.9, 4.9, 1.7]]) + np.random.default_rng(0).normal(0, 0.1, (4, 25, 2, 4))
    >>> tree = as_result(model, data, {"mean": mean}, "stan")
    >>> tree["functionals"]["log_joint"].shape, tree["posterior"]["mean"].dims
    ((4, 25), ('chain', 'draw', 'component', 'feature'))
    """
    if not isinstance(method, str) or not method:
        raise ZooError(f"method is the name of the result, a text, got {method!r}")
    if kind not in KINDS:
        raise ZooError(f"kind={kind!r} is not one of {', '.join(KINDS)}")
    model, data = modelled(model, data, 64, symmetry, dims, coords)
    foreign = _read(draws, model)
    with x64(64):
        task = make_task(model, data, 0, None, Silent())
        sites, others = _checked(task, foreign)
        groups, attrs = evaluated(task, Draws(Kind(kind), sites, foreign.stats, UNKNOWN), data, 64, predictive=False)
        attrs |= {"seed": 0, "precision": 64, "method": method} | described(model, task, {})
        if others:
            attrs["not_sites"] = ", ".join(others)
        return as_tree(model, data, groups, attrs | UNKNOWN | {"total_seconds": np.nan})


def _read(draws: Any, model: Model) -> Foreign:
    """Draws of any of the kinds that `as_result` takes."""
    if isinstance(draws, infer.MCMC):
        return _of_mcmc(draws)
    if isinstance(draws, xr.Dataset):
        draws = xr.DataTree.from_dict({"/posterior": draws})
    if isinstance(draws, xr.DataTree):
        return _of_tree(draws if "posterior" in draws.children else xr.DataTree(children={"posterior": draws.copy()}), model)
    if isinstance(draws, Mapping):
        return Foreign(draws, {}, False)
    raise ZooError(
        "draws: expected an xarray.DataTree as az.from_dict makes it, a numpyro.infer.MCMC that has run, or a dict of arrays "
        f"(chain, draw, …) by site, got {type(draws).__name__}"
    )


def _of_mcmc(mcmc: infer.MCMC) -> Foreign:
    if mcmc.last_state is None:
        raise ZooError("draws: this MCMC has not run: call its run(key, …) first")
    samples = mcmc.get_samples(group_by_chain=True)
    if not isinstance(samples, Mapping):
        raise ZooError(
            "draws: this MCMC ran on a potential_fn and has no sites by name; give a dict of arrays (chain, draw, …)"
        )
    fields = mcmc.get_extra_fields(group_by_chain=True)
    return Foreign(samples, {FIELDS[name]: np.asarray(value) for name, value in fields.items() if name in FIELDS}, True)


def _of_tree(tree: xr.DataTree, model: Model) -> Foreign:
    posterior = tree["posterior"].to_dataset()
    for name, value in posterior.data_vars.items():
        if not set(DRAWS) <= set(value.dims):
            raise ZooError(f"draws: {name} has the dimensions {value.dims}, and needs chain and draw among them")
    named = posterior.assign({str(name): _aligned(model, str(name), value) for name, value in posterior.data_vars.items()})
    ordered = xr.DataTree.from_dict({"/posterior": named.transpose(*DRAWS, ...) if named.data_vars else named})
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else xr.Dataset()
    diagnostics = {
        str(name): value.transpose(*DRAWS).values
        for name, value in stats.data_vars.items()
        if name not in COMPUTED and set(value.dims) == set(DRAWS) and value.dtype.kind in "biuf"
    }
    return Foreign(sites_of(ordered, "posterior"), diagnostics, True)


def _aligned(model: Model, name: str, value: xr.DataArray) -> xr.DataArray:
    """A quantity with the model's order of dimensions and labels, where it has the model's names; raises `ZooError`."""
    dims = model.naming.dims.get(name, ())
    if set(value.dims) - set(DRAWS) != set(dims):
        return value  # dimensions of other names, such as mean_dim_0, are taken in their order
    value = value.transpose(*DRAWS, *dims)
    for dim in dims:
        wanted, given = [[str(label) for label in labels] for labels in (model.naming.coords.get(dim, ()), value[dim].values)]
        if not wanted or wanted == given or given == [str(place) for place in range(len(wanted))]:
            continue
        if sorted(wanted) != sorted(given):
            raise ZooError(
                f"draws: {name} has the labels {', '.join(given)} along {dim}, and the model has {', '.join(wanted)}"
            )
        value = value.isel({dim: [given.index(label) for label in wanted]})
    return value.drop_vars([dim for dim in dims if dim in value.coords])


def _checked(task: Task, foreign: Foreign) -> tuple[dict[str, np.ndarray], list[str]]:
    """(the sites of the model at all draws; names of other quantities, which the program does not compute)."""
    model, given = task.model, {str(name): value for name, value in foreign.sites.items()}
    sites = sites_of_model(model, task.rows)
    expected = f"expected the sites {', '.join(sorted(sites))} of {model.name}, got {', '.join(sorted(given))}"
    others = [name for name in given if name not in sites]
    if missing := sorted(set(sites) - set(given)):
        rename = "name and scale the draws as this program has them, such as draws = {'" + missing[0] + "': array, …}"
        raise ZooError(f"draws: there is no site {missing[0]!r}: {expected}; {rename}")
    if others and not foreign.may_hold_more:
        raise ZooError(f"draws: {others[0]!r} is no site{did_you_mean(others[0], sites)}: {expected}")
    values = checked_sites(model, {name: given[name] for name in sites}, task.rows, "draws", lead=DRAWS)
    values = {name: values[name] for name in sorted(values)}  # as in results of a fit
    shape = next(iter(values.values())).shape[: len(DRAWS)]
    if 0 in shape:
        raise ZooError("draws: there is not a single draw")
    for name, value in foreign.stats.items():
        if value.shape != shape:
            raise ZooError(f"draws: the statistic {name} has shape {value.shape}, and the draws have shape {shape}")
    computed = _computed(task) if others else set()
    return values, [name for name in others if name not in computed]


def _computed(task: Task) -> set[str]:
    """Names of all that the program samples and computes, by running it on shapes."""
    names: set[str] = set()
    jax.eval_shape(lambda hyper, rows: names.update(prior_trace(task.model.spec, hyper, rows)), task.hyper, task.rows)
    return names
