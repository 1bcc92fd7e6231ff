"""The quantities of a result by which chains, methods and samplers are compared: no symmetry of the posterior changes them."""

from itertools import product

import numpy as np
import xarray as xr

from inference.identification.invariants import summaries_of


def quantities_of(tree: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """Functionals, and summaries of every site that no symmetry changes: values (chain, draw, Q) and names (Q,).

    Those that are infinite or no number at some draw are left out.
    """
    functionals, sites = tree["functionals"].to_dataset(), summaries_of(tree)
    chains, draws = functionals.sizes["chain"], functionals.sizes["draw"]
    parts = [value.values.reshape(chains, draws, -1) for value in functionals.data_vars.values()]
    drawn = np.concatenate([*parts, sites.values.reshape(chains, draws, -1)], axis=2).astype(np.float64)
    names = np.array([*flattened(functionals.isel(chain=0, draw=0, drop=True)), *sites.names])
    finite = np.isfinite(drawn).all((0, 1))
    return drawn[..., finite], names[finite]


def flattened(dataset: xr.Dataset) -> dict[str, float]:
    """Every entry of every variable, by name and labels."""
    flat: dict[str, float] = {}
    for name, variable in dataset.data_vars.items():
        labels = product(*([str(label) for label in variable.coords[dim].values] for dim in variable.dims))
        names = (f"{name}[{', '.join(each)}]" if each else str(name) for each in labels)
        flat |= dict(zip(names, variable.values.ravel().tolist(), strict=True))
    return flat
