"""The parts of methods: the task, the sweep, the driver of chains, starts, evaluation at a point.

Imports `inference.runtime` and the contract, `models.base`.
"""
