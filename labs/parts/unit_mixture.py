"""A mixture of unit Gaussians: naive oracles, a Gibbs sampler as `inference.certify` takes it, and what typical slips give."""

from typing import Any

import numpy as np

from labs.parts.calls import AnswerError
from labs.parts.naive import exp_at_once, softmax

# ---------------------------------------------------------------------------------------------------------------------
# Naive oracles


def assignment_probs(x: Any, means: Any) -> Any:
    """Row by row."""
    return softmax([[-0.5 * sum((row - mean) ** 2) for mean in means] for row in x])


def draw_components(rng: Any, x: Any, means: Any) -> Any:
    """One draw of NumPy's for each row."""
    return np.array([rng.choice(len(means), p=probs / probs.sum()) for probs in assignment_probs(x, means)])


def mean_conditional(x: Any, components: Any, location: Any, strength: Any, num_components: Any) -> Any:
    """The prior counts as ``strength`` rows at ``location``."""
    centres, precisions = [], []
    for k in range(num_components):
        rows = [row for row, z in zip(x, components, strict=True) if z == k]
        precisions.append(strength + len(rows))
        centres.append(sum(rows, strength * np.asarray(location)) / precisions[-1])
    return np.array(centres), np.array(precisions)


def draw_means(rng: Any, x: Any, components: Any, location: Any, strength: Any, num_components: Any) -> Any:
    """One number after the other."""
    centre, precision = mean_conditional(x, components, location, strength, num_components)
    return np.array([[rng.normal(c, precision[k] ** -0.5) for c in centre[k]] for k in range(num_components)])


def gibbs_step(rng: Any, x: Any, components: Any, means: Any, location: Any, strength: Any) -> Any:
    """Components first."""
    components = draw_components(rng, x, means)
    return components, draw_means(rng, x, components, location, strength, len(means))


# ---------------------------------------------------------------------------------------------------------------------
# The kernel


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


# ---------------------------------------------------------------------------------------------------------------------
# Slips: values and draws, by formulas of their own


def counts(components: Any, num_components: int) -> Any:
    """Rows of each group, (K, 1)."""
    return np.bincount(components, minlength=num_components)[:, None]


def sums(x: Any, components: Any, num_components: int) -> Any:
    """The sum of the rows of each group, (K, D)."""
    return np.eye(num_components)[components].T @ x


def centre(x: Any, z: Any, location: Any, strength: Any, k: int) -> Any:
    """The right one."""
    return (strength * location + sums(x, z, k)) / (strength + counts(z, k))


def precision(x: Any, z: Any, location: Any, strength: Any, k: int) -> Any:
    """The right one."""
    return strength + counts(z, k)[:, 0]


def centre_of_mean(x: Any, z: Any, location: Any, strength: Any, k: int) -> Any:
    """The mean of a group in the place of its sum."""
    means = sums(x, z, k) / np.maximum(counts(z, k), 1)
    return (strength * location + means) / (strength + counts(z, k))


def cut_off(right: Any) -> Any:
    """The same formula, which leaves out the groups after the last that has rows."""

    def formula(x: Any, z: Any, location: Any, strength: Any, k: int) -> Any:
        return right(x, z, location, strength, k)[: int(z.max()) + 1]

    return formula


def columns(x: Any, means: Any) -> Any:
    """Each group's column sums to 1, in the place of each row; computed without underflow."""
    return softmax(logs(x, means).T).T


def logs(x: Any, means: Any) -> Any:
    """−½ ‖x − mean‖²."""
    return -0.5 * ((x[:, None] - means) ** 2).sum(-1)


def density(x: Any, means: Any) -> Any:
    """Its exp, and nothing else."""
    return np.exp(logs(x, means))


def densities_at_once(x: Any, means: Any) -> Any:
    """0 / 0 where all densities are too small."""
    return exp_at_once(logs(x, means))


def no_half(x: Any, means: Any) -> Any:
    """Twice the exponent."""
    return softmax(2 * logs(x, means))


def components_by_one_number(rng: Any, x: Any, means: Any) -> Any:
    """One random number for all rows."""
    probs = softmax(logs(x, means))
    return (rng.random() > probs.cumsum(1)[:, :-1]).sum(1)


def scaled_noise(power: float, rng: Any, *given: Any) -> Any:
    """Draws of means whose noise is the precision to a power; −½ is right."""
    middle = centre(*given)
    return middle + rng.normal(size=middle.shape) * precision(*given)[:, None] ** power


def same_noise(rng: Any, *given: Any) -> Any:
    """One random number for all means."""
    return centre(*given) + rng.normal() / np.sqrt(precision(*given))[:, None]
