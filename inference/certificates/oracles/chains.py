"""Markov chains: document 000, "Adding Dependencies" (`markov_naive_bayes`), and document 002 with errata E9 to E11 (`hmm`).

transition_probs_v ~ Dirichlet(concentration),    x_i | x_{i−1} = v ~ Categorical(transition_probs_v)

The states of `hmm` are summed out by the forward recursion.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from inference.certificates.oracles.answers import AllPaths, Answers
from inference.certificates.oracles.conjugate import (
    chosen,
    counted,
    dirichlet,
    dirichlet_block,
    independent,
    log_counts,
    log_dirichlet,
    one_hot,
)
from inference.certificates.oracles.contracts import Contracts, reordered
from inference.certificates.oracles.mixing import TWO_CLASSES, Components, WrongJoint, mixture_oracle, of_component
from inference.certificates.oracles.oracle import Oracle, Sites, Slip, Statistics, Tables, pointed_at, ten_percent
from inference.certificates.oracles.posterior import Enumeration, enumerated
from models.data.documents import joined
from models.data.table import Data

# ---------------------------------------------------------------------------------------------------------------------
# Documents of five tokens, with one chain for each class

VOCABULARY, LENGTH = 3, 5
INITIAL, TRANSITION = 1.5, 2.0


def _draw_documents(rng: np.random.Generator, sites: Sites, z: np.ndarray) -> np.ndarray:
    tokens = [chosen(rng, of_component(sites["initial_probs"], z))]
    replicate = np.arange(len(z))[:, None]
    for _ in range(LENGTH - 1):
        tokens.append(chosen(rng, sites["transition_probs"][replicate, z, tokens[-1]]))
    return np.stack(tokens, axis=-1)


def _document_densities(sites: Sites, x: np.ndarray) -> np.ndarray:
    replicate = np.arange(len(x))[:, None]
    log_probs = np.log(sites["initial_probs"])[replicate, :, x[..., 0]]  # (R, N, C)
    for t in range(1, LENGTH):
        log_probs = log_probs + np.log(sites["transition_probs"])[replicate, :, x[..., t - 1], x[..., t]]
    return log_probs


def _all_first(log_probs: np.ndarray, sites: Sites, x: np.ndarray) -> np.ndarray:
    first = np.log(sites["initial_probs"])[np.arange(len(x))[:, None, None], :, x]  # (R, N, token, C)
    return log_probs + first.sum(2)


def _document_functions(sites: Sites, x: np.ndarray) -> Statistics:
    stay = np.einsum("rcvv->rcv", sites["transition_probs"]).mean((1, 2))
    return {
        "probability of staying": stay,
        "share of steps that stay times its probability": (x[..., 1:] == x[..., :-1]).mean((1, 2)) * stay,
        "transition to the first token": sites["transition_probs"][..., 0].mean((1, 2)),
    }


def _document_table(x: np.ndarray, label: Mapping[str, Any]) -> Data:
    return Data("documents", joined(list(x)), ("u", "v", "w"), **label)


def _first_counts(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(A, C, V): documents of each class that begin with each token."""
    return np.einsum("ank,nv->akv", weights, one_hot(x[:, 0], VOCABULARY))


def _step_counts(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(A, C, V, V): steps from one token to another in documents of each class."""
    tokens = one_hot(x, VOCABULARY)
    return np.einsum("ank,ntu,ntv->akuv", weights, tokens[:, :-1], tokens[:, 1:])


def markov_naive_bayes() -> Oracle:
    """Two classes of documents; two documents have no label."""
    favour = np.full((VOCABULARY, VOCABULARY), TRANSITION)
    parts = Components(
        draw=lambda rng, replicates: {
            "initial_probs": dirichlet(rng, np.full(VOCABULARY, INITIAL), (replicates, 2)),
            "transition_probs": dirichlet(rng, favour, (replicates, 2, VOCABULARY)),
        },
        draw_rows=_draw_documents,
        densities=_document_densities,
        log_prior=lambda sites: (
            log_dirichlet(np.full(VOCABULARY, INITIAL), sites["initial_probs"])
            + log_dirichlet(favour, sites["transition_probs"])
        ),
        functions=_document_functions,
        table=_document_table,
        slip=WrongJoint("every token as if it came first (E4)", _all_first),
        contracts=Contracts(1 + 2 * (2 + 3 * 2), reordered((2, 0, 1), {"initial_probs": (-1,), "transition_probs": (-2, -1)})),
        axes={"initial_probs": 1, "transition_probs": 1},
        conjugate=independent(
            [
                dirichlet_block("initial_probs", np.full(VOCABULARY, INITIAL), _first_counts),
                dirichlet_block("transition_probs", favour, _step_counts),
            ]
        ),
        simplices=("initial_probs", "transition_probs"),
    )

    def options(transition: float) -> dict[str, Any]:
        numbers = {"initial_concentration": INITIAL, "transition_concentration": transition}
        return {"prior": {"class_probs": {"concentration": 1.5}, "class": numbers}}

    wrong = ten_percent("transition_concentration", TRANSITION, options)
    return mixture_oracle("markov_naive_bayes", TWO_CLASSES, parts, options(TRANSITION), wrong)


# ---------------------------------------------------------------------------------------------------------------------
# Hidden states, which end at the boundary

STATES, SYMBOLS, SEQUENCES = 2, 3, 3
MANY = 16  # sequences where nothing is enumerated: an error at the end of a path shows in few of three
STRATA = ((1, 1, 2), (2, 3, 4), (1, 5, 10))  # short as most, middle, and longer than 19 of 20
PADDED = frozenset({"probs", "step_log_density"})  # variables without entries after the end of a sequence
PADDING = 0  # symbol and state after the end of a sequence
START = np.full(STATES, 1.5)
STOP = 4.0
NEXT = np.array([[3.0, 2.0, STOP], [2.0, 3.0, STOP]])  # the last column is the boundary
EMISSION = np.array([1.5, 2.0, 3.0])


def _draw_chain_parameters(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    return {
        "start_probs": dirichlet(rng, START, (replicates,)),
        "transition_probs": dirichlet(rng, NEXT, (replicates, STATES)),
        "emission_probs": dirichlet(rng, EMISSION, (replicates, STATES)),
    }


def _draw_sequences(sequences: int, rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
    """Step by step, until every sequence has met the boundary; then padding, which is independent of the parameters."""
    number = len(sites["start_probs"])
    replicate = np.arange(number)[:, None]
    state = chosen(rng, np.broadcast_to(sites["start_probs"][:, None], (number, sequences, STATES)))
    going, symbols, states = np.ones(state.shape, bool), [], []
    length = np.zeros(state.shape, int)
    while going.any():
        states.append(state)
        symbols.append(np.where(going, chosen(rng, sites["emission_probs"][replicate, state]), PADDING))
        length += going
        following = chosen(rng, sites["transition_probs"][replicate, state])
        going = going & (following < STATES)
        state = np.where(going, following, PADDING)
    return {"x": np.stack(symbols, axis=-1), "length": length, "path": np.stack(states, axis=-1)}


def _factors(sites: Sites, tables: Tables) -> Statistics:
    """The factors of p(x, path | θ), step by step: starts, moves between states, stops, symbols."""
    x, length, path = tables["x"], tables["length"], tables["path"]
    replicate, steps = np.arange(len(x))[:, None], x.shape[-1]
    moves, stops, symbols = (np.zeros(len(x)) for _ in range(3))
    for t in range(steps):
        here, following = path[..., t], path[..., min(t + 1, steps - 1)]
        transition = np.log(sites["transition_probs"])[replicate, here]  # (R, sequences, S + 1)
        moved = np.take_along_axis(transition, following[..., None], axis=-1)[..., 0]
        emitted = np.log(sites["emission_probs"])[replicate, here, x[..., t]]
        moves += np.where(t + 1 < length, moved, 0.0).sum(-1)
        stops += np.where(t + 1 == length, transition[..., STATES], 0.0).sum(-1)
        symbols += np.where(t < length, emitted, 0.0).sum(-1)
    return {
        "log probability of first states": np.log(sites["start_probs"])[replicate, path[..., 0]].sum(-1),
        "log probability of moves between states": moves,
        "log probability of stops": stops,
        "log probability of symbols given states": symbols,
    }


def _forward(sites: Sites, tables: Tables) -> np.ndarray:
    """(R,): log p(x | θ) by the forward recursion in probabilities; sequences are short."""
    x, length = tables["x"], tables["length"]
    replicate = np.arange(len(x))[:, None]
    step, stop = sites["transition_probs"][:, :, :STATES], sites["transition_probs"][:, :, STATES]
    emission = np.swapaxes(sites["emission_probs"], 1, 2)  # (R, symbol, state)
    alpha = sites["start_probs"][:, None] * emission[replicate, x[..., 0]]
    logs = np.zeros(length.shape)
    for t in range(1, x.shape[-1]):
        scale = alpha.sum(-1, keepdims=True)  # only sequences of more than one step are scaled: others are done
        going = (t < length)[..., None]
        logs += np.where(going, np.log(scale), 0.0)[..., 0]
        moved = np.einsum("rni,rij->rnj", alpha / scale, step) * emission[replicate, x[..., t]]
        alpha = np.where(going, moved, alpha)
    return (logs + np.log(np.einsum("rni,ri->rn", alpha, stop))).sum(-1)


def _number(tables: Tables) -> int:
    return STATES ** int(tables["length"][0].sum())


def _paths(tables: Tables) -> np.ndarray:
    """(A, steps of all sequences): every state of every step."""
    return np.array(list(product(range(STATES), repeat=int(tables["length"][0].sum()))))


def _path_counts(tables: Tables, z: np.ndarray) -> dict[str, np.ndarray]:
    """Of every assignment: starts (A, S), transitions with the stop in the last column (A, S, S + 1), symbols (A, S, V)."""
    state = one_hot(z, STATES)
    ends = np.cumsum(tables["length"][0])
    first = np.concatenate([[0], ends[:-1]])
    inside = np.setdiff1d(np.arange(z.shape[1]), first)  # steps that follow another of their sequence
    moved = np.einsum("ati,atj->aij", state[:, inside - 1], state[:, inside])
    symbols = np.concatenate([x[:size] for x, size in zip(tables["x"][0], tables["length"][0], strict=True)])
    return {
        "start_probs": state[:, first].sum(1),
        "transition_probs": np.concatenate([moved, state[:, ends - 1].sum(1)[..., None]], axis=-1),
        "emission_probs": np.einsum("ats,tv->asv", state, one_hot(symbols, SYMBOLS)),
    }


def _complete(sites: Sites, tables: Tables, z: np.ndarray) -> np.ndarray:
    """(R,): log p(x, z | θ): a factor for every start, step, stop and symbol."""
    return log_counts(sites, _path_counts(tables, z))


def _chain_enumeration() -> Enumeration:
    blocks = counted({"start_probs": START, "transition_probs": NEXT, "emission_probs": EMISSION}, _path_counts)
    return Enumeration(_number, _paths, blocks.log_marginal, blocks.draw, blocks.mode, _complete)


def _chain_answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
    """Sums over all paths of every sequence; sequences are short."""
    draws, length = len(sites["start_probs"]), table["length"][0]
    probs = np.full((draws, len(length), length.max(), STATES), np.nan)
    until, density, all_states, all_logs = probs[..., 0].copy(), [], [], []
    for row, (symbols, size) in enumerate(zip(table["x"][0], length, strict=True)):
        states = np.array(list(product(range(STATES), repeat=int(size))))
        logs = _log_paths(sites, symbols[:size], states, ends=True)
        density.append(logsumexp(logs, axis=1))
        share = np.exp(logs - density[-1][:, None])
        probs[:, row, :size] = np.einsum("sp,pti->sti", share, one_hot(states, STATES))
        for t in range(int(size)):
            begun = np.array(list(product(range(STATES), repeat=t + 1)))
            until[:, row, t] = logsumexp(_log_paths(sites, symbols[: t + 1], begun, ends=False), axis=1)
        all_states.append(states)
        all_logs.append(logs)
    paths = AllPaths(tuple(all_states), tuple(all_logs))
    return Answers(np.stack(density, axis=1), {"probs": probs}, log_until=until, paths=paths, undefined=PADDED)


def _log_paths(sites: Sites, symbols: np.ndarray, states: np.ndarray, ends: bool) -> np.ndarray:
    """(S, P): log p(symbols, path) of every path (P, T), step by step; with the stop after it, where it ``ends``."""
    start, moves, emits = (np.log(sites[name]) for name in ("start_probs", "transition_probs", "emission_probs"))
    log_probs = start[:, states[:, 0]]
    for t, symbol in enumerate(symbols):
        log_probs = log_probs + emits[:, states[:, t], symbol]
        if t > 0:
            log_probs = log_probs + moves[:, states[:, t - 1], states[:, t]]
    return log_probs + moves[:, states[:, -1], STATES] if ends else log_probs


def _emitting_before(sites: Sites, table: Tables, with_label: bool) -> Answers:
    x = table["x"]
    return _chain_answers(sites, {**table, "x": np.concatenate([x[..., :1], x[..., :-1]], axis=-1)}, with_label)


def _without_ends(sites: Sites, table: Tables, with_label: bool) -> Answers:
    answers = _chain_answers(sites, table, with_label)
    assert answers.paths is not None
    first, stop = np.log(sites["emission_probs"]), np.log(sites["transition_probs"][..., STATES])
    logs = [
        log_joint - first[:, states[:, 0], x[0]] - stop[:, states[:, -1]]
        for states, log_joint, x in zip(*answers.paths, table["x"][0], strict=True)
    ]
    return answers._replace(paths=answers.paths._replace(log_joint=tuple(logs)))


def _chain_functions(sites: Sites, tables: Tables) -> Statistics:
    stop = sites["transition_probs"][:, :, STATES].mean(1)
    stay = np.einsum("rii->ri", sites["transition_probs"][:, :, :STATES])
    first = (tables["x"][..., 0] == 0).mean(1)
    return {
        "probability of stopping": stop,
        "number of steps times probability of stopping": tables["length"].mean(1) * stop,
        "probability of staying": stay.mean(1),
        "difference in staying": np.abs(stay[:, 0] - stay[:, 1]),
        "first symbol": sites["emission_probs"][..., 0].mean(1),
        "first symbol times its share": sites["emission_probs"][..., 0].mean(1) * first,
        "distance of the emissions": np.linalg.norm(sites["emission_probs"][:, 0] - sites["emission_probs"][:, 1], axis=-1),
    }


def _chain_table(tables: Tables, replicate: int) -> Data:
    x, length = tables["x"][replicate], tables["length"][replicate]
    sequences = [row[:size] for row, size in zip(x, length, strict=True)]
    return Data("sequences", joined(sequences), ("u", "v", "w"))


def hmm() -> Oracle:
    """Two states with three symbols, three sequences that end at the boundary."""

    def options(stopping: float) -> dict[str, Any]:
        following = NEXT.copy()
        following[:, STATES] = stopping
        chains = {"start_probs": {"concentration": START}, "transition_probs": {"concentration": following}}
        return {"num_states": STATES, "prior": chains | {"state": {"emission_concentration": EMISSION}}}

    return Oracle(
        model="hmm",
        options=options(STOP),
        draw_parameters=_draw_chain_parameters,
        draw_tables=partial(_draw_sequences, SEQUENCES),
        table=_chain_table,
        log_prior=lambda sites: (
            log_dirichlet(START, sites["start_probs"])
            + log_dirichlet(NEXT, sites["transition_probs"])
            + log_dirichlet(EMISSION, sites["emission_probs"])
        ),
        log_likelihood=_forward,
        functions=_chain_functions,
        mutant=ten_percent("transition concentration", STOP, options, " at the boundary"),
        answers=_chain_answers,
        contracts=Contracts(
            (STATES - 1) + STATES * STATES + STATES * (SYMBOLS - 1),
            reordered((2, 0, 1), {"emission_probs": (-1,)}, {("prior", "state", "emission_concentration"): (0,)}),
        ),
        slips=(
            Slip("a forward recursion that emits the symbol before (E9)", _emitting_before),
            Slip("Viterbi's table without the first emission and the stop (E11)", _without_ends),
        ),
        posterior=partial(enumerated, _chain_enumeration()),
        enumeration=_chain_enumeration(),
        simplices=("start_probs", "transition_probs", "emission_probs"),
        latent="path",
        complete=_factors,
        pointed=pointed_at("path", 0, {"start_probs": 1, "transition_probs": 1, "emission_probs": 1}),
        draw_larger_tables=partial(_draw_sequences, MANY),
        strata=STRATA,
    )
