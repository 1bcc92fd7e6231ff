"""Recursions of chains as loops compiled by Numba, for rows that lie on the host. No JAX.

Imports `models.host.compilation` and `models.host.simd`.
"""
