"""A Gibbs sampler of a mixture of unit Gaussians as `inference.certify` takes it."""

from typing import Any

import numpy as np

from inference.lab.parts.calls import AnswerError


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
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise AnswerError("`gibbs_step` should return 2 values: components, means")
        after = {
            "component": shaped("gibbs_step", found[0], state["component"]),
            "mean": shaped("gibbs_step", found[1], state["mean"]),
        }
        return after, after

    def sites(self, state: Any) -> Any:
        """All of it."""
        return state

    def components(self, rng: Any, state: Any, data: Any) -> Any:
        """The first half."""
        found = self.student.draw_components(rng, data["x"], state["mean"])
        return state | {"component": shaped("draw_components", found, state["component"])}

    def means(self, rng: Any, state: Any, data: Any) -> Any:
        """The second half."""
        given = (data["x"], state["component"], self.location, self.strength, 2)
        return state | {"mean": shaped("draw_means", self.student.draw_means(rng, *given), state["mean"])}


def shaped(function: str, value: Any, before: Any) -> Any:
    """A value as an array; raises `AnswerError` where its shape is not that of the value before."""
    found = np.asarray(value)
    if found.shape == np.shape(before):
        return found
    empty = ": is a group without rows left out?" if function != "draw_components" else ""
    raise AnswerError(f"`{function}` returns shape {found.shape}, and should return {np.shape(before)}{empty}")
