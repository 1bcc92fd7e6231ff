"""Gibbs sampling for a mixture of Gaussians of unit variance."""

from typing import Any

import numpy as np

from labs.parts import unit_mixture as slips
from labs.parts.calls import AnswerError
from labs.parts.draws import Draws
from labs.parts.kernel import Kernel
from labs.parts.lab import Case, Iterations, Lab, Mistake, State, made_once
from labs.parts.naive import exp_less_largest_of_all, softmax
from labs.parts.unit_mixture import (
    MixtureKernel,
    assignment_probs,
    draw_components,
    draw_means,
    gibbs_step,
    mean_conditional,
)
from labs.parts.values import Values

STORY = """\
EM gives one best answer. How sure are we of it? A Gibbs sampler draws from the posterior of the group means: it
draws each unknown given all others, in turn. In the long run it visits each value as often as the posterior says.
You write the two draws and put them together. The grader then starts your sampler at exact draws of the posterior, a
few thousand times. After the steps of a right sampler the draws still have that distribution.
"""
MATHS = """\
Given the means, the rows are independent and p(z_n = k | x_n, means) ∝ exp(−½ ‖x_n − means_k‖²), because all
groups are equally probable and equally wide. Given z, the groups are independent: the prior is a normal
density with precision `strength`, and every row of the group adds precision 1. The posterior mean is the average of
prior location and rows, weighted by precision.

Iterating the two leaves the posterior p(means, z | x) unchanged, because each of them does.
"""


AFTERWARDS = """\
## Your step inside the zoo

`inference.fit` runs any object that has `init` and `step`. So a small class makes a method of your `gibbs_step`, and
`compare` puts it beside the zoo's own Gibbs sampler. (In the notebook `gibbs_step` is there, and need not be imported.)

```python
import numpy as np
from gibbs_gmm import gibbs_step

from inference import compare, fit
from models import MODELS, load_data


class MyStep:
    def init(self, rng, data):
        return np.zeros(len(data["x"]), int), rng.normal(size=(2, 2))

    def step(self, rng, state, data):
        components, means = gibbs_step(rng, data["x"], *state, np.zeros(2), 1.0)
        return (components, means), {"mean": means}


data = load_data(np.load("data.npz")["x"])
prior = {"component": {"location": [0.0, 0.0], "strength": 1.0}}
model = MODELS["gmm_simple"](data, num_components=2, prior=prior)
mine = fit(model, data, MyStep(), compiled=False, num_warmup=200, num_samples=500)
compared = compare({"mine": mine, "gibbs": fit(model, data, "gibbs", num_warmup=200, num_samples=500)})
print(compared)
```

Their log joint densities and their elpd agree, but for Monte Carlo errors.
"""


# ---------------------------------------------------------------------------------------------------------------------
# Cases and mistakes; the naive oracles are in parts/unit_mixture.py


def _prob_cases(rng: np.random.Generator) -> list[Case]:
    """Far rows are not all as far: the largest of all logarithms is no help for the others."""
    x, means = rng.normal(size=(10, 2)), rng.normal(size=(3, 2))
    far = x + 40 + 20 * (np.arange(10)[:, None] % 2)
    return [Case("near", {"x": x, "means": means}), Case("densities too small for exp", {"x": far, "means": means}, True)]


def _component_cases(rng: np.random.Generator) -> list[Case]:
    means = np.array([[-1.0, 0.0], [1.0, 0.5], [0.0, -1.2]])
    return [Case("three groups", {"x": 0.7 * rng.normal(size=(5, 2)), "means": means})]


def _conditional_cases(rng: np.random.Generator) -> list[Case]:
    numbers = {"location": np.array([1.0, -2.0]), "strength": 0.6, "num_components": 3}
    x = rng.normal(size=(9, 2))
    return [
        Case("three groups", {"x": x, "components": np.arange(9) % 3} | numbers),
        Case("a group without rows", {"x": x, "components": 2 * (np.arange(9) % 2)} | numbers),
        Case("no rows in the last group", {"x": x, "components": np.arange(9) % 2} | numbers),
    ]


PROBS = Values(
    "assignment_probs",
    3,
    _prob_cases,
    assignment_probs,
    (
        Mistake(
            "`assignment_probs` is 0 / 0 where all densities are too small for exp: subtract the largest logarithm first",
            slips.densities_at_once,
        ),
        Mistake(
            "`assignment_probs` is 0 / 0 in rows far below others: subtract the largest of each row, not of the whole table",
            lambda x, m: exp_less_largest_of_all(slips.logs(x, m)),
        ),
        Mistake("`assignment_probs` lacks the ½ in exp(−½ ‖x − mean‖²)", slips.no_half),
        Mistake(
            "`assignment_probs` has the distance in the exponent; square it",
            lambda x, m: softmax(-0.5 * np.linalg.norm(x[:, None] - m, axis=-1)),
        ),
        Mistake(
            "`assignment_probs` favours the farthest mean: the exponent is negative",
            lambda x, m: softmax(0.5 * ((x[:, None] - m) ** 2).sum(-1)),
        ),
        Mistake("`assignment_probs` does not divide: every row should sum to 1", slips.density),
        Mistake("`assignment_probs` makes columns sum to 1; every row should", slips.columns),
    ),
    ("probabilities",),
    shares=("probabilities",),
    plural=("probabilities",),
)


COMPONENTS = Draws(
    "draw_components",
    3,
    _component_cases,
    draw_components,
    (
        Mistake(
            "`draw_components` takes the most probable group: that is k-means; draw each row from its probabilities",
            lambda rng, x, m: assignment_probs(x, m).argmax(1),
        ),
        Mistake(
            "`draw_components` uses one random number for all rows: each row needs its own",
            slips.components_by_one_number,
        ),
        Mistake(
            "`draw_components` draws groups with equal probabilities: the rows say more",
            lambda rng, x, m: rng.integers(len(m), size=len(x)),
        ),
        Mistake(
            "`draw_components` counts groups from 1; they go from 0 to K − 1",
            lambda rng, x, m: draw_components(rng, x, m) + 1,
        ),
    ),
)
CONDITIONAL = Values(
    "mean_conditional",
    5,
    _conditional_cases,
    mean_conditional,
    (
        Mistake(
            "the centre of `mean_conditional` is the mean of the rows: the prior's strength · location is forgotten",
            lambda x, z, location, s, k: slips.sums(x, z, k) / slips.counts(z, k),
            "centre",
        ),
        Mistake(
            "the centre of `mean_conditional` lacks strength · location: the prior pulls to 0 and not to its location",
            lambda x, z, location, s, k: slips.sums(x, z, k) / (s + slips.counts(z, k)),
            "centre",
        ),
        Mistake(
            "the centre of `mean_conditional` takes the location once; it counts strength times",
            lambda x, z, location, s, k: (location + slips.sums(x, z, k)) / (s + slips.counts(z, k)),
            "centre",
        ),
        Mistake(
            "the centre of `mean_conditional` reads strength as a variance; it is a precision",
            lambda x, z, location, s, k: slips.centre(x, z, location, 1 / s, k),
            "centre",
        ),
        Mistake(
            "the centre of `mean_conditional` has the mean of the rows in the place of their sum",
            slips.centre_of_mean,
            "centre",
        ),
        Mistake(
            "the centre of `mean_conditional` is a sum: divide by the precision",
            lambda *given: slips.centre(*given) * slips.precision(*given)[:, None],
            "centre",
        ),
        Mistake(
            "the centre of `mean_conditional` leaves out last groups without rows: they have their prior",
            slips.cut_off(slips.centre),
            "centre",
        ),
        Mistake(
            "the precision of `mean_conditional` leaves out last groups without rows: count them as 0 (minlength)",
            slips.cut_off(slips.precision),
            "precision",
        ),
        Mistake(
            "the precision of `mean_conditional` adds 1 / strength; strength is a precision already",
            lambda x, z, location, s, k: slips.precision(x, z, location, 1 / s, k),
            "precision",
        ),
        Mistake(
            "the precision of `mean_conditional` is a standard deviation: return strength + n_k",
            lambda *given: slips.precision(*given) ** -0.5,
            "precision",
        ),
        Mistake(
            "the precision of `mean_conditional` is the number of rows: the prior adds its strength",
            lambda x, z, location, s, k: slips.counts(z, k)[:, 0],
            "precision",
        ),
        Mistake(
            "the precision of `mean_conditional` counts all rows; count those of the group",
            lambda x, z, location, s, k: np.full(k, s + len(x)),
            "precision",
        ),
    ),
    ("centre", "precision"),
    follows={
        "centre": lambda found, x, z, location, s, k: (s * location + slips.sums(x, z, k)) / found["precision"][:, None],
    },
)
MEANS = Draws(
    "draw_means",
    3,
    _conditional_cases,
    draw_means,
    (
        Mistake(
            "`draw_means` multiplies noise by 1 / precision, the variance; the standard deviation is its square root",
            lambda *given: slips.scaled_noise(-1.0, *given),
        ),
        Mistake(
            "`draw_means` multiplies noise by the square root of the precision; divide by it",
            lambda *given: slips.scaled_noise(0.5, *given),
        ),
        Mistake(
            "`draw_means` returns the centre: a sampler draws about it",
            lambda rng, *given: mean_conditional(*given)[0],
        ),
        Mistake("`draw_means` uses one random number for all means: draw as many as there are numbers", slips.same_noise),
    ),
)


def _step_cases(rng: np.random.Generator) -> list[Case]:
    """Numbers of the prior that are not those of the certified model, and three groups."""
    given = {"x": rng.normal(size=(5, 2)), "components": np.array([0, 0, 0, 1, 2]), "means": rng.normal(size=(3, 2))}
    return [Case("three groups", given | {"location": np.array([1.0, -2.0]), "strength": 0.6})]


def _pair_as_array(found: Any) -> Any:
    """Components and means as one vector."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise AnswerError("should return 2 values: components, means")
    if np.shape(found[0]) != (5,) or np.shape(found[1]) != (3, 2):
        shapes = f"{np.shape(found[0])} and {np.shape(found[1])}"
        raise AnswerError(f"returns components and means of shapes {shapes}, and should return (5,) and (3, 2)")
    return np.concatenate([np.ravel(each) for each in found])


def _old_components(rng: Any, x: Any, components: Any, means: Any, location: Any, strength: Any) -> Any:
    return draw_components(rng, x, means), draw_means(rng, x, components, location, strength, len(means))


def _old_returned(rng: Any, x: Any, components: Any, means: Any, location: Any, strength: Any) -> Any:
    return components, gibbs_step(rng, x, components, means, location, strength)[1]


STEP = Draws(
    "gibbs_step",
    2,
    _step_cases,
    gibbs_step,
    (
        Mistake(
            "`gibbs_step` ignores location and strength: it draws means as if they were 0 and 1",
            lambda rng, x, z, means, location, strength: gibbs_step(rng, x, z, means, 0 * location, 1.0),
        ),
        Mistake(
            "`gibbs_step` ignores location: the prior pulls to 0",
            lambda rng, x, z, means, location, strength: gibbs_step(rng, x, z, means, 0 * location, strength),
        ),
        Mistake(
            "`gibbs_step` ignores strength: it is taken to be 1",
            lambda rng, x, z, means, location, strength: gibbs_step(rng, x, z, means, location, 1.0),
        ),
        Mistake("`gibbs_step` draws means given the components before the step; take the new ones", _old_components),
        Mistake("`gibbs_step` returns the components before the step", _old_returned),
    ),
    packed=_pair_as_array,
    entries=(*(f"components[{n}]" for n in range(5)), *(f"means[{k}, {d}]" for k in range(3) for d in range(2))),
)


# ---------------------------------------------------------------------------------------------------------------------
# The run


@made_once
def data() -> dict[str, np.ndarray]:
    """40 points about two means."""
    rng = np.random.default_rng(4)
    return {"x": np.array([[-1.5, 0.0], [1.5, 0.5]])[rng.integers(2, size=40)] + rng.normal(size=(40, 2))}


def _start() -> State:
    return {"means": np.array([[0.0, 2.0], [0.0, -2.0]]), "components": np.zeros(40)}


def _advance(student: Any, state: State, iteration: int) -> State:
    given = (data()["x"], state["components"].astype(int), state["means"], np.zeros(2), 1.0)
    components, means = student.gibbs_step(np.random.default_rng(iteration), *given)
    return {"means": means, "components": components}


def _panels(axes: Any, state: State) -> None:
    from inference.plots.run_panels import scatter

    scatter(axes, data()["x"], state["components"], state["means"])


ITERATIONS = Iterations(_start, _advance, 24, panels=_panels, random=True)
LAB = Lab(
    "gibbs_gmm",
    "A Gibbs sampler for a mixture",
    75,
    STORY,
    MATHS,
    (
        PROBS,
        COMPONENTS,
        CONDITIONAL,
        MEANS,
        STEP,
        Kernel(("gibbs_step", "draw_components", "draw_means"), 4, "gmm_simple", MixtureKernel, "posterior"),
    ),
    data,
    iterations=ITERATIONS,
    afterwards=AFTERWARDS,
)
