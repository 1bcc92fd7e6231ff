"""Strict settings for all tests: double precision, warnings are errors (pyproject)."""

import jax

jax.config.update("jax_enable_x64", True)
