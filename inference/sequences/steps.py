"""The log-likelihood of every step of sequences, given the steps before it or all others: `stepwise`."""

from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.fitting.prepare import as_arrays, x64
from inference.results.draws import one_axis
from inference.results.triangles import sites_of
from inference.sequences.decoding import local_of, require_sequential
from models.base import Algebra, Hyper, Model, Pytree, Sites, ZooError
from models.chains.latent import steps_left_out
from models.errors import did_you_mean
from models.rows.packing import row_by_row

Given = Literal["earlier", "others"]


def stepwise(model: Model, tree: xr.DataTree, data: Any, given: Given = "earlier") -> xr.DataTree:
    """A copy of a result with a log-likelihood per step, for `arviz.loo` over time.

    The group ``log_likelihood`` of the copy has the dimensions (chain, draw, row): one row per step of all sequences, with the
    coordinates ``sequence`` and ``time``. It holds, for each draw θ,

    - ``given="earlier"``: log p(x_t | x_1 … x_{t−1}, θ). The last step includes the stop at the boundary, so that the steps sum
      to the log-likelihood of the sequence. Leaving the term of a step out does not leave the step out, on which later steps
      still condition: elpd is on the scale of one-step-ahead forecasts by parameters that have seen the future. Genuine
      forecasts leave the future out as well (Bürkner, Gabry and Vehtari 2020).
    - ``given="others"``: log p(x_t | all other steps, θ), by messages from both sides. Then `arviz.loo` is leave-one-out: a
      step is predicted by the steps on both sides, and its weight 1 / p(x_t | all others, θ) takes it out of the posterior.
      The length of the sequence is known.

    Raises `ZooError` for a model without sequences, a result without draws, and another ``given``.

    >>> data = load_data("ice_cream")
    >>> model = MODELS["hmm"](data, num_states=2)
    >>> stepwise(model, fit(model, data, "gibbs"), data)["log_likelihood"]["x"].dims
    ('chain', 'draw', 'row')
    """
    algebra = require_sequential(model)
    if given not in get_args(Given):
        raise ZooError(f"given={given!r} is not one of {', '.join(get_args(Given))}{did_you_mean(str(given), get_args(Given))}")
    if "posterior" not in tree:
        raise ZooError("stepwise needs the draws of a result; for a point, see predict(…)['step_log_density']")
    shape = next(iter((posterior := sites_of(tree, "posterior")).values())).shape[:2]
    with x64(64):
        hyper, rows, draws = as_arrays((dict(model.hyper), model.rows(data), one_axis(posterior)))
        densities = np.asarray(_step_densities(algebra, given, hyper, rows, draws))  # (draws, N, L)
    length = np.asarray(rows.length)
    sequence, time = np.nonzero(np.arange(densities.shape[2])[None, :] < length[:, None])
    values = densities[:, sequence, time].reshape(*shape, -1)
    coords = {
        "chain": np.arange(shape[0]),
        "draw": np.arange(shape[1]),
        "row": np.arange(values.shape[2]),
        "sequence": ("row", sequence),
        "time": ("row", time + 1),
    }
    copied = tree.copy()
    if "refits" in copied:  # of whole sequences, which are no steps
        del copied["refits"]
    steps = xr.Dataset({"x": (("chain", "draw", "row"), values)}, coords=coords, attrs={"given": given})
    copied["log_likelihood"] = xr.DataTree(steps)
    return copied


@partial(jax.jit, static_argnames=("algebra", "given"))
def _step_densities(algebra: Algebra, given: Given, hyper: Hyper, rows: Pytree, draws: Sites) -> Array:
    """Log densities of steps, (draws, N, L); arbitrary behind the last step of a sequence."""

    def one(sites: Sites) -> Array:
        known = local_of(algebra, hyper, sites, rows)
        if given == "others":
            return row_by_row(known.chain.packing, steps_left_out(known))
        steps = row_by_row(known.chain.packing, known.density)
        last = jnp.arange(steps.shape[1])[None, :] == rows.length[:, None] - 1
        return steps + jnp.where(last, known.end[:, None], 0.0)

    return jax.lax.map(one, draws)
