"""Compiled loops on the host: their contract, how Numba compiles them, vectors, and the private folder that keeps them.

Imports `models.errors` and what is below it.
"""
