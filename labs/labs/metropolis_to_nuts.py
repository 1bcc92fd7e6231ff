"""From Metropolis to the No-U-Turn sampler."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from labs.parts.draws import Draws
from labs.parts.lab import Case, Iterations, Lab, Mistake, State, made_once
from labs.parts.values import Values

STORY = """\
Where no conditional can be drawn from, a sampler walks. Metropolis (1953) proposes a random step and sometimes
stays where it is. In many dimensions a random step leads nowhere, so Hamiltonian Monte Carlo gives the walker a
push and lets it roll along the slope, far away and still accepted. But how long should it roll? The No-U-Turn
sampler (2014) lets the path double until it turns back. You write all three, and each is a few lines.
"""
MATHS = """\
A step q → q' leaves a density π alone if it is as probable to go from q to q' as back, weighted by π: detailed
balance. Accepting a symmetric proposal with probability min(1, π(q') / π(q)) does that. With a momentum p the density
is exp(−energy), energy = −log π(q) + ½ p·p. Leapfrog can be run backwards, keeps volumes, and nearly keeps the
energy, so the same rule with the energy accepts nearly always.

A path that stops at its first turn would not be reversible: from its end one might have stopped elsewhere. So NUTS
doubles in random directions, throws away a half that turns within itself, and draws among all points that a
slice under the density allows: from each of these points the same path could have been built.
"""


def metropolis_step(rng: Any, q: Any, log_density: Any, scale: Any) -> Any:
    """With the ratio of densities itself."""
    proposal = np.array([rng.normal(value, scale) for value in q])
    ratio = math.exp(min(log_density(proposal) - log_density(q), 0.0))
    return proposal if rng.random() <= ratio else q


def leapfrog(q: Any, p: Any, gradient: Any, step_size: Any, num_steps: Any) -> Any:
    """Each step with two half steps of the momentum."""
    for _ in range(num_steps):
        p = p + step_size / 2 * gradient(q)
        q = q + step_size * p
        p = p + step_size / 2 * gradient(q)
    return q, p


def hmc_step(rng: Any, q: Any, log_density: Any, gradient: Any, step_size: Any, num_steps: Any) -> Any:
    """With energies."""
    p = rng.normal(size=len(q))
    end, momentum = leapfrog(q, p, gradient, step_size, num_steps)
    before, after = sum(p**2) / 2 - log_density(q), sum(momentum**2) / 2 - log_density(end)
    return end if rng.random() <= math.exp(min(before - after, 0.0)) else q


def is_turning(left: Any, right: Any, left_momentum: Any, right_momentum: Any) -> Any:
    """By the growth of the squared distance when either end moves on."""
    grows = [sum((right - left) * momentum) for momentum in (left_momentum, right_momentum)]
    return min(grows) < 0


# Cases: a Gaussian in the plane, whose coordinates are correlated

MEAN, ROOT = np.array([1.0, -0.5]), np.array([[1.0, 0.0], [0.8, 0.6]])
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def log_density(q: Any) -> Any:
    """Of the Gaussian, up to a constant."""
    return -0.5 * (q - MEAN) @ PRECISION @ (q - MEAN)


def gradient(q: Any) -> Any:
    """Its slope."""
    return -PRECISION @ (q - MEAN)


def _metropolis_cases(rng: np.random.Generator) -> list[Case]:
    given = {"q": np.array([1.6, 0.5]), "log_density": log_density}
    return [Case(f"{text} proposals", given | {"scale": scale}) for text, scale in (("near", 0.3), ("far", 2.5))]


def _leapfrog_cases(rng: np.random.Generator) -> list[Case]:
    given = {"q": rng.normal(size=2), "p": rng.normal(size=2), "gradient": gradient}
    return [Case(f"{steps} steps", given | {"step_size": 0.3, "num_steps": steps}) for steps in (1, 2, 9)]


def _hmc_cases(rng: np.random.Generator) -> list[Case]:
    given = {"log_density": log_density, "gradient": gradient}
    return [
        Case("from the top, small steps", {"q": MEAN + 0.01} | given | {"step_size": 0.3, "num_steps": 4}),
        Case("from the side, large steps", {"q": np.array([1.6, 0.8])} | given | {"step_size": 0.85, "num_steps": 3}),
        Case("downhill, where the path gains speed", {"q": np.array([3.2, 1.2])} | given | {"step_size": 0.5, "num_steps": 2}),
    ]


def _turning_cases(rng: np.random.Generator) -> list[Case]:
    left, right = np.array([-3.0, -1.0]), np.array([-1.0, 0.0])
    onward, back = np.array([1.0, 0.3]), np.array([-1.0, 0.4])
    return [
        Case("both go on", {"left": left, "right": right, "left_momentum": onward, "right_momentum": onward}),
        Case("both turn", {"left": left, "right": right, "left_momentum": back, "right_momentum": back}),
        Case("the right end turns", {"left": left, "right": right, "left_momentum": onward, "right_momentum": back}),
        Case("the left end turns", {"left": left, "right": right, "left_momentum": back, "right_momentum": onward}),
    ]


def _nuts_cases(rng: np.random.Generator) -> list[Case]:
    """Where slips show: draws of each mistake below deviate by ten standard errors or so in one of the cases."""
    given = {"log_density": log_density, "gradient": gradient}
    return [
        Case("from the side, large steps", {"q": MEAN + np.array([0.6, 1.3])} | given | {"step_size": 0.82}),
        Case("from far up the ridge, small steps", {"q": MEAN + np.array([2.0, 1.6])} | given | {"step_size": 0.3}),
        Case("from beside the ridge", {"q": MEAN + np.array([-1.2, 1.2])} | given | {"step_size": 0.6}),
    ]


def _always(rng: Any, q: Any, log_density: Any, scale: Any) -> Any:
    return q + scale * rng.normal(size=len(q))


def _scaled(change: Callable[[float], float], rng: Any, q: Any, log_density: Any, scale: Any) -> Any:
    return metropolis_step(rng, q, log_density, change(scale))


def _uphill(rng: Any, q: Any, log_density: Any, scale: Any) -> Any:
    proposal = _always(rng, q, log_density, scale)
    return proposal if log_density(proposal) > log_density(q) else q


def _not_logged(rng: Any, q: Any, log_density: Any, scale: Any) -> Any:
    proposal = _always(rng, q, log_density, scale)
    return proposal if rng.random() < log_density(proposal) - log_density(q) else q


def _until_accepted(rng: Any, q: Any, log_density: Any, scale: Any) -> Any:
    while (found := metropolis_step(rng, q, log_density, scale)) is q:
        pass
    return found


def _euler(q: Any, p: Any, gradient: Any, step_size: Any, num_steps: Any) -> Any:
    for _ in range(num_steps):
        q, p = q + step_size * p, p + step_size * gradient(q)
    return q


def _without_halves(q: Any, p: Any, gradient: Any, step_size: Any, num_steps: Any) -> Any:
    for _ in range(num_steps):
        p = p + step_size * gradient(q)
        q = q + step_size * p
    return q


def _last_whole(q: Any, p: Any, gradient: Any, step_size: Any, num_steps: Any) -> Any:
    end, momentum = leapfrog(q, p, gradient, step_size, num_steps)
    return momentum + 0.5 * step_size * gradient(end)


def _hmc(
    weighs: Callable[..., float], rng: Any, q: Any, log_density: Any, gradient: Any, step_size: Any, num_steps: Any
) -> Any:
    """With another rule of acceptance: weighs(gain of log density, gain of kinetic energy)."""
    p = rng.normal(size=len(q))
    end, momentum = leapfrog(q, p, gradient, step_size, num_steps)
    gain = log_density(end) - log_density(q)
    return end if np.log(rng.random()) < weighs(gain, 0.5 * momentum @ momentum - 0.5 * p @ p) else q


def _both_turn(left: Any, right: Any, left_momentum: Any, right_momentum: Any) -> Any:
    return (right - left) @ left_momentum < 0 and (right - left) @ right_momentum < 0


def _log_weight(point: Any, log_density: Any) -> Any:
    """Minus the energy of (q, p)."""
    return log_density(point[0]) - 0.5 * sum(point[1] ** 2)


def _bends(path: Any) -> Any:
    """Whether a path of 2^depth points, from left to right, turns: as a whole, or one of its halves, quarters, …"""
    if len(path) == 1:
        return False
    middle, (left, right) = len(path) // 2, (path[0], path[-1])
    return _bends(path[:middle]) or _bends(path[middle:]) or is_turning(left[0], right[0], left[1], right[1])


def _nuts(slip: str, rng: Any, q: Any, log_density: Any, gradient: Any, step_size: Any) -> Any:
    """With the whole path as a list, from left to right, and with one slip; "" is right."""
    path = [(q, rng.normal(size=len(q)))]
    log_u = _log_weight(path[0], log_density) + (-math.inf if slip == "no slice" else math.log(1 - rng.random()))
    counted = [] if slip == "without q" else [q]
    for depth in range(10):
        forward = slip == "forward" or rng.random() < 0.5
        half = [path[-1] if forward else path[0]]
        for _ in range(2**depth):
            half.append(leapfrog(*half[-1], gradient, step_size if forward else -step_size, 1))
        new = half[1:] if forward else half[:0:-1]
        path = path + new if forward else new + path
        bad = _bends(new) or min(_log_weight(point, log_density) for point in new) < log_u - 1000
        ends = is_turning(path[0][0], path[-1][0], path[0][1], path[-1][1]) and slip != "endless"
        if slip == "turning half" or (not bad and not (ends and slip == "last half")):
            counted += [point[0] for point in new if _log_weight(point, log_density) >= log_u]
        if bad or ends:
            break
    return path[-1][0] if slip == "end" else counted[int(rng.random() * len(counted))] if counted else q


nuts_step = partial(_nuts, "")
METROPOLIS = Draws(
    "metropolis_step",
    5,
    _metropolis_cases,
    metropolis_step,
    (
        Mistake("`metropolis_step` accepts every proposal: a random walk, which forgets the density", _always),
        Mistake("`metropolis_step` accepts only what is higher: that climbs; accept lower points sometimes", _uphill),
        Mistake(
            "`metropolis_step` compares a uniform number with a difference of logarithms: take its logarithm, too", _not_logged
        ),
        Mistake("`metropolis_step` ignores scale: propose q + scale · (normal numbers)", partial(_scaled, lambda s: 1.0)),
        Mistake("`metropolis_step` takes scale for a variance; it is a standard deviation", partial(_scaled, np.sqrt)),
        Mistake("`metropolis_step` squares scale; it is a standard deviation", partial(_scaled, np.square)),
        Mistake("`metropolis_step` proposes until something is accepted: a refused step returns q again", _until_accepted),
    ),
    number=1_600,
)
LEAPFROG = Values(
    "leapfrog",
    5,
    _leapfrog_cases,
    leapfrog,
    (
        Mistake("`leapfrog` moves q and p from the same old values (Euler): p takes half a step first", _euler, "q"),
        Mistake("`leapfrog` takes a whole step of p first; it should be half a step", _without_halves, "q"),
        Mistake("`leapfrog` ends with a whole step of p; it should be half a step", _last_whole, "p"),
        Mistake(
            "`leapfrog` climbs the wrong way: p changes by + ε gradient",
            lambda q, p, slope, *rest: leapfrog(q, p, lambda at: -slope(at), *rest)[0],
            "q",
        ),
    ),
    ("q", "p"),
)
HMC = Draws(
    "hmc_step",
    5,
    _hmc_cases,
    hmc_step,
    (
        Mistake("`hmc_step` accepts every path: its error in energy must be weighed", partial(_hmc, lambda gain, kinetic: 0.0)),
        Mistake(
            "`hmc_step` accepts by the density alone: the energy has the momentum, too",
            partial(_hmc, lambda gain, kinetic: gain),
        ),
        Mistake("`hmc_step` adds the gain of kinetic energy; subtract it", partial(_hmc, lambda gain, kinetic: gain + kinetic)),
        Mistake(
            "`hmc_step` has p·p for the kinetic energy; it is ½ p·p", partial(_hmc, lambda gain, kinetic: gain - 2 * kinetic)
        ),
        Mistake("`hmc_step` takes one leapfrog step; take num_steps", lambda r, q, d, g, e, n: hmc_step(r, q, d, g, e, 1)),
    ),
)
TURNING = Values(
    "is_turning",
    2,
    _turning_cases,
    is_turning,
    (
        Mistake("`is_turning` looks at the right end only", lambda left, right, p, last: (right - left) @ last < 0),
        Mistake("`is_turning` looks at the left end only", lambda left, right, p, last: (right - left) @ p < 0),
        Mistake("`is_turning` is the other way round: a turn has a negative product", lambda *given: not is_turning(*given)),
        Mistake("`is_turning` wants both ends to turn; one is enough", _both_turn),
        Mistake("`is_turning` adds left and right: it is right − left", lambda left, *given: is_turning(-left, *given)),
    ),
    ("answer",),
)
NUTS = Draws(
    "nuts_step",
    6,
    _nuts_cases,
    nuts_step,
    (
        Mistake("`nuts_step` returns an end of the path: draw among the points that count", partial(_nuts, "end")),
        Mistake("`nuts_step` has no level: all points count, as if the density were flat", partial(_nuts, "no slice")),
        Mistake("`nuts_step` always doubles forward: draw the direction each time", partial(_nuts, "forward")),
        Mistake("`nuts_step` keeps points of a half that turns: throw them all away", partial(_nuts, "turning half")),
        Mistake("`nuts_step` leaves q out: it is one of the points that count", partial(_nuts, "without q")),
        Mistake("`nuts_step` does not ask whether the whole path turns: it stops too late", partial(_nuts, "endless")),
        Mistake(
            "`nuts_step` drops the last half where the whole path turns: drop it only if it turns within itself",
            partial(_nuts, "last half"),
        ),
        Mistake("`nuts_step` never moves: draw among the points of the path", lambda rng, q, *given: q),
    ),
    patience=12.0,
    number=2_400,
)


@made_once
def data() -> dict[str, np.ndarray]:
    """The mean and the covariance of the Gaussian that is sampled."""
    return {"mean": MEAN, "covariance": ROOT @ ROOT.T}


WALKS = ("metropolis", "hmc", "nuts")
LENGTH = 30


def _start() -> State:
    path = np.full((LENGTH + 1, 2), np.nan)
    path[0] = [-1.5, -2.5]
    return dict.fromkeys(WALKS, path)


def _advance(student: Any, state: State, iteration: int) -> State:
    rng = np.random.default_rng(iteration)
    found = {}
    for walk, step in zip(
        WALKS,
        (
            lambda q: student.metropolis_step(rng, q, log_density, 0.5),
            lambda q: student.hmc_step(rng, q, log_density, gradient, 0.3, 6),
            lambda q: student.nuts_step(rng, q, log_density, gradient, 0.3),
        ),
        strict=True,
    ):
        found[walk] = state[walk].copy()
        found[walk][iteration + 1] = step(state[walk][iteration])
    return found


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import walks

    walks(axes, state, MEAN, ROOT)


ITERATIONS = Iterations(_start, _advance, LENGTH, panels=_panels, random=True)
LAB = Lab(
    "metropolis_to_nuts",
    "From Metropolis to NUTS",
    120,
    STORY,
    MATHS,
    (METROPOLIS, LEAPFROG, HMC, TURNING, NUTS),
    data,
    given=("double",),
    iterations=ITERATIONS,
)
