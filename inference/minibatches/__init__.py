"""Steps of stochastic variational inference, which see some of the rows: in JAX, and by compiled loops on the host.

`inference.methods.cavi` takes them with ``batch_size``. Imports `inference.fixed_points` and what is below it.
"""
