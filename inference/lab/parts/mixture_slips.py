"""What typical slips in a mixture of unit Gaussians give: values and draws, by formulas of their own."""

from typing import Any

import numpy as np


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


def softmax(logs: Any) -> Any:
    """Rows that sum to 1."""
    scaled = np.exp(logs - logs.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def density(x: Any, means: Any) -> Any:
    """exp(−½ ‖x − mean‖²), and nothing else."""
    return np.exp(-0.5 * ((x[:, None] - means) ** 2).sum(-1))


def columns(x: Any, means: Any) -> Any:
    """Each group's column sums to 1, in the place of each row; computed without underflow."""
    logs = -0.5 * ((x[:, None] - means) ** 2).sum(-1)
    return softmax(logs.T).T


def exp_at_once(x: Any, means: Any) -> Any:
    """0 / 0 where all densities are too small."""
    found = density(x, means)
    return found / found.sum(1, keepdims=True)


def no_half(x: Any, means: Any) -> Any:
    """Twice the exponent."""
    return softmax(-((x[:, None] - means) ** 2).sum(-1))


def components_by_one_number(rng: Any, x: Any, means: Any) -> Any:
    """One random number for all rows."""
    probs = softmax(-0.5 * ((x[:, None] - means) ** 2).sum(-1))
    return (rng.random() > probs.cumsum(1)[:, :-1]).sum(1)


def scaled_noise(power: float, rng: Any, *given: Any) -> Any:
    """Draws of means whose noise is the precision to a power; −½ is right."""
    middle = centre(*given)
    return middle + rng.normal(size=middle.shape) * precision(*given)[:, None] ** power


def same_noise(rng: Any, *given: Any) -> Any:
    """One random number for all means."""
    return centre(*given) + rng.normal() / np.sqrt(precision(*given))[:, None]
