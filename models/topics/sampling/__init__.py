"""Collapsed Gibbs sampling of topics, compiled by Numba: corpora, chains, sampling kernels, particle filters. No JAX.

Imports `models.data` and `models.base`.
"""
