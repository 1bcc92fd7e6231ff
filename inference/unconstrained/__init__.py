"""Samplers of the posterior on ℝᵈ, whose steps other libraries take: NumPyro, BlackJAX, nutpie.

A posterior is one log density of one vector (`inference.unconstrained.density`), whatever the model. The methods here have what
all methods have: checkpoints, progress, draws after Ctrl-C, the result tree. No library is imported before it is needed.
"""
