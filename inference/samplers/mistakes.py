"""Mistakes in the form of a kernel that is certified, each as one message: its output must be like its input."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from inference.certificates.oracles.oracle import Oracle, Sites
from inference.methods.kernel_mistakes import kind_of
from models.errors import ZooError, did_you_mean

MANY = 50  # tables among which every value that a latent may have occurs


def require_block_state(kernel: str, name: str, before: Any, after: Any) -> Any:
    """The state that a block returns; raises `ZooError` for something else."""
    if after is None or (isinstance(after, tuple) and not isinstance(before, tuple)):
        raise ZooError(
            f"block {name} of {kernel} returns {kind_of(after)}; it returns the new state alone, a {type(before).__name__} as "
            "start does"
        )
    return after


def require_sites(kernel: str, sites: Any) -> Mapping[str, Any]:
    """The parameters of a state; raises `ZooError` for anything but a dict."""
    if not isinstance(sites, Mapping):
        raise ZooError(f"sites of {kernel} returns {kind_of(sites)}; it returns a dict of parameters and latents by name")
    return sites


def require_like(kernel: str, oracle: Oracle, given: Sites, after: Sites, others: Iterable[str]) -> None:
    """Raise `ZooError` for parameters or latents (R, …) of other names, shapes or kinds than those given."""
    wanted = [name for name in given if name != oracle.latent]
    if lacking := [name for name in wanted if name not in after]:
        returned = ", ".join([*after, *sorted(others)]) or "none of them"
        unknown = next(iter([*sorted(others), *(name for name in after if name not in given)]), "")
        near = did_you_mean(unknown, lacking)
        raise ZooError(f"{kernel} returns {returned}, and the sites of {oracle.model} are {', '.join(wanted)}{near}")
    for name, value in after.items():
        if value.shape != given[name].shape:
            raise ZooError(f"{kernel} returns {name} of shape {value.shape[1:]}, and it has {given[name].shape[1:]}")
        if given[name].dtype.kind == "i":
            _require_codes(kernel, name, value, int(given[name].max()) if len(value) >= MANY else None)


def _require_codes(kernel: str, name: str, value: np.ndarray, most: int | None) -> None:
    if value.dtype.kind not in "iu" or value.min() < 0:
        raise ZooError(f"{kernel} returns {name} as {value.ravel()[:3]}…; they are whole numbers from 0")
    if most is not None and value.max() > most:
        raise ZooError(f"{kernel} returns {name} with a {value.max()}; they are whole numbers from 0 to {most}")
