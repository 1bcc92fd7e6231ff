"""Hidden Markov models against hmmlearn and dynamax, part by part: EM, Viterbi, one very long sequence, bins, samplers.

- *em*: 200 sequences of 500 symbols, S = 10, V = 50, 20 iterations from one start under a flat prior: against hmmlearn's
  ``scaling`` and ``log`` implementations, and against dynamax. The zoo's time is that of ``fit``, compiled, with its results.
  dynamax has many dependencies and is in no extra: use ``--with dynamax`` to include it.
- *viterbi*: the most probable paths of the same sequences at the same parameters.
- *long*: one sequence of 1,000,000, S = 3 and 10: forward and backward, and Viterbi.
- *layout*: sequences of unequal lengths side by side against packed, and the same number of steps in rows of equal length.
- *samplers*: effective draws per second of the slowest functional, forward filtering and backward sampling against NUTS.
"""

import importlib.util
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from benchmarks.measure import Target, interleave, median, print_table

REPEATS = 5
ITERATIONS = 20
AGREEMENT = 1e-8  # relative, of two log-likelihoods


class Case(NamedTuple):
    """Sequences of one length and parameters to start from."""

    x: np.ndarray  # (N, L)
    start: dict[str, np.ndarray]
    num_symbols: int


def case(num_rows: int, length: int, num_states: int, num_symbols: int, seed: int = 0) -> Case:
    """Sequences of a chain with sparse transitions and emissions, and an unrelated start."""
    rng = np.random.default_rng(seed)
    start, transition = rng.dirichlet(np.ones(num_states)), rng.dirichlet(np.full(num_states, 0.3), num_states)
    emission = rng.dirichlet(np.full(num_symbols, 0.2), num_states)
    state = rng.choice(num_states, num_rows, p=start)
    x = np.empty((num_rows, length), dtype=np.int32)
    for t in range(length):
        x[:, t] = _drawn(rng, emission[state])
        state = _drawn(rng, transition[state])
    sites = {
        "start_probs": rng.dirichlet(np.ones(num_states)),
        "transition_probs": rng.dirichlet(np.ones(num_states), num_states),
        "emission_probs": rng.dirichlet(np.ones(num_symbols), num_states),
    }
    return Case(x, sites, num_symbols)


def _drawn(rng: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    return (rng.random(len(probs))[:, None] > probs.cumsum(1)[:, :-1]).sum(1)


def data_of(given: Case) -> Any:
    """The sequences as the zoo reads them."""
    from models.data import Data
    from models.data.documents import Sequences

    number, length = given.x.shape
    words = tuple(f"w{v}" for v in range(given.num_symbols))
    return Data("sequences", Sequences(given.x.ravel(), np.arange(number + 1) * length), words)


def peer(given: Case, implementation: str, iterations: int) -> Any:
    """Hmmlearn's estimator at the start."""
    from hmmlearn.hmm import CategoricalHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    found = CategoricalHMM(
        len(given.start["start_probs"]), n_iter=iterations, tol=-np.inf, init_params="", implementation=implementation
    )
    found.n_features = given.num_symbols
    found.startprob_, found.transmat_, found.emissionprob_ = (value.copy() for value in given.start.values())
    return found


def _seconds(function: Callable[[], Any], index: int) -> float:
    clock = time.perf_counter()
    function()
    return time.perf_counter() - clock


def _dynamax(given: Case) -> Callable[[], float]:
    """Dynamax's EM, from the same start: -> the log-likelihood before its last iteration."""
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import CategoricalHMM

    size = len(given.start["start_probs"])
    flat = {f"{name}_concentration": 1.0 for name in ("emission_prior", "initial_probs", "transition_matrix")}

    def run() -> float:
        with warnings.catch_warnings(), jax.enable_x64(True):
            warnings.simplefilter("ignore")
            model = CategoricalHMM(size, 1, given.num_symbols, **flat)
            start = [jnp.asarray(value) for value in given.start.values()]
            params, properties = model.initialize(
                jax.random.PRNGKey(0), initial_probs=start[0], transition_matrix=start[1], emission_probs=start[2][:, None, :]
            )
            x = jnp.asarray(given.x)[..., None]
            _, trace = model.fit_em(params, properties, x, num_iters=ITERATIONS, verbose=False)
            # Its trace includes the log density of flat Dirichlet priors: S + 1 rows of S probabilities, and S rows of V.
            return float(trace[-1]) - (size + 1) * gammaln(size) - size * gammaln(given.num_symbols)

    return run


def _fitted(given: Case, implementation: str) -> Any:
    """Hmmlearn's estimator after its iterations."""
    number, length = given.x.shape
    return peer(given, implementation, ITERATIONS).fit(given.x.reshape(-1, 1), [length] * number)


def measure_em() -> list[Target]:
    """Twenty iterations of Baum and Welch."""
    from inference import fit
    from models import MODELS

    given = case(200, 500, 10, 50)
    data = data_of(given)
    model = MODELS["hmm"](data, num_states=10, boundary=False, prior="flat")
    zoo = partial(fit, model, data, "em", start=given.start, max_iter=ITERATIONS, tol=0, progress=False)
    objective = np.asarray(zoo()["optimization"].to_dataset()["objective"])[0]
    peers: dict[str, Callable[[], Any]] = {f"hmmlearn, {name}": partial(_fitted, given, name) for name in ("scaling", "log")}
    reached = {name: run().monitor_.history[-1] for name, run in peers.items()}
    if importlib.util.find_spec("dynamax") is not None:
        peers["dynamax"] = _dynamax(given)
        reached["dynamax"] = peers["dynamax"]()
    found = interleave({name: partial(_seconds, run) for name, run in (peers | {"zoo": zoo}).items()}, REPEATS)
    wanted = {"hmmlearn, scaling": 4.0, "hmmlearn, log": 10.0, "dynamax": 1.0}
    rows, targets = [("zoo", f"{median(found['zoo']):.3f}", "", "")], []
    for name, value in reached.items():
        ratio = median(found[name]) / median(found["zoo"])
        gap = abs(value - objective[-1]) / abs(value)
        rows.append((name, f"{median(found[name]):.3f}", f"{ratio:.2f}", f"{gap:.0e}"))
        targets.append(Target(f"hmm, EM, against {name}", ratio, wanted[name], agreed=gap < AGREEMENT))
    print_table(
        "EM, 200 × 500, S = 10, V = 50, 20 iterations, seconds",
        ("", "seconds", "ratio", "gap"),
        rows,
        "gap: of the log-likelihoods after as many iterations, relative.",
    )
    return targets


def measure_viterbi() -> list[Target]:
    """The most probable paths at the start's parameters."""
    import jax

    given = case(200, 500, 10, 50)
    lengths, model = [500] * 200, peer(given, "log", 1)
    path = _paths_on_host(_chain(given))
    with jax.enable_x64(True):
        worth = float(path().log_joint.sum())
        theirs = model.decode(given.x.reshape(-1, 1), lengths)[0]
        found = interleave(
            {
                "hmmlearn": partial(_seconds, lambda: model.predict(given.x.reshape(-1, 1), lengths)),
                "zoo": partial(_seconds, path),
            },
            REPEATS,
        )
    ratio = median(found["hmmlearn"]) / median(found["zoo"])
    rows = [(name, f"{median(times):.4f}") for name, times in found.items()]
    print_table("Viterbi, 200 × 500, S = 10, seconds", ("", "seconds"), rows)
    # Equally probable paths may differ: sums in another order round differently.
    return [Target("hmm, Viterbi, against hmmlearn", ratio, 3.0, agreed=abs(worth - theirs) < 1e-12 * abs(theirs))]


def _paths_on_host(local: Any) -> Callable[[], Any]:
    """The loops that decoding uses on a CPU, on as many threads as there are cores."""
    from inference.engine.driver import num_cores
    from models.chains.compiled.paths import best_paths

    start, step, stop, emission = map(np.asarray, local[:4])
    return partial(best_paths, start, step, stop, emission, np.asarray(local.packing.length), num_cores())


def _chain(given: Case) -> Any:
    """The chain at the start's parameters."""
    import jax
    import jax.numpy as jnp

    from models.chains.latent import Chain
    from models.rows.packing import side_by_side

    with jax.enable_x64(True):
        start, transition, emission = (jnp.log(jnp.asarray(value)) for value in given.start.values())
        density = emission.T[jnp.asarray(given.x.T)]
        number, length = given.x.shape
        return Chain(start, transition, jnp.zeros_like(start), density, side_by_side(jnp.full(number, length), length))


def measure_long() -> list[Target]:
    """One sequence of a million steps."""
    rows, targets = [], []
    for size in (3, 10):
        times, agreed = _of_one_sequence(case(1, 1_000_000, size, 5))
        ratios = [times[f"{what}, peer"] / times[f"{what}, zoo"] for what in ("posterior", "path")]
        rows.append((str(size), *(f"{value:.2f}" for value in times.values()), *(f"{ratio:.1f}" for ratio in ratios)))
        targets += [
            Target(f"hmm, 1,000,000 steps, S = {size}, {what}", ratio, 3.0, agreed=agreed)
            for what, ratio in zip(("posterior", "Viterbi"), ratios, strict=True)
        ]
    print_table(
        "one sequence of 1,000,000, seconds",
        ("S", "posterior, hmmlearn", "zoo", "Viterbi, hmmlearn", "zoo", "ratio", "ratio"),
        rows,
    )
    return targets


def _of_one_sequence(given: Case) -> tuple[dict[str, float], bool]:
    """Seconds of both, and whether they agree."""
    import jax

    from models.chains.latent import chain

    local, model, x = _chain(given), peer(given, "scaling", 1), given.x.reshape(-1, 1)
    with jax.enable_x64(True):
        smooth = jax.jit(lambda local: (chain.mean(jax.random.PRNGKey(0), local), chain.log_partition(local)))
        path = _paths_on_host(local)
        ours, theirs = float(smooth(local)[1][0]), float(model.score(x))
        path()
        runs: dict[str, Callable[[], Any]] = {
            "posterior, peer": partial(model.score_samples, x),
            "posterior, zoo": lambda: jax.block_until_ready(smooth(local)),
            "path, peer": partial(model.predict, x),
            "path, zoo": path,
        }
        found = interleave({name: partial(_seconds, run) for name, run in runs.items()}, 3)
    return {name: median(values) for name, values in found.items()}, abs(ours - theirs) < AGREEMENT * abs(theirs)


def measure_layout() -> list[Target]:
    """Side by side against packed, by how much lengths differ; and the same number of steps in rows of equal length."""
    import jax
    import jax.numpy as jnp

    from models.chains.latent import chain
    from models.rows.packing import laid_out, packed, side_by_side

    smooth = jax.jit(partial(chain.mean, jax.random.PRNGKey(0)))

    def run(local: Any) -> Any:
        return jax.block_until_ready(smooth(local))

    rng, rows = np.random.default_rng(0), []
    for spread in (0.0, 0.5, 1.0):
        lengths = np.maximum(1, np.round(np.exp(np.log(200) + spread * rng.normal(size=400)))).astype(int)
        with jax.enable_x64(True):
            given = _chain(case(400, int(lengths.max()), 10, 50))
            apart = side_by_side(jnp.asarray(lengths), int(lengths.max()))
            packing = jax.tree.map(jnp.asarray, packed(lengths)) or apart
            layouts = {
                "side by side": given._replace(packing=apart),
                "packed": given._replace(packing=packing, emission=laid_out(packing, jnp.swapaxes(given.emission, 0, 1))),
                "one length": _chain(case(int(lengths.sum() / lengths.mean().round()), int(lengths.mean().round()), 10, 50)),
            }
            runs = {name: partial(run, local) for name, local in layouts.items()}
            for once in runs.values():
                once()
            found = interleave({name: partial(_seconds, once) for name, once in runs.items()}, REPEATS)
        waste = (lengths.max() * len(lengths) / lengths.sum(), packing.extent.steps * packing.extent.bins / lengths.sum())
        times = [median(found[name]) for name in layouts]
        rows.append((f"{spread}", *(f"{value:.2f}" for value in waste), *(f"{value:.3f}" for value in times)))
    print_table(
        "layout: 400 sequences of log-normal lengths about 200, S = 10, expected states, seconds",
        ("sd of log length", "cells per step, side by side", "packed", "side by side", "packed", "of one length"),
        rows,
    )
    return []


def measure_samplers() -> list[Target]:
    """Effective draws per second, of the functional that mixes slowest."""
    from inference import compare, fit
    from models import MODELS

    given = case(20, 60, 3, 6, seed=1)
    data = data_of(given)
    model = MODELS["hmm"](data, num_states=3, boundary=False)
    rows = []
    for method, draws in (("nuts", 1000), ("gibbs", 10_000)):
        run = partial(fit, model, data, method, num_samples=draws, progress=False)
        run()
        line = compare({method: run()}).table.iloc[0]
        rows.append((method, f"{line['ESS']:.0f}", f"{line['warmup s'] + line['run s']:.1f}", f"{line['ESS/s']:.0f}"))
    print_table("20 × 60, S = 3, V = 6, 4 chains, compiled", ("", "ESS", "seconds", "ESS/s"), rows)
    return []


PARTS: Mapping[str, Callable[[], list[Target]]] = {
    "em": measure_em,
    "viterbi": measure_viterbi,
    "long": measure_long,
    "layout": measure_layout,
    "samplers": measure_samplers,
}
