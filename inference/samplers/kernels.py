"""Kernels of users, of blackjax and of NumPyro, run side by side on many tables from given parameters.

A kernel sees a table as a dict of arrays (`inference.target(name).data`), which it may not overwrite. Parameters are a dict of
arrays by site, which it may. Where the oracle draws latents, such as the component of every row, the start has them, too.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax import Array

from inference.certificates.checks.cases import built, stacked_rows
from inference.certificates.laws.kernels import Ran, ran, with_latents
from inference.certificates.oracles import oracle_of
from inference.certificates.oracles.oracle import Oracle, Sites, Tables
from inference.engine.program import constrain, potential, transforms, unconstrain
from inference.methods.kernel_mistakes import explained, of_start, of_step
from inference.methods.user_kernel import Table, read_only
from inference.samplers.mistakes import require_block_state, require_like, require_sites
from models.base import Pytree


@runtime_checkable
class StartableKernel(Protocol):
    """A Markov kernel. ``key`` is a JAX key, or a `numpy.random.Generator` for a kernel that is not compiled."""

    def start(self, key: Any, data: Table, sites: Mapping[str, Any]) -> Any:
        """The state at given parameters and latents: ``sites`` has both, and a kernel that draws latents starts at both."""

    def step(self, key: Any, state: Any, data: Table) -> tuple[Any, Mapping[str, Any]]:
        """One step: the new state, and its parameters by site; latents among them are checked, too."""


@runtime_checkable
class Blocked(Protocol):
    """A kernel that is made of blocks, each of which leaves the posterior alone: it is then checked block by block."""

    blocks: Mapping[str, Callable[[Any, Any, Table], Any]]  # name -> (key, state, data) -> state

    def sites(self, state: Any) -> Mapping[str, Any]:
        """The parameters of a state, and its latents."""


@runtime_checkable
class Conditionals(Protocol):
    """A kernel that states the log densities of its conditionals: they are compared with the joint density."""

    # site -> (sites with latents, data) -> log p(site | all others, data), up to what does not depend on the site
    log_conditionals: Mapping[str, Callable[[Mapping[str, Any], Table], Any]]


class Runner(Protocol):
    """A kernel whose law can be computed."""

    def run(self, oracle: Oracle, sites: Sites, tables: Tables, seed: int, steps: int) -> dict[str, np.ndarray]:
        """The parameters (R, …), and latents if the kernel has them, after the steps from ``sites``."""


class OwnKernel:
    """A `StartableKernel`; ``compiled``: it is JAX code, and replicates are run side by side by one program."""

    def __init__(self, sampler: StartableKernel, compiled: bool = True, name: str | None = None) -> None:
        """``name`` stands in messages, in place of that of the sampler's class."""
        self.sampler, self.compiled, self.name = sampler, compiled, name or type(sampler).__name__
        self.programs: dict[str, Any] = {}  # block, or the whole step -> function that runs all replicates
        self.others: set[str] = set()  # names of values that a step returns in addition to parameters and latents

    def run(self, oracle: Oracle, sites: Sites, tables: Tables, seed: int, steps: int) -> dict[str, np.ndarray]:
        """Start at ``sites`` and the latents of ``tables``; then ``steps`` steps."""

        def after(keys: Any, sites: Mapping[str, Any], data: Table) -> Mapping[str, Any]:
            state, returned = of_start(self.name, "start", self.sampler.start(keys[0], data, sites)), sites
            for key in keys[1:]:
                state, returned = of_step(self.name, self.sampler.step(key, state, data))
            self.others |= set(returned) - set(sites)
            return _known(sites, returned)

        return self._each("step", oracle, after, sites, tables, seed, steps)

    def run_block(self, name: str | None, oracle: Oracle, sites: Sites, tables: Tables, seed: int) -> dict[str, np.ndarray]:
        """The same after one update of one block; ``None``: after the start alone."""
        assert isinstance(self.sampler, Blocked)
        blocked = self.sampler

        def after(keys: Any, sites: Mapping[str, Any], data: Table) -> Mapping[str, Any]:
            state = of_start(self.name, "start", self.sampler.start(keys[0], data, sites))
            if name is not None:
                state = require_block_state(self.name, name, state, blocked.blocks[name](keys[1], state, data))
            return _known(sites, require_sites(self.name, blocked.sites(state)))

        return self._each("sites" if name is None else f"block {name}", oracle, after, sites, tables, seed, 1)

    def _each(
        self,
        what: str,
        oracle: Oracle,
        after: Callable[..., Mapping[str, Any]],
        sites: Sites,
        tables: Tables,
        seed: int,
        steps: int,
    ) -> dict[str, np.ndarray]:
        """``after`` of every replicate; raises `ZooError` for values unlike the given parameters and latents."""
        data, given = data_of(oracle, tables), given_of(oracle, sites, tables)
        with explained(self.name, what, self.compiled):
            run = self._side_by_side if self.compiled else self._one_by_one
            returned = run(what, after, given, data, seed, steps)
        require_like(self.name, oracle, given, returned, self.others)
        return returned

    def _side_by_side(
        self, what: str, after: Callable[..., Any], given: Sites, data: Sites, seed: int, steps: int
    ) -> dict[str, np.ndarray]:
        keys = jax.random.split(jax.random.PRNGKey(seed), (len(next(iter(given.values()))), steps + 1))
        run = self.programs.setdefault(what, jax.jit(jax.vmap(after)))
        return {name: np.asarray(value) for name, value in run(keys, dict(given), dict(data)).items()}

    def _one_by_one(
        self, what: str, after: Callable[..., Any], given: Sites, data: Sites, seed: int, steps: int
    ) -> dict[str, np.ndarray]:
        returned = []
        for replicate, stream in enumerate(np.random.SeedSequence(seed).spawn(len(next(iter(given.values()))))):
            sites, table = entry_of(given, replicate), read_only(entry_of(data, replicate))
            returned.append(after([np.random.default_rng(stream)] * (steps + 1), sites, table))
        return {name: np.stack([np.asarray(each[name]) for each in returned]) for name in returned[0]}


def oracle_at_bench(model: str) -> Oracle:
    """The oracle of a model, with its larger tables where it has some: nothing is enumerated here."""
    oracle = oracle_of(model)
    larger = oracle.draw_larger_tables
    return oracle if larger is None else oracle._replace(draw_tables=larger)


def given_of(oracle: Oracle, sites: Sites, tables: Tables) -> dict[str, np.ndarray]:
    """The start of a kernel: parameters, and latents where the oracle draws them."""
    return dict(sites) if oracle.latent is None else dict(sites) | {oracle.latent: tables[oracle.latent]}


def data_of(oracle: Oracle, tables: Tables) -> dict[str, np.ndarray]:
    """The data of R tables for kernels, by name (R, …): without latents, and with the values that all tables share."""
    number = len(next(iter(tables.values())))
    shared = {name: np.broadcast_to(value, (number, *value.shape)) for name, value in oracle.known.items()}
    return {name: value for name, value in tables.items() if name != oracle.latent} | shared


def entry_of(arrays: Mapping[str, np.ndarray], replicate: int) -> dict[str, np.ndarray]:
    """Copies of the arrays of one replicate: a kernel may write into them."""
    return {name: np.array(value[replicate]) for name, value in arrays.items()}


def _known(given: Mapping[str, Any], returned: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters and latents among what a kernel returns; it may return more."""
    return {name: value for name, value in returned.items() if name in given}


class GradientKernel:
    """A kernel on ℝᵈ, made of a log density: ``begin`` and ``step`` as blackjax or NumPyro have them."""

    def __init__(
        self,
        make: Callable[[Callable[[Any], Array]], Any],  # log density on ℝᵈ -> algorithm
        begin: Callable[[Any, Array, Pytree], Any],  # (algorithm, key, position) -> state
        step: Callable[[Any, Array, Any], Any],  # (algorithm, key, state) -> state
        position: Callable[[Any, Any], Pytree],  # (algorithm, state) -> position
    ) -> None:
        self.make, self.begin, self.step, self.position = make, begin, step, position
        self.programs: dict[str, Any] = {}  # name of a model -> function that runs all replicates

    def run(self, oracle: Oracle, sites: Sites, tables: Tables, seed: int, steps: int) -> dict[str, np.ndarray]:
        """Steps on the marginal program of the zoo's model, whose density parity has compared with the oracle's."""
        model, number = built(oracle), len(next(iter(sites.values())))
        hyper, readable = dict(model.hyper), [oracle.table(tables, replicate) for replicate in range(number)]
        rows = stacked_rows(model, readable, sufficient_rows=True)
        supports = transforms(model.spec, hyper, jax.tree.map(lambda leaf: leaf[0], rows))

        def after(keys: Array, sites: Mapping[str, Any], rows: Pytree) -> dict[str, Array]:
            algorithm = self.make(lambda z: -potential(model.spec, hyper, rows, z))
            state = self.begin(algorithm, keys[0], unconstrain(supports, sites))
            for key in keys[1:]:
                state = self.step(algorithm, key, state)
            return constrain(supports, self.position(algorithm, state))

        keys = jax.random.split(jax.random.PRNGKey(seed), (number, steps + 1))
        run = self.programs.setdefault(oracle.name, jax.jit(jax.vmap(after)))
        return {name: np.asarray(value) for name, value in run(keys, dict(sites), rows).items()}


def blackjax_kernel(make: Callable[[Callable[[Any], Array]], Any]) -> GradientKernel:
    """A kernel of blackjax. ``make`` takes a log density on ℝᵈ and returns a `blackjax` algorithm with fixed tuning.

    Positions are dicts of arrays by site, as `inference.target` has them.

    >>> kernel = blackjax_kernel(lambda density: blackjax.mala(density, 0.2))
    """
    return GradientKernel(
        make,
        begin=lambda algorithm, key, position: algorithm.init(position, key),
        step=lambda algorithm, key, state: algorithm.step(key, state)[0],
        position=lambda algorithm, state: state.position,
    )


def numpyro_kernel(make: Callable[[Callable[[Any], Array]], Any]) -> GradientKernel:
    """A kernel of NumPyro. ``make`` takes a potential, −log density on ℝᵈ, and returns a kernel of it.

    Nothing is adapted: a kernel whose step size depends on the state does not leave the posterior alone.

    >>> kernel = numpyro_kernel(lambda potential: infer.NUTS(potential_fn=potential, step_size=0.2))
    """

    def begin(kernel: Any, key: Array, position: Pytree) -> Any:
        return kernel.init(key, 0, position, (), {})

    return GradientKernel(
        lambda density: make(lambda z: -density(z)),
        begin=begin,
        step=lambda kernel, key, state: kernel.sample(state, (), {}),
        position=lambda kernel, state: getattr(state, kernel.sample_field),
    )


def move_of(runner: Runner, oracle: Oracle, steps: int) -> Callable[[Sites, Tables, int], Ran]:
    """A kernel for `inference.certificates.laws.kernel_law`."""
    return lambda sites, tables, seed: moved(oracle, sites, tables, runner.run(oracle, sites, tables, seed, steps))


def moved(oracle: Oracle, sites: Sites, tables: Tables, after: Mapping[str, np.ndarray]) -> Ran:
    """Parameters and latents after a kernel, and which of them stood still."""
    result, latent = ran(sites, after), oracle.latent
    return result if latent is None or latent not in after else with_latents(oracle, tables, result, after[latent])
