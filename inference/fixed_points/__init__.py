"""Methods that climb: sweeps of several starts, in one compiled program or by loops on the host, until each has converged.

Imports `inference.engine` and what is below it.
"""
