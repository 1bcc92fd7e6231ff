"""Sums of the local step over rows that are not resident, and the loop of the methods that read only such sums.

Imports `inference.engine` and what is below it.
"""
