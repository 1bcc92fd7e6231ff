"""Sums of the local step over rows that no compiled program holds, and the loop of the methods that read nothing else.

Imports `inference.engine` and what is below it.
"""
