"""Gaussian blocks, and Student-t blocks, which give every row of a Gaussian a factor on its precision.

Imports `models.emissions` and what is below it.
"""
