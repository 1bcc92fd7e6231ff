"""Convergence of methods that climb: a forecast from their gains, and extrapolation between their sweeps.

Imports `models.base` alone.
"""
