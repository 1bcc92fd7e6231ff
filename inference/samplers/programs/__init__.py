"""A user's NumPyro program: parameters and data drawn from it (`simulator`), fits of these data ranked (`calibration`).

`inference.certify(program, data=…)` makes a report of it. Imports `inference.certificates.checks` and what is below it.
"""
