"""Parts of `models.logistic_regression`: Pólya-Gamma augmentation, the prior, and a test for separable classes.

Imports `models.latents`, `models.rows` and what is below them.
"""
