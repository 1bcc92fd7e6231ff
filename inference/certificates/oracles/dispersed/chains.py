"""`hmm` with counts that are not Poisson: two states, three sequences of three steps with a count each, lengths given.

start_probs ~ Dirichlet(1.5),    transition_probs_i ~ Dirichlet(3 to stay, 2 to move)

All paths of a sequence are listed.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from inference.certificates.oracles.answers import AllPaths, Answers
from inference.certificates.oracles.conjugate import chosen, counted, dirichlet, log_dirichlet, one_hot
from inference.certificates.oracles.contracts import Contracts
from inference.certificates.oracles.dispersed.counts import (
    SITES,
    Grid,
    Sampled,
    draw_counts,
    draw_sites,
    log_prior,
    log_probability,
    mutant_of,
    numbers_of,
    poisson_alone,
    sampled,
)
from inference.certificates.oracles.mixing import of_component
from inference.certificates.oracles.oracle import Oracle, Sites, Slip, Statistics, Tables, pointed_at
from inference.certificates.oracles.posterior import Posterior
from models.data.table import Data

STATES, SEQUENCES, STEPS = 2, 3, 3
START, NEXT = np.full(STATES, 1.5), np.array([[3.0, 2.0], [2.0, 3.0]])
PATHS = np.array(list(product(range(STATES), repeat=STEPS)))  # (P, T)


def emitted(counts: str, sites: Sites, x: np.ndarray, law: Any = log_probability) -> np.ndarray:
    """(R, sequences, T, S): log p(x_t | state)."""
    own = {site: sites[site][:, None, None, :, 0] for site in SITES[counts]}
    found: np.ndarray = law(own, x[..., None])
    return found


def log_paths(sites: Sites, emits: np.ndarray, until: int = STEPS) -> np.ndarray:
    """(R, sequences, P): log p(x_1 … x_t, path) of all paths up to step ``until``, factor by factor."""
    paths = np.array(list(product(range(STATES), repeat=until)))
    found = np.log(sites["start_probs"])[:, None, paths[:, 0]] + emits[:, :, 0, paths[:, 0]]
    for t in range(1, until):
        found = found + np.log(sites["transition_probs"])[:, None, paths[:, t - 1], paths[:, t]]
        found = found + emits[:, :, t, paths[:, t]]
    return found


def answers_of(sites: Sites, emits: np.ndarray) -> Answers:
    """Sums over all paths, for R draws and their log probabilities (R, sequences, T, S)."""
    logs = log_paths(sites, emits)
    density = logsumexp(logs, axis=-1)
    probs = np.einsum("rnp,pti->rnti", np.exp(logs - density[..., None]), one_hot(PATHS, STATES))
    until = np.stack([logsumexp(log_paths(sites, emits, t + 1), axis=-1) for t in range(STEPS)], axis=-1)
    paths = AllPaths((PATHS,) * SEQUENCES, tuple(logs[:, n] for n in range(SEQUENCES)))
    return Answers(density, {"probs": probs}, log_until=until, paths=paths)


def hmm(emission: str) -> Oracle:
    """The oracle with ``emission`` of that name."""

    def draw_parameters(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
        return {
            "start_probs": dirichlet(rng, START, (replicates,)),
            "transition_probs": dirichlet(rng, NEXT, (replicates, STATES)),
        } | draw_sites(emission, rng, (replicates, STATES, 1))

    def draw_tables(rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
        replicate = np.arange(len(sites["rate"]))[:, None]
        start = np.broadcast_to(sites["start_probs"][:, None], (len(replicate), SEQUENCES, STATES))
        states = [chosen(rng, start)]
        for _ in range(STEPS - 1):
            states.append(chosen(rng, sites["transition_probs"][replicate, states[-1]]))
        path = np.stack(states, axis=-1)
        own = {site: of_component(sites[site], path.reshape(len(path), -1)).reshape(path.shape) for site in SITES[emission]}
        return {"x": draw_counts(rng, own), "path": path}

    def complete(sites: Sites, tables: Tables) -> Statistics:
        """The factors of p(x, path | θ): starts, moves between states, counts."""
        path, replicate = tables["path"], np.arange(len(tables["path"]))[:, None]
        moves = [np.log(sites["transition_probs"])[replicate, path[..., t], path[..., t + 1]] for t in range(STEPS - 1)]
        emits = np.take_along_axis(emitted(emission, sites, tables["x"]), path[..., None], axis=-1)
        return {
            "log probability of first states": np.log(sites["start_probs"])[replicate, path[..., 0]].sum(-1),
            "log probability of moves between states": np.sum(moves, axis=(0, 2)),
            "log probability of counts given states": emits.sum((1, 2, 3)),
        }

    def log_likelihood(sites: Sites, tables: Tables) -> np.ndarray:
        return logsumexp(log_paths(sites, emitted(emission, sites, tables["x"])), axis=-1).sum(-1)

    def functions(sites: Sites, tables: Tables) -> Statistics:
        stay, x, other = np.einsum("rii->ri", sites["transition_probs"]), tables["x"], SITES[emission][1]
        return {
            "probability of staying": stay.mean(1),
            "difference in staying": np.abs(stay[:, 0] - stay[:, 1]),
            "probability of staying times equal neighbours": stay.mean(1) * (x[..., 1:] == x[..., :-1]).mean((1, 2)),
            "product of counts and rates": x.mean((1, 2)) * sites["rate"].mean((1, 2)),
            f"product of zeros and {other}": (x == 0).mean((1, 2)) * sites[other].mean((1, 2)),
            f"product of rates and {other}": (sites["rate"] * sites[other]).mean((1, 2)),
            "distance of the rates": np.abs(sites["rate"][:, 0, 0] - sites["rate"][:, 1, 0]),
        }

    def answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
        return answers_of(sites, emitted(emission, sites, table["x"]))

    def as_poisson(sites: Sites, table: Tables, with_label: bool) -> Answers:
        return answers_of(sites, emitted(emission, sites, table["x"], poisson_alone))

    def transposed(sites: Sites, table: Tables, with_label: bool) -> Answers:
        return answers({**sites, "transition_probs": np.swapaxes(sites["transition_probs"], 1, 2)}, table, with_label)

    def options(numbers: Mapping[str, float]) -> dict[str, Any]:
        chains = {"start_probs": {"concentration": START}, "transition_probs": {"concentration": NEXT}}
        return {"num_states": STATES, "emission": emission, "boundary": False, "prior": {**chains, "state": dict(numbers)}}

    blocks, grid = counted({"start_probs": START, "transition_probs": NEXT}, _path_counts), Grid(emission)
    z = np.array(list(product(range(STATES), repeat=SEQUENCES * STEPS)))
    weights = one_hot(z, STATES)

    def posterior(rng: np.random.Generator, table: Tables, number: int) -> Posterior:
        return sampled(grid, Sampled(table["x"][0].ravel(), weights, z, blocks, table), rng, number)

    return Oracle(
        model="hmm",
        options=options(numbers_of(emission)),
        draw_parameters=draw_parameters,
        draw_tables=draw_tables,
        table=_table,
        log_prior=lambda sites: (
            log_dirichlet(START, sites["start_probs"])
            + log_dirichlet(NEXT, sites["transition_probs"])
            + log_prior(emission, sites)
        ),
        log_likelihood=log_likelihood,
        functions=functions,
        mutant=mutant_of(emission, options),
        answers=answers,
        contracts=Contracts((STATES - 1) + STATES * (STATES - 1 + len(SITES[emission])), lambda case: case, named=True),
        slips=(Slip("Poisson counts", as_poisson), Slip("transition probabilities transposed", transposed)),
        posterior=posterior,
        simplices=("start_probs", "transition_probs"),
        latent="path",
        complete=complete,
        pointed=pointed_at("path", 0, {"start_probs": 1, "transition_probs": 1} | dict.fromkeys(SITES[emission], 1)),
    )


def _path_counts(table: Tables, z: np.ndarray) -> dict[str, np.ndarray]:
    """Of every assignment (A, steps of all sequences): starts (A, S), moves (A, S, S)."""
    state = one_hot(z, STATES).reshape(len(z), SEQUENCES, STEPS, STATES)
    return {
        "start_probs": state[:, :, 0].sum(1),
        "transition_probs": np.einsum("anti,antj->aij", state[:, :, :-1], state[:, :, 1:]),
    }


def _table(tables: Tables, replicate: int) -> Data:
    x = tables["x"][replicate]
    starts = np.arange(0, x.size + 1, x.shape[1])
    return Data("sequences", x.reshape(-1, 1), ("seen",), kinds=("count",), categories=((),), starts=starts)
