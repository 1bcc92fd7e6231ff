"""The checks that certificates are made of: densities, kernels, draws and optima against the oracles.

Imports the oracles, `inference.methods` and what is below them.
"""
