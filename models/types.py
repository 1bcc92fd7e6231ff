"""Names of the arrays that go through every model."""

from collections.abc import Mapping
from typing import Any

Pytree = Any
Stats = Pytree  # sufficient statistics, and natural parameters of q(θ): the same structure
Sites = Mapping[str, Any]  # NumPyro site name -> array: the parameters θ
Hyper = Mapping[str, Any]  # hyperparameter name -> array
