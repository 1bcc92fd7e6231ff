"""Symmetric posteriors, handled after the fit: relabelling, rotation, and summaries that need neither.

Imports `inference.engine`.
"""
