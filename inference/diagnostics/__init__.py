"""Is a result fit for use? The table of verdicts, its measurements, Pareto-smoothed weights, optima on the boundary.

Imports `inference.results`, `inference.identification` and `inference.engine`.
"""
