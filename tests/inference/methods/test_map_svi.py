"""`map` by NumPyro's SVI with a delta guide: the point of L-BFGS on every model, Adam by hand, and what it refuses."""

from functools import cache
from itertools import permutations, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pandas as pd
import pytest
from interrupting import Interrupting
from stopped_runs import CELLS, assert_same, resume

from inference import fit
from inference.cli.main import guarded, run_main
from inference.engine import quasi_newton
from inference.methods import delta_guide
from inference.methods.delta_guide import WINDOW, adam, units_of
from inference.results import load
from models import MODELS, Data, Model, ZooError, load_data
from models.data.documents import documents

pytestmark = pytest.mark.slow  # kernels and searches compile programs of their own

RNG = np.random.default_rng(0)
GROUP = np.arange(24) % 2
NUMBERS = RNG.normal(size=(24, 2)) + 3 * GROUP[:, None]
LABELS = ["ab"[group] for group in GROUP]
COUNTS = RNG.poisson(np.where(GROUP[:, None] == 0, 2.0, 9.0), (24, 2)) * 1.0
DISPERSED = np.random.default_rng(1).negative_binomial(0.8, 0.2, (24, 2)) * 1.0
MIXED = pd.DataFrame({"size": NUMBERS[:, 0], "kind": list("xyzx" * 6), "seen": COUNTS[:, 0]})
RATINGS = {rater: RNG.permuted(LABELS).tolist() for rater in ("anna", "ben", "carl")}
WORDS = [list("abca"), list("bbc"), list("cabbc"), list("ac"), list("acb"), list("cc")] * 2
TOPICS = [list("aabab"), list("ccdcd"), list("abbab"), list("dcdcc"), list("abacb"), list("cddca")] * 2  # two, and few mixed
FACTORS = RNG.normal(size=(24, 1)) @ RNG.normal(size=(1, 4)) + 0.5 * RNG.normal(size=(24, 4))
GAPS = np.where(np.arange(48).reshape(24, 2) % 7 == 3, np.nan, NUMBERS)


def in_sequences(table: Any, **options: Any) -> Data:
    """The rows as steps of four sequences."""
    return load_data(load_data(table, **options)._replace(starts=np.arange(0, 25, 6)))


def labelled(table: Any) -> Data:
    return load_data(table, labels=LABELS)


# model, and what tells it from others of its kind -> (table, options)
CASES = {
    "gmm": lambda: (load_data(NUMBERS), {}),
    "gmm with heavy tails": lambda: (load_data(NUMBERS), {"tails": "student_t"}),
    "gmm_simple": lambda: (load_data(NUMBERS), {}),
    "mixed_mixture": lambda: (load_data(MIXED, types={"seen": "count"}), {}),
    "mixed_mixture of dispersed counts": lambda: (load_data(MIXED, types={"seen": "count"}), {"counts": "negative_binomial"}),
    "naive_bayes": lambda: (labelled((NUMBERS > 1.5) * 1.0), {}),
    "naive_bayes of dispersed counts": lambda: (labelled(DISPERSED), {"emission": "negative_binomial"}),
    "poisson_naive_bayes": lambda: (labelled(COUNTS), {}),
    "markov_naive_bayes": lambda: (load_data(documents(WORDS), labels=LABELS[:12]), {}),
    "linear_discriminant": lambda: (labelled(NUMBERS), {}),
    "logistic_regression": lambda: (labelled(NUMBERS), {}),
    "annotators": lambda: (
        load_data(pd.DataFrame(RATINGS), labels=[*LABELS[:12], *[None] * 12]),
        {"raters": ["anna", "ben", "carl"]},
    ),
    "factor_analysis": lambda: (load_data(FACTORS), {"num_factors": 1}),
    "ppca": lambda: (load_data(FACTORS), {"num_factors": 1}),
    "hmm": lambda: (load_data(documents(WORDS)), {}),
    "hmm of numbers with gaps": lambda: (in_sequences(GAPS), {"emission": "gaussian", "covariance": "full"}),
    "hmm of mixed steps": lambda: (in_sequences(MIXED, types={"seen": "count"}), {"emission": "mixed"}),
    "hmm of inflated counts": lambda: (in_sequences(DISPERSED), {"emission": "zero_inflated_poisson"}),
    "state_space": lambda: (in_sequences(FACTORS), {"num_factors": 1}),
    "latent_dirichlet": lambda: (load_data(documents(TOPICS)), {"num_topics": 2}),
}
QUICK = ("gmm_simple", "logistic_regression")
ONE_POINT = 1e-6  # of the largest number of a site


def built(case: str) -> tuple[Model, Data]:
    data, options = CASES[case]()
    return MODELS[case.split()[0]](data, **options), data


def moves_of(model: Model, size: int) -> np.ndarray:
    """All relabellings (M, K) of components, or all orders and signs (M, L, L) of factors."""
    orders = np.array(list(permutations(range(size))))
    if model.symmetry is None or model.symmetry.exchanges_labels:
        return orders
    signs = np.array(list(product([1.0, -1.0], repeat=size)))
    return (np.eye(size)[orders][:, None] * signs[None, :, None, :]).reshape(-1, size, size)


def distance(model: Model, left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> float:
    """The largest difference of a site, in shares of its largest number, after the best relabelling or turn of ``right``."""
    images = [right]
    if model.symmetry is not None:
        dims, dim = model.naming.dims, model.symmetry.dim
        size = next(value.shape[dims[s].index(dim)] for s, value in right.items() if dim in dims[s])
        moves = moves_of(model, size)
        stacked = {name: np.repeat(value[None], len(moves), 0) for name, value in right.items()}
        moved = model.symmetry.moved(stacked, dims, moves)
        images = [{name: value[m] for name, value in moved.items()} for m in range(len(moves))]
    return min(max(np.abs(left[s] - image[s]).max() / np.abs(left[s]).max() for s in left) for image in images)


def point_of(tree: Any) -> dict[str, np.ndarray]:
    return {str(name): values.values for name, values in tree["point_estimate"].data_vars.items()}


@pytest.mark.parametrize("case", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES])
def test_both_optimisers_end_at_one_point(case, monkeypatch):
    """L-BFGS and SVI, each from three starts.

    L-BFGS ends where no component of the slope is above `quasi_newton.GRADIENT`, per unit of the curvature at the start; at the
    mode a unit may be some times as long. With 1e-9 both ends are within 1e-7 units of the mode.
    """
    monkeypatch.setattr(quasi_newton, "GRADIENT", 1e-9)
    model, data = built(case)
    found = fit(model, data, method="map", num_starts=3, tol=0.0)
    again = fit(model, data, method="map", num_starts=3, optimizer="svi")
    best = int(again["optimization"]["final_objective"].values.argmax())
    assert bool(again["optimization"]["converged"][best])
    assert distance(model, point_of(found), point_of(again)) < ONE_POINT
    assert float(again["functionals"]["log_joint"]) == pytest.approx(float(found["functionals"]["log_joint"]), rel=1e-11)


def test_every_model_is_compared():
    assert {case.split()[0] for case in CASES} == set(MODELS)


# ---------------------------------------------------------------------------------------------------------------------
# Steps by hand

X = RNG.normal(size=(20, 3)) * np.array([1.0, 10.0, 0.1])
Y = X @ np.array([1.0, -0.2, 5.0]) + RNG.normal(size=20)
HESSIAN = X.T @ X + np.eye(3) / 4


def regression(x, y):
    """A Normal prior and noise of known scale: the log density is a parabola."""
    weight = numpyro.sample("weight", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x @ weight, 1.0), obs=y)


@cache
def short(**options):
    return fit(regression, (X, Y), "map", optimizer="svi", start={"weight": np.zeros(3)}, num_starts=1, **options)


def gradient(weight):
    return HESSIAN @ weight - X.T @ Y


def naive_adam(slope, rate, number):
    """Algorithm 1 of Kingma and Ba (2015), from 0, with ε = rate."""
    point, mean, square = np.zeros(3), np.zeros(3), np.zeros(3)
    for t in range(1, number + 1):
        g = slope(point)
        mean, square = 0.9 * mean + 0.1 * g, 0.9 * square + 0.1 * g**2
        point = point - rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.9**t)) + rate)
    return point


def test_a_window_is_adam_in_units_of_the_curvature():
    """50 steps on a parabola, against algorithm 1 where the Hessian is the identity; rounding alone differs."""
    values, vectors = np.linalg.eigh(HESSIAN)
    units = vectors / np.sqrt(values)
    wanted = units @ naive_adam(lambda u: units.T @ gradient(units @ u), 0.3, WINDOW)
    tree = short(learning_rate=0.3, max_iter=WINDOW)
    np.testing.assert_allclose(point_of(tree)["weight"], wanted, rtol=1e-9)
    assert int(tree["optimization"]["iterations"][0]) == WINDOW
    assert not bool(tree["optimization"]["converged"][0])


def test_the_mode_of_a_parabola():
    """The solution of the normal equations. The slope at the end is below 1e-8 of a standard deviation."""
    tree = short()
    wanted = np.linalg.solve(HESSIAN, X.T @ Y)
    spread = np.sqrt(np.diagonal(np.linalg.inv(HESSIAN)))
    assert (np.abs(point_of(tree)["weight"] - wanted) < 1e-7 * spread).all()
    trace = tree["optimization"]["objective"].values[0]
    assert (np.diff(trace[~np.isnan(trace)]) > -1e-9).all()


@pytest.mark.parametrize("slope", [1e3, 1.0, 1e-3, 1e-9])
def test_a_steady_slope_is_followed_at_the_rate_and_a_small_one_by_itself(slope):
    """Each step is rate · g / (|g| + rate) however long the slope stays."""
    transformation = adam(jnp.asarray(0.1), jnp.ones(1))
    state, at = transformation.init({"a": jnp.zeros(1)}), jnp.zeros(1)
    for _ in range(5):
        move, state = transformation.update({"a": jnp.full(1, slope)}, state)
        at = optax.apply_updates({"a": at}, move)["a"]
    assert float(at[0]) == pytest.approx(-5 * 0.1 * slope / (slope + 0.1), rel=1e-9)


def test_units_turn_a_hessian_into_signs():
    """UᵀHU has the signs of H on its diagonal; a flat direction counts as `FLAT` of the steepest; no curvature, no units."""
    turn, root = np.linalg.qr(RNG.normal(size=(3, 3)))[0], jax.jit(units_of)
    units = np.asarray(root(jnp.asarray(turn @ np.diag([9.0, -4.0, 0.0]) @ turn.T)))
    wanted = turn @ np.diag([1 / 9.0, 1 / 4.0, 1 / (9.0 * delta_guide.FLAT)]) @ turn.T
    np.testing.assert_allclose(units @ units.T, wanted, rtol=1e-6, atol=1e-6)
    for empty in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
        np.testing.assert_allclose(np.abs(root(jnp.asarray(empty))), np.eye(2))
    np.testing.assert_allclose(root(jnp.asarray([4.0, -0.25, 0.0, np.inf])), [0.5, 2.0, 1.0, 1.0])


def test_many_parameters_have_one_unit_each(monkeypatch):
    """Above `SMALL` the diagonal of the Hessian at the start: more steps, and the same mode."""
    for module in (delta_guide, quasi_newton):
        monkeypatch.setattr(module, "SMALL", 2)
    data = (X.copy(), Y.copy())
    tree = fit(lambda x, y: regression(x, y), data, "map", optimizer="svi", start={"weight": np.zeros(3)}, num_starts=1)
    wanted = np.linalg.solve(HESSIAN, X.T @ Y)
    assert bool(tree["optimization"]["converged"][0])
    assert (np.abs(point_of(tree)["weight"] - wanted) < 1e-6 * np.abs(wanted)).all()


# ---------------------------------------------------------------------------------------------------------------------
# What it says


def test_a_rate_without_adam_is_refused():
    with pytest.raises(ZooError, match=r"learning_rate=0\.2 is of optimizer=svi"):
        fit(regression, (X, Y), "map", learning_rate=0.2)
    with pytest.raises(ZooError, match="learning_rate must be at least"):
        fit(regression, (X, Y), "map", optimizer="svi", learning_rate=0.0)
    with pytest.raises(ZooError, match="optimizer='adam' is not one of lbfgs, svi"):
        fit(regression, (X, Y), "map", optimizer="adam")


@pytest.mark.slow
def test_a_likelihood_without_a_maximum_is_said_to_have_none():
    """Three components under a flat prior, of which one shrinks onto a row."""
    x = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1]])
    model = MODELS["gmm"](load_data(x), num_components=3, prior="flat")
    with pytest.raises(ZooError, match="no start reached a mode"):
        fit(model, load_data(x), method="map", optimizer="svi", num_starts=4)


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_to_the_same_point(tmp_path, monkeypatch):
    """Ctrl-C after the first window; every number of the resumed run is that of an unbroken one."""
    with monkeypatch.context() as patch:
        patch.setattr("inference.fitting.fit.Silent", lambda: Interrupting("climbing"))
        assert guarded(run_main, [*CELLS["svi"], "progress=false", "pictures=false", f"out={tmp_path / 'run'}"]) == 130
    begun = load(tmp_path / "run")["optimization"]["objective"].shape[1]
    tree = resume(tmp_path / "run")
    assert begun < tree["optimization"]["objective"].shape[1]
    assert_same(tree, "svi")
