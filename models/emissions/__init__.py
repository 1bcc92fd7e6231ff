"""Likelihood blocks p(x | component), shared by mixtures, classifiers and Markov models; `block` has their contract.

Imports `models.latents`, `models.families`, `models.distributions` and what is below them.
"""
