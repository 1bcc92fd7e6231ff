# mypy: allow-untyped-defs
"""From Metropolis to the No-U-Turn sampler: random walks, then walks that know the slope, then walks that know when to turn.

Samplers see a density through log_density(q), a number up to a constant, and gradient(q), its slope (D,).
A particle at q has a momentum p and the energy −log_density(q) + ½ p·p.
"""

import numpy as np


def metropolis_step(rng, q, log_density, scale):
    """One Metropolis step: propose q + scale · (standard normal numbers), accept with probability min(1, ratio of densities).

    Where the proposal is refused, the next point is q again.

    rng: a `numpy.random.Generator`; q: (D,); scale: a number. Returns (D,).

    >>> found = metropolis_step(np.random.default_rng(0), np.array([2.0]), lambda q: 0.0 if q[0] == 2.0 else -np.inf, 1.0)
    >>> np.allclose(found, [2.0], atol=0.001)
    True
    """
    proposal = q + scale * rng.normal(size=len(q))
    with np.errstate(divide="ignore"):
        return proposal if np.log(rng.random()) < log_density(proposal) - log_density(q) else q


def leapfrog(q, p, gradient, step_size, num_steps):
    """Follow the energy's level: half a step of p, then steps of q and p in turn, and half a step of p at the end.

        p ← p + ½ ε gradient(q)
        q ← q + ε p,   p ← p + ε gradient(q)      (num_steps times; the last p with ½ ε)

    q, p: (D,). Returns (q, p), both new.

    >>> q, p = leapfrog(np.array([1.0]), np.array([0.0]), lambda q: -q, 0.1, 1)
    >>> np.allclose(q, [0.995]), np.allclose(p, [-0.09975])
    (True, True)
    """
    p = p + 0.5 * step_size * gradient(q)
    for step in range(num_steps):
        q = q + step_size * p
        p = p + (0.5 if step == num_steps - 1 else 1.0) * step_size * gradient(q)
    return q, p


def hmc_step(rng, q, log_density, gradient, step_size, num_steps):
    """One step of Hamiltonian Monte Carlo: a standard normal momentum, `leapfrog`, and acceptance by the energy.

    Accept the end with probability min(1, exp(energy at the start − energy at the end)), else stay at q. Returns (D,).

    >>> found = hmc_step(np.random.default_rng(0), np.array([1.0]), lambda q: 0.0, lambda q: 0 * q, 0.0, 4)
    >>> np.allclose(found, [1.0], atol=0.001)
    True
    """
    p = rng.normal(size=len(q))
    end, momentum = leapfrog(q, p, gradient, step_size, num_steps)
    gained = log_density(end) - log_density(q) - 0.5 * momentum @ momentum + 0.5 * p @ p
    with np.errstate(divide="ignore"):
        return end if np.log(rng.random()) < gained else q


def is_turning(left, right, left_momentum, right_momentum):
    """Whether going on would bring the two ends of a path closer: at the left or at the right end.

    True where (right − left) · left_momentum < 0 or (right − left) · right_momentum < 0. Returns True or False.

    >>> bool(is_turning(np.array([0.0]), np.array([1.0]), np.array([1.0]), np.array([-0.5])))
    True
    """
    between = right - left
    return bool(between @ left_momentum < 0 or between @ right_momentum < 0)


def nuts_step(rng, q, log_density, gradient, step_size):
    """One step of the No-U-Turn sampler, in the form of a slice.

    Draw p, and a level: log u = log_density(q) − ½ p·p + log(a uniform number). Points of the path count if their
    log_density(q) − ½ p·p is at least log u. Then double the path, until a turn:

    1. Draw a direction, −1 or 1 with equal probability.
    2. Build 2^depth more leapfrog steps from the path's end in that direction, where depth is 0, 1, 2, …: the number of
       doublings so far. `double` below does it, and says which points of the new half count, and whether it turns.
    3. If the new half does not turn, its points that count join the others (q itself is one of them).
       Stop if it does turn, or if the whole path turns (`is_turning` of its two ends), or after ten doublings.

    The next point is one of the points that count, each with equal probability. Returns (D,).

    >>> nuts_step(np.random.default_rng(1), np.array([1.0]), lambda q: -0.5 * q @ q, lambda q: -q, 0.5).shape
    (1,)
    """
    p = rng.normal(size=len(q))
    log_u = log_density(q) - 0.5 * p @ p + np.log(1 - rng.random())
    ends, points, depth = {-1: (q, p), 1: (q, p)}, [q], 0
    while True:
        direction = int(rng.choice([-1, 1]))
        path = double(ends[direction], direction, depth, log_u, log_density, gradient, step_size)
        ends[direction] = path[1 if direction == 1 else 0]
        if path[3]:
            break
        points += path[2]
        depth += 1
        if is_turning(ends[-1][0], ends[1][0], ends[-1][1], ends[1][1]) or depth == 10:
            break
    return points[rng.integers(len(points))]


def double(end, direction, depth, log_u, log_density, gradient, step_size):
    """Given: 2^depth leapfrog steps from `end` = (q, p), in direction −1 or 1, by two halves of half as many steps.

    Returns (left end, right end, points that count, whether the path turns within itself or leaves the level far below),
    where an end is (q, p); of the two the new one is the right end in direction 1, and the left end in direction −1.
    """
    if depth == 0:
        q, p = leapfrog(end[0], end[1], gradient, direction * step_size, 1)
        level = log_density(q) - 0.5 * p @ p
        return (q, p), (q, p), [q] if level >= log_u else [], level < log_u - 1000
    first = double(end, direction, depth - 1, log_u, log_density, gradient, step_size)
    if first[3]:
        return first
    onward = first[1 if direction == 1 else 0]
    second = double(onward, direction, depth - 1, log_u, log_density, gradient, step_size)
    left, right = (first[0], second[1]) if direction == 1 else (second[0], first[1])
    turns = second[3] or is_turning(left[0], right[0], left[1], right[1])
    return left, right, first[2] + second[2], turns
