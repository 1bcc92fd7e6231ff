"""Discrete latents of a user's program, summed out by NumPyro's enumeration. Needs the optional package funsor.

Imports `inference.runtime` and `models` at most; `inference.engine.program` makes models of what this room returns.
"""
