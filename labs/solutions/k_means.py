# mypy: allow-untyped-defs
"""k-means: groups of points around centres, by two steps that take turns."""

import numpy as np


def assign(x, centres):
    """The nearest centre of every point, by squared Euclidean distance; of two at the same distance the first.

    x: (N, D) points; centres: (K, D). Returns (N,) whole numbers from 0 to K − 1.

    >>> np.array_equal(assign(np.array([[0.0], [1.0], [5.0]]), np.array([[0.0], [4.0]])), [0, 0, 1])
    True
    """
    distance = ((x[:, None, :] - centres[None, :, :]) ** 2).sum(-1)
    return distance.argmin(1)


def move(x, labels, centres):
    """Every centre moves to the mean of its points; a centre without points stays where it is.

    x: (N, D); labels: (N,) from `assign`; centres: (K, D), where they are now. Returns (K, D), a new array.

    >>> found = move(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 2]), np.array([[9.0], [7.0], [9.0]]))
    >>> np.allclose(found, [[0.5], [7.0], [5.0]], atol=0.001)
    True
    """
    moved = np.array(centres, dtype=float)
    for k in range(len(centres)):
        if (labels == k).any():
            moved[k] = x[labels == k].mean(0)
    return moved


def distortion(x, labels, centres):
    """What k-means makes small: the sum over all points of the squared distance to their own centre. Returns a number.

    J = Σ_n ‖x_n − centre of label_n‖²

    >>> np.allclose(distortion(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1]), np.array([[0.0], [3.0]])), 5.0, atol=0.001)
    True
    """
    return ((x - centres[labels]) ** 2).sum()


def k_means(x, centres):
    """Assign and move in turn, until an iteration changes no centre. Returns (centres (K, D), labels (N,)).

    The labels are those of the final centres.

    >>> centres, labels = k_means(np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([[0.0], [1.0]]))
    >>> np.allclose(centres, [[0.5], [5.5]]), np.array_equal(labels, [0, 0, 1, 1])
    (True, True)
    """
    while True:
        labels = assign(x, centres)
        moved = move(x, labels, centres)
        if np.allclose(moved, centres):
            return moved, labels
        centres = moved
