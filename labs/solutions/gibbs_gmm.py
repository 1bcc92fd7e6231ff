# mypy: allow-untyped-defs
"""Gibbs sampling for a mixture of Gaussians of unit variance with equal weights.

means_k ~ Normal(location, I / strength),  z_n uniform on 0, …, K − 1,  x_n | z_n = k ~ Normal(means_k, I)
"""

import numpy as np


def assignment_probs(x, means):
    """p(z_n = k | x_n, means): proportional to exp(−½ ‖x_n − means_k‖²), and every row sums to 1.

    x: (N, D); means: (K, D). Returns (N, K).

    >>> np.allclose(assignment_probs(np.array([[0.0]]), np.array([[-1.0], [1.0]])), [[0.5, 0.5]], atol=0.001)
    True
    """
    log_p = -0.5 * ((x[:, None, :] - means) ** 2).sum(-1)
    scaled = np.exp(log_p - log_p.max(1, keepdims=True))
    return scaled / scaled.sum(1, keepdims=True)


def draw_components(rng, x, means):
    """Draw z given the means: every row on its own, from its `assignment_probs`.

    rng: a `numpy.random.Generator`; x: (N, D); means: (K, D). Returns (N,) whole numbers from 0 to K − 1.

    >>> found = draw_components(np.random.default_rng(0), np.array([[0.0], [9.0]]), np.array([[0.0], [9.0]]))
    >>> np.array_equal(found, [0, 1])
    True
    """
    below = assignment_probs(x, means).cumsum(1)
    return (rng.random(len(x))[:, None] > below[:, :-1]).sum(1)


def mean_conditional(x, components, location, strength, num_components):
    """p(means_k | z, x) is Normal(centre_k, I / precision_k).

        precision_k = strength + n_k,    centre_k = (strength · location + Σ of the rows of k) / precision_k

    where n_k is the number of rows with z_n = k; it can be 0.

    x: (N, D); components: (N,); location: (D,); strength: a number. Returns (centre (K, D), precision (K,)).

    >>> centre, precision = mean_conditional(np.array([[3.0], [5.0]]), np.array([0, 0]), np.array([1.0]), 2.0, 2)
    >>> np.allclose(centre, [[2.5], [1.0]]), np.allclose(precision, [4.0, 2.0])
    (True, True)
    """
    one_hot = np.eye(num_components)[components]
    precision = strength + one_hot.sum(0)
    centre = (strength * location + one_hot.T @ x) / precision[:, None]
    return centre, precision


def draw_means(rng, x, components, location, strength, num_components):
    """Draw the means given z, from their `mean_conditional`. Returns (K, D).

    >>> found = draw_means(np.random.default_rng(0), np.array([[3.0]]), np.array([0]), np.array([3.0]), 1e12, 2)
    >>> np.allclose(found, [[3.0], [3.0]], atol=0.001)
    True
    """
    centre, precision = mean_conditional(x, components, location, strength, num_components)
    return centre + rng.normal(size=centre.shape) / np.sqrt(precision)[:, None]


def gibbs_step(rng, x, components, means, location, strength):
    """One iteration: draw the components given the means, then the means given the new components.

    components: (N,) and means: (K, D) are the current ones. Returns (components, means), both new.

    >>> x = np.array([[0.0], [9.0]])
    >>> found = gibbs_step(np.random.default_rng(0), x, np.array([1, 1]), x.copy(), np.zeros(1), 1.0)[0]
    >>> np.array_equal(found, [0, 1])
    True
    """
    components = draw_components(rng, x, means)
    return components, draw_means(rng, x, components, location, strength, len(means))
