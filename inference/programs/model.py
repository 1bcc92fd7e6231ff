"""Models that are a NumPyro program only."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from inference.programs.arguments import Arguments, as_spec, name_of, rows_by_name
from inference.programs.running import first_run
from inference.programs.summed_out import summed_out
from inference.programs.support import discrete_latents, require_enumerable
from inference.programs.tracing import mixture_of, prior_trace
from models.base import Hyper, Model, Naming, Pytree, Reading, Sites, Summaries, ZooError
from models.reading.load import as_data
from models.rows.encoded import probe_rows
from models.symmetries import Permutation, Symmetry


@cache
def summed_spec(function: Callable[..., Any]) -> Callable[..., Any]:
    """`as_spec` of a program without its discrete latents."""
    return summed_out(as_spec(function))


def program_model(
    function: Callable[..., Any],
    data: Any,
    *,
    symmetry: Symmetry | str = None,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    coords: Mapping[str, list[Any]] | None = None,
    name: str | None = None,
) -> Model:
    """A model that is a NumPyro program only: it gets map, laplace, advi, nuts, identification, results and comparison.

    ``data`` is the function's only argument, a tuple of its arguments, or all of them by name, as
    `inference.programs.arguments.as_arguments` makes them. ``symmetry`` names the dimension whose labels
    are exchangeable; without ``dims`` it is taken to be the leading dimension of the sites listed by the size of the mixture.
    Discrete latents are summed out (`inference.programs`). Raises `ZooError` where the program does not run on the data, has
    a discrete site that cannot be summed out, or observes nothing.

    >>> import numpyro
    >>> from numpyro import distributions as dist
    >>> def program(x):
    ...     mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    ...     numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    >>> program_model(program, np.array([1.0, 2.0])).name
    'program'
    """
    spec, called = as_spec(function), name or name_of(function)
    trace, arrays = first_run(function, data)
    if discrete := discrete_latents(trace):
        spec = _summed(function, trace, arrays)
    sites = {k: v for k, v in trace.items() if v["type"] == "sample" and not v["is_observed"] and k not in discrete}
    if not sites:
        raise ZooError(f"the program {called} has no continuous site, so that there is nothing to infer")
    declared = Permutation(symmetry) if isinstance(symmetry, str) else symmetry
    shapes = {k: np.shape(v["value"]) for k, v in sites.items()}
    named = dict(dims or {})
    if declared is not None:  # sites that the user did not name are guessed: one left behind would mix up the labels
        named = _guessed_dims(declared.dim, {k: v for k, v in shapes.items() if k not in named}, trace, bool(named)) | named
    shapes |= {k: np.shape(v["value"]) for k, v in trace.items() if v["type"] == "deterministic"}
    for site, names in named.items():
        if site in shapes and len(names) != len(shapes[site]):
            raise ZooError(f"dims of {site!r}: {names} names {len(names)} dimensions, but the site has shape {shapes[site]}")
    return Model(
        name=called,
        spec=spec,
        algebra=None,
        hyper={},
        prior={},
        reading=Reading(
            rows=partial(rows_by_name, function) if isinstance(data, Arguments) else lambda data: data,
            read=as_data,
        ),
        summaries=Summaries(
            functionals=_functionals(declared, tuple((k, tuple(v)) for k, v in named.items())),
            probe_rows=probe_rows,
        ),
        symmetry=declared,
        naming=Naming(
            dims=named,
            coords=dict(coords or {}),
            density_of=f"what the program {called} observes",
        ),
        options={"program": name_of(function)},
        description=inspect.getdoc(function),
    )


def _summed(function: Callable[..., Any], trace: Mapping[str, Any], arrays: Pytree) -> Callable[..., Any]:
    """The spec without discrete latents; raises `ZooError` where they cannot be summed out."""
    require_enumerable(trace)
    spec = summed_spec(function)
    try:
        jax.eval_shape(lambda rows: [prior_trace(spec, {}, rows)][:0], arrays)
    except ZooError:
        raise
    except Exception as error:  # of NumPyro or funsor, as for discrete sites that are too many to sum over together
        raise ZooError(
            f"the discrete sites of the program {name_of(function)} cannot be summed out (are the rows on a numpyro.plate?): "
            f"{type(error).__name__}: {error}"
        ) from error
    return spec


def _guessed_dims(
    dim: str, shapes: Mapping[str, tuple[int, ...]], trace: Mapping[str, Any], optional: bool
) -> dict[str, tuple[str, ...]]:
    """The sites whose leading axis has the size of the observed mixture, or of a discrete latent, carry its labels."""
    observed = [site["fn"] for site in trace.values() if site["type"] == "sample" and site["is_observed"]]
    sizes = [mixture.mixture_size for mixture in map(mixture_of, observed) if mixture is not None]
    sizes += [len(site["fn"].enumerate_support(expand=False)) for site in discrete_latents(trace).values()]
    if not sizes and optional:
        return {}
    if not sizes:
        raise ZooError(f"symmetry={dim!r}: name the dimension in dims, for example dims={{'mean': ('{dim}',)}}")
    return {
        site: (dim, *(f"{site}_dim_{axis}" for axis in range(1, len(shape))))
        for site, shape in shapes.items()
        if shape and shape[0] == sizes[0]
    }


@cache
def _functionals(symmetry: Symmetry, dims: tuple[tuple[str, tuple[str, ...]], ...]) -> Callable[..., dict[str, Array]]:
    """Without algebra: the sorted values of every site that has only the exchangeable dimension, and co-clustering."""

    def functionals(hyper: Hyper, sites: Sites, latents: Array | None) -> dict[str, Array]:
        vectors = [site for site, names in dims if symmetry is not None and names == (symmetry.dim,) and site in sites]
        summary = {f"sorted_{site}": -jnp.sort(-sites[site]) for site in vectors}
        return summary if latents is None else summary | {"co_clustering": (latents[:-1] * latents[1:]).sum(-1)}

    return functionals
