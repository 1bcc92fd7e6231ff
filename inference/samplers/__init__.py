"""A sampler of one's own: what it samples (`target`), whether its kernel is right (`certify`), and whether its draws are.

Imports `inference.certificates`, `inference.fitting` and what is below them.
"""
