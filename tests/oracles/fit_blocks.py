"""`inference.fit` to rows in blocks, with the arguments of `inference.in_blocks` among its own."""

from inspect import signature

from inference import fit, in_blocks

OF_BLOCKS = set(signature(in_blocks).parameters) - {"rows"}


def fit_blocks(model, rows, method="em", **given):
    """The result of a fit to rows in blocks."""
    of_blocks = {name: given.pop(name) for name in OF_BLOCKS & set(given)}
    return fit(model, in_blocks(rows, **of_blocks), method, **given)
