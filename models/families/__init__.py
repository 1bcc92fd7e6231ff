"""Conjugate families of parameters (`models.base.Family`), and reading the priors that users set.

Imports `models.rows` and what is below it.
"""
