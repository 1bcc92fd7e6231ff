"""The progress of a run when it was interrupted, in words."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

LEFT_OUT = "left_out"  # attribute of an interrupted result: the options that it leaves out, because they take long


def so_far(tree: "xr.DataTree") -> str:
    """The content of an interrupted result: iterations of its search, or else draws out of those requested.

    >>> so_far(fit(model, data, "gibbs"))  # interrupted
    '137 of 1000 draws per chain'
    """
    options = json.loads(tree.attrs.get("options", "{}"))
    if "optimization" in tree:
        number = int(tree["optimization"]["iterations"].max())
        return f"{number}{_of(options.get('max_iter'))} iterations"
    number = tree["posterior"].sizes["draw"]
    return f"{number}{_of(options.get('num_samples'))} draws per chain"


def _of(total: int | None) -> str:
    return "" if total is None else f" of {total}"
