"""A user's sampler: the posterior that it samples (`target`), and whether its kernel (`certify`) and its draws are right.

Imports `inference.certificates`, `inference.fitting` and what is below them.
"""
