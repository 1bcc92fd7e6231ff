"""Several results side by side: one table, criteria, evidence by thermodynamic integration, refits without single rows.

Imports `inference.fitting`, `inference.predictions` and what is below them.
"""
