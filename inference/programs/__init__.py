"""A user's NumPyro function as a spec: how it gets its arguments, and its discrete latents summed out by enumeration.

Imports `inference.runtime` and `models` at most; `inference.engine.program` makes models of these specs.
"""
