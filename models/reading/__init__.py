"""From what a user has to `Data`: files, data frames, arrays, texts and named data sets. No JAX.

Imports `models.data` and `models.datasets`. `load_data` is the only door.
"""
