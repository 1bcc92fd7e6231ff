"""Hidden Markov chains once more, by a sum over every path: what the tests compare with."""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from naive_counts import log_cell
from scipy import stats
from scipy.special import gammaln, logsumexp

from models import MODELS, Data
from models.base import Model

Sites = Mapping[str, Any]


class Weights(NamedTuple):
    """A chain of one row in log probabilities: what every path is a sum of."""

    start: np.ndarray  # (S,)
    step: np.ndarray  # (S, S)
    stop: np.ndarray  # (S,)
    emission: np.ndarray  # (T, S)


class Summed(NamedTuple):
    """What the sum over all paths brings."""

    log_partition: float
    state: np.ndarray  # (T, S): expected
    pair: np.ndarray  # (S, S): expected
    paths: np.ndarray  # (P, T)
    logs: np.ndarray  # (P,): log weight of every path

    @property
    def best(self) -> np.ndarray:
        """The most probable path; of several the first."""
        return self.paths[self.logs.argmax()]


@cache
def all_paths(size: int, length: int) -> np.ndarray:
    return np.array(list(product(range(size), repeat=length)))


def log_weight(weights: Weights, path: np.ndarray) -> float:
    """Of one path, term by term."""
    total = weights.start[path[0]] + weights.emission[0, path[0]]
    for t in range(1, len(path)):
        total += weights.step[path[t - 1], path[t]] + weights.emission[t, path[t]]
    return total + weights.stop[path[-1]]


def summed(weights: Weights) -> Summed:
    size, length = len(weights.start), len(weights.emission)
    paths = all_paths(size, length)
    logs = np.array([log_weight(weights, path) for path in paths])
    total = logsumexp(logs)
    probs = np.exp(logs - total) if np.isfinite(total) else np.zeros(len(paths))
    state, pair = np.zeros((length, size)), np.zeros((size, size))
    for path, prob in zip(paths, probs, strict=True):
        state[np.arange(length), path] += prob
        for before, after in pairwise(path):
            pair[before, after] += prob
    return Summed(float(total), state, pair, paths, logs)


def log(probs: Any) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probs)


# ---------------------------------------------------------------------------------------------------------------------
# Models: five sequences of lengths 4, 1, 3, 2, 1, step by step

LENGTHS = (4, 1, 3, 2, 1)
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
WEIGHT = np.array([1.0, 2.5, 0.0, 0.7, 1.0])  # of the sequences
UNSEEN = (2, 6)  # steps of which nothing was observed
# What is known of the state of a step, of three: nothing, one, or two candidates.
KNOWN = ["hot", None, "cold|hot", None, None, "cold", None, None, "cold", None, "hot"]
CELLS = ("categorical", "categories", "diag", "full", "tied", "spherical", "poisson", "bernoulli", "mixed", "tails", "inflated")
RNG = np.random.default_rng(5)
NUMBERS = RNG.normal(size=(11, 2)) + 2 * (np.arange(11) % 2)[:, None]
COUNTS = RNG.poisson(3, (11, 2)).astype(float)
BINARY = RNG.integers(0, 2, (11, 2)).astype(float)
CODES = np.array([[0, 1, 2, 2, 0, 1, 1, 0, 2, 0, 1], [0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1]], dtype=float).T
LEVELS = (("a", "b", "c"), ("no", "yes"))
MIXED = np.column_stack([CODES[:, 0], NUMBERS[:, 0], COUNTS[:, 0]])
KINDS = ("category", "number", "count")


def options_of(cell: str) -> dict[str, Any]:
    """Of `MODELS["hmm"]`."""
    if cell in ("diag", "full", "tied", "spherical"):
        return {"emission": "gaussian", "covariance": cell}
    if cell == "tails":
        return {"emission": "student_t", "covariance": "full"}
    if cell == "inflated":
        return {"emission": "zero_inflated_negative_binomial"}
    return {"emission": "categorical" if cell == "categories" else cell}


def steps(cell: str, unseen: bool = False, partly: bool = False, **fields: Any) -> Data:
    """The sequences of a cell; with ``unseen`` some steps are empty, with ``partly`` single cells of others as well."""
    tables = {"categorical": CODES[:, :1], "categories": CODES, "poisson": COUNTS, "inflated": COUNTS}
    tables |= {"bernoulli": BINARY, "mixed": MIXED}
    x = tables.get(cell, NUMBERS).copy()
    if partly:
        x[0, 0] = x[4, 1] = x[7, -1] = np.nan
    if unseen:
        x[list(UNSEEN)] = np.nan
    names = ("a", "b", "c")[: x.shape[1]]
    if cell in ("categorical", "categories"):
        fields |= {"categories": LEVELS[: x.shape[1]], "kinds": ("category",) * x.shape[1]}
    if cell == "mixed":
        fields |= {"categories": (LEVELS[0], (), ()), "kinds": KINDS}
    return Data("steps", x, names, starts=STARTS, **fields)


def build(cell: str, data: Data, num_states: int = 2, **options: Any) -> Model:
    return MODELS["hmm"](data, num_states=num_states, **options_of(cell) | options)


def random_sites(cell: str, num_states: int = 2, boundary: bool = True, seed: int = 1) -> dict[str, np.ndarray]:
    """Any θ in the support."""
    rng = np.random.default_rng(seed)
    sites = {
        "start_probs": rng.dirichlet(np.full(num_states, 2.0)),
        "transition_probs": rng.dirichlet(np.full(num_states + boundary, 2.0), num_states),
    }
    if cell == "categorical":
        return sites | {"emission_probs": rng.dirichlet(np.full(3, 2.0), num_states)}
    if cell == "categories":
        return sites | {f"probs_{name}": rng.dirichlet(np.full(n, 2.0), num_states) for name, n in (("a", 3), ("b", 2))}
    if cell == "poisson":
        return sites | {"rate": rng.gamma(3, 1, (num_states, 2))}
    if cell == "inflated":
        counts = {"rate": rng.gamma(3, 1, (num_states, 2)), "inverse_dispersion": rng.gamma(2, 1, (num_states, 2))}
        return sites | counts | {"zero_probs": rng.uniform(0.1, 0.7, (num_states, 2))}
    if cell == "bernoulli":
        return sites | {"feature_probs": rng.uniform(0.1, 0.9, (num_states, 2))}
    if cell == "mixed":
        number = {"mean": rng.normal(size=(num_states, 1)) + 1, "precision": rng.gamma(3, 0.4, (num_states, 1))}
        return (
            sites | number | {"probs_a": rng.dirichlet(np.full(3, 2.0), num_states), "rate": rng.gamma(3, 1, (num_states, 1))}
        )
    factor = np.eye(2) + 0.3 * rng.normal(size=(num_states, 2, 2))
    full = factor @ np.swapaxes(factor, 1, 2)
    precision = {
        "full": full,
        "tails": full,
        "tied": full[0],
        "diag": rng.gamma(3, 0.4, (num_states, 2)),
        "spherical": rng.gamma(3, 0.4, num_states),
    }
    sites |= {"mean": rng.normal(size=(num_states, 2)) + 1, "precision": precision[cell]}
    return sites | ({"degrees_of_freedom": rng.uniform(1.5, 9.0, num_states)} if cell == "tails" else {})


def log_density(cell: str, sites: Sites, x: np.ndarray) -> np.ndarray:
    """(P, S): log p(x_t | state) of steps by SciPy, cell by cell; a cell that is NaN has probability 1."""
    size = len(sites["start_probs"])
    found = np.zeros((len(x), size))
    for t, k in product(range(len(x)), range(size)):
        seen = ~np.isnan(x[t])
        if not seen.any():
            continue
        value = x[t][seen]
        if cell in ("categorical", "categories"):
            tables = [sites["emission_probs"]] if cell == "categorical" else [sites["probs_a"], sites["probs_b"]]
            parts = [log(probs[k, int(code)]) for probs, code in zip(tables, x[t], strict=True) if not np.isnan(code)]
        elif cell == "mixed":
            every = (
                lambda v, k=k: log(sites["probs_a"][k, int(v)]),
                lambda v, k=k: stats.norm(sites["mean"][k, 0], sites["precision"][k, 0] ** -0.5).logpdf(v),
                lambda v, k=k: stats.poisson(sites["rate"][k, 0]).logpmf(v),
            )
            parts = [density(v) for density, v in zip(every, x[t], strict=True) if not np.isnan(v)]
        elif cell == "poisson":
            parts = stats.poisson(sites["rate"][k][seen]).logpmf(value)
        elif cell == "inflated":
            parts = [log_cell(sites, count, k, d) for d, count in enumerate(x[t])]
        elif cell == "bernoulli":
            parts = stats.bernoulli(sites["feature_probs"][k][seen]).logpmf(value)
        else:
            matrix = {
                "full": lambda k: sites["precision"][k],
                "tails": lambda k: sites["precision"][k],
                "tied": lambda k: sites["precision"],
                "diag": lambda k: np.diag(sites["precision"][k]),
                "spherical": lambda k: sites["precision"][k] * np.eye(2),
            }[cell](k)
            spread = np.linalg.inv(matrix)[np.ix_(seen, seen)]
            place = sites["mean"][k][seen]
            density = (
                stats.multivariate_t(place, spread, df=sites["degrees_of_freedom"][k])
                if cell == "tails"
                else stats.multivariate_normal(place, spread)
            )
            parts = [density.logpdf(value)]
        found[t, k] = np.sum(parts)
    return found


def weights_of(cell: str, sites: Sites, data: Data, allowed: np.ndarray | None = None) -> list[Weights]:
    """One chain a sequence, with the states ``allowed`` (steps, S) at every step."""
    size = len(sites["start_probs"])
    density = log_density(cell, sites, data.x)
    if allowed is not None:
        density = np.where(allowed, density, -np.inf)
    transition = log(sites["transition_probs"])
    stop = transition[:, size] if transition.shape[1] > size else np.zeros(size)
    starts = np.array([0, len(data.x)]) if data.starts is None else data.starts
    return [
        Weights(log(sites["start_probs"]), transition[:, :size], stop, density[first:last]) for first, last in pairwise(starts)
    ]


def log_prior(cell: str, model: Model, sites: Sites) -> float:
    """SciPy's densities, site by site."""
    hyper = model.hyper
    total = stats.dirichlet(hyper["start_concentration"]).logpdf(sites["start_probs"])
    total += sum(
        stats.dirichlet(a).logpdf(p) for a, p in zip(hyper["transition_concentration"], sites["transition_probs"], strict=True)
    )
    if cell == "categorical":
        return total + sum(stats.dirichlet(hyper["emission_concentration"]).logpdf(p) for p in sites["emission_probs"])
    if cell == "categories":
        each = float(hyper["level_concentration"])
        return total + sum(stats.dirichlet(np.full(len(p), each)).logpdf(p) for n in "ab" for p in sites[f"probs_{n}"])
    if cell == "poisson":
        return total + stats.gamma(hyper["shape"], scale=1 / hyper["inverse_scale"]).logpdf(sites["rate"]).sum()
    if cell == "inflated":
        total += stats.gamma(hyper["shape"], scale=1 / hyper["inverse_scale"]).logpdf(sites["rate"]).sum()
        law = stats.gamma(hyper["inverse_dispersion_shape"], scale=1 / hyper["inverse_dispersion_rate"])
        total += law.logpdf(sites["inverse_dispersion"]).sum()
        return total + stats.beta(hyper["zero_a"], hyper["zero_b"]).logpdf(sites["zero_probs"]).sum()
    if cell == "bernoulli":
        return total + stats.beta(hyper["a"], hyper["b"]).logpdf(sites["feature_probs"]).sum()
    if cell == "mixed":
        each = np.full(3, float(hyper["level_concentration"]))
        total += sum(stats.dirichlet(each).logpdf(p) for p in sites["probs_a"])
        total += stats.gamma(hyper["shape"], scale=1 / hyper["inverse_scale"]).logpdf(sites["rate"]).sum()
    if cell == "tails":
        total += stats.gamma(hyper["tail_shape"], scale=1 / hyper["tail_rate"]).logpdf(sites["degrees_of_freedom"]).sum()
    from naive import log_prior as gaussian

    covariance = {"mixed": "diag", "tails": "full"}.get(cell, cell)
    return total + gaussian(covariance, hyper, {name: sites[name] for name in ("mean", "precision")})


# ---------------------------------------------------------------------------------------------------------------------
# Symbols under Dirichlet priors: the posterior as a mixture over the paths of all sequences together


class Exact(NamedTuple):
    """Every assignment of states to all steps: log p(x, z), and the Dirichlet parameters of θ given it."""

    logs: np.ndarray  # (A,)
    start: np.ndarray  # (A, S)
    transition: np.ndarray  # (A, S, S) or (A, S, S + 1)
    emission: np.ndarray  # (A, S, V)

    @property
    def log_evidence(self) -> float:
        return float(logsumexp(self.logs))

    def draws(self, number: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent draws of all sites from the posterior."""
        chosen = rng.choice(len(self.logs), number, p=np.exp(self.logs - self.log_evidence))
        names = ("start_probs", "transition_probs", "emission_probs")
        gammas = [rng.gamma(part[chosen]) for part in (self.start, self.transition, self.emission)]
        return {name: part / part.sum(-1, keepdims=True) for name, part in zip(names, gammas, strict=True)}


def exact_posterior(model: Model, rows: list[list[int]], num_symbols: int) -> Exact:
    """Of codes (sequences of steps), by counting along every path."""
    size, num_next = model.hyper["transition_concentration"].shape
    emission_prior = np.broadcast_to(model.hyper["emission_concentration"], (size, num_symbols))
    prior = (model.hyper["start_concentration"], model.hyper["transition_concentration"], emission_prior)
    counts = []
    for paths in product(*(all_paths(size, len(row)) for row in rows)):
        start, step, emit = (np.array(part, dtype=float) for part in prior)
        for path, row in zip(paths, rows, strict=True):
            start[path[0]] += 1
            np.add.at(step, (path[:-1], path[1:]), 1)
            np.add.at(emit, (path, row), 1)
            if num_next > size:
                step[path[-1], size] += 1
        counts.append((start, step, emit))
    found = [np.stack(part) for part in zip(*counts, strict=True)]
    logs = sum(
        (log_beta(part) - log_beta(np.asarray(before))).reshape(len(part), -1).sum(1)
        for part, before in zip(found, prior, strict=True)
    )
    return Exact(logs, *found)


def log_beta(concentration: np.ndarray) -> np.ndarray:
    """log of the normaliser of a Dirichlet, along the last axis."""
    return gammaln(concentration).sum(-1) - gammaln(concentration.sum(-1))
