"""Recursions of chains as loops compiled by Numba, for rows that lie on the host. No JAX.

Imports `models.compilation` and `models.simd`.
"""
