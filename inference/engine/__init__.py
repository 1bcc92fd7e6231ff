"""The parts of methods: the task, the sweep, drivers of chains and fixed points, starts, evaluation at a point.

Imports `inference.runtime` and the contract, `models.base`.
"""
