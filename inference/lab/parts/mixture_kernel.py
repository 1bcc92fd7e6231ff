"""A Gibbs sampler of a mixture of unit Gaussians as `inference.certify` takes it."""

from typing import Any

import numpy as np


class MixtureKernel:
    """The student's functions as `inference.certify` takes a kernel of ``gmm_simple``."""

    location, strength = np.zeros(2), 1.0

    def __init__(self, student: Any) -> None:
        self.student = student
        self.blocks = {"component": self.components, "mean": self.means}

    def start(self, rng: Any, data: Any, sites: Any) -> Any:
        """As given."""
        return {"mean": sites["mean"], "component": sites["component"]}

    def step(self, rng: Any, state: Any, data: Any) -> Any:
        """One iteration."""
        found = self.student.gibbs_step(rng, data["x"], state["component"], state["mean"], self.location, self.strength)
        after = {"component": np.asarray(found[0]), "mean": np.asarray(found[1])}
        return after, after

    def sites(self, state: Any) -> Any:
        """All of it."""
        return state

    def components(self, rng: Any, state: Any, data: Any) -> Any:
        """The first half."""
        return state | {"component": np.asarray(self.student.draw_components(rng, data["x"], state["mean"]))}

    def means(self, rng: Any, state: Any, data: Any) -> Any:
        """The second half."""
        given = (data["x"], state["component"], self.location, self.strength, 2)
        return state | {"mean": np.asarray(self.student.draw_means(rng, *given))}
