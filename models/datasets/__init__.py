"""Named data sets: generators with known truth, small published tables, and tables that libraries ship. No JAX.

Imports `models.data` alone.
"""
