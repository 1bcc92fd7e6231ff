"""Encoded rows, the arrays that program and algebra share: missing cells, subtracting an origin, packed sequences.

Imports `models.base` and the rooms of data.
"""
