"""How methods that climb converge: what their gains forecast, and extrapolation between their sweeps.

Imports `models.base` alone.
"""
