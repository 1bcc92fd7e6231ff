"""Readers of files, data frames, arrays, texts and named data sets into `Data`. No JAX.

Imports `models.data` and `models.datasets`. `load_data` is the only entry point.
"""
