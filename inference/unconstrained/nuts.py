"""The No-U-Turn sampler (Hoffman and Gelman 2014) on the marginal program: NumPyro's kernel, the zoo's driver.

Latents are summed out by the program, parameters live on ℝᵈ. Chains start overdispersed, each from other seeds. A
transition leaves the posterior invariant, and the law of a chain tends to it. Divergences, R-hat and ESS of the functionals can
show that a run has not arrived. That all of them pass does not show that it has: all chains may be at one of several modes.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro import infer

from inference.engine.driver import drive, sample
from inference.engine.program import potential, unravel
from inference.engine.task import Draws, Task
from inference.identification.random_labels import require_symmetry
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumWarmup, PermuteComponents, Setting
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from inference.unconstrained.density import (
    DENSE,
    SETTLED,
    bounded,
    curvature_metric,
    draws_of_chains,
    posterior_on_reals,
)
from models.base import Pytree


class Options(NamedTuple):
    """``num_chains`` chains of ``num_warmup`` adaptive iterations dropped and ``num_samples`` kept.

    ``permute_components`` gives every draw a random labelling (`inference.identification.random_labels`).
    """

    num_warmup: NumWarmup = 1000
    num_samples: NumSamples = 1000
    num_chains: NumChains = 4
    target_accept: Annotated[
        float, Setting("mean acceptance probability that the warm-up aims at; more means shorter steps", low=0.05, high=0.999)
    ] = 0.8
    max_tree_depth: Annotated[int, Setting("a draw takes at most 2 to this power gradients", high=15)] = 10
    permute_components: PermuteComponents = False


class Kernel(NamedTuple):
    """The static half of a run; with ``dense`` the mass matrix is a full one, otherwise diagonal."""

    spec: Callable[..., Any]
    num_warmup: int
    target_accept: float
    max_tree_depth: int
    dense: bool = True

    def settings(self) -> dict[str, Any]:
        """Arguments of NumPyro's init: as ``Kernel(spec, 500, 0.8, 10).settings()["dense_mass"]``, which is True."""
        return {
            "num_warmup": self.num_warmup,
            "dense_mass": self.dense,
            "target_accept_prob": self.target_accept,
            "max_tree_depth": self.max_tree_depth,
        }


@cache
def kernels(kernel: Kernel) -> tuple[Any, Any]:
    """NumPyro's (init, sample); one pair for equal arguments, so that jitted code recognises it.

    Its sample reads settings that its init has left behind. Where the program of `initial` is a cached one, init does not run
    in this process. So it runs here, on shapes of a potential that is 0.
    """

    def potential_of(hyper: Pytree, rows: Pytree, instead: Callable[[Pytree], Array] | None = None) -> Any:
        return bounded(partial(potential, kernel.spec, hyper, rows)) if instead is None else instead

    init, draw = infer.hmc.hmc(potential_fn_gen=potential_of, algo="NUTS")
    level = {"instead": lambda z: jnp.zeros(())}
    start = partial(init, **kernel.settings(), model_args=({}, ()), model_kwargs=level)
    jax.eval_shape(start, jax.ShapeDtypeStruct((1,), jnp.result_type(float)))
    return init, draw


@cached_jit(static_argnames=("kernel",))
def initial(kernel: Kernel, arrays: tuple[Pytree, Pytree], keys: Array, z: Pytree) -> Pytree:
    """State of every chain (a leading axis) at ``z``."""
    init, _ = kernels(kernel)
    known = kernel.dense and kernel.num_warmup >= SETTLED

    def one(key: Array, z: Pytree) -> Pytree:
        return init(
            z,
            **kernel.settings(),
            inverse_mass_matrix=curvature_metric(partial(potential, kernel.spec, *arrays), z) if known else None,
            model_args=arrays,
            rng_key=key,
        )

    return jax.vmap(one)(keys, z)


def step(kernel: Kernel, arrays: tuple[Pytree, Pytree], key: Array, state: Pytree) -> tuple[Pytree, Pytree, Array]:
    """One iteration of one chain; its random numbers are part of its state."""
    state = kernels(kernel)[1](state, arrays)
    record = {
        "z": state.z,
        "diverging": state.diverging,
        "acceptance_rate": state.accept_prob,
        "n_steps": state.num_steps,
        "step_size": state.adapt_state.step_size,
        "energy": state.energy,
        "potential": state.potential_energy,
    }
    return state, record, jnp.zeros((), bool)


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain, with the kernel's statistics."""
    posterior = posterior_on_reals(task, options.num_chains)
    if options.permute_components:
        require_symmetry(task.model)
    density, arrays = posterior.density, posterior.arrays
    dense = density.size <= DENSE
    kernel = Kernel(density.spec, options.num_warmup, options.target_accept, options.max_tree_depth, dense)
    key = jax.random.fold_in(task.key, 1)
    keys = jax.random.split(key, options.num_chains)
    state = initial(kernel, arrays, keys, unravel(density.shapes, posterior.starts))
    iterate = partial(drive, step, kernel, arrays, lockstep=METHOD.lockstep)
    run, timing = sample(iterate, key, state, options.num_warmup, options.num_samples, task, WATCH)
    return draws_of_chains(task, posterior.supports, run, timing, options.permute_components)


def _words(record: Pytree) -> str:
    return f"log joint on ℝᵈ {-np.mean(record['potential']):.2f}"


WATCH = Watch(
    _words,
    newest={
        "log joint on ℝᵈ": lambda record: -record["potential"],
        "step size": lambda record: record["step_size"],
        "gradients": lambda record: record["n_steps"],
    },
    totals={"divergent": lambda records: records["diverging"]},
)


METHOD = Method(
    name="nuts",
    summary="No-U-Turn sampler on the marginal NumPyro program",
    options=Options,
    run=run,
    claim="invariant",
    evidence=("kernel law", "posterior", "predictions", "pipeline"),
    may_stay=True,
    lockstep=False,  # trees differ in depth: chains side by side would wait for the deepest
)
