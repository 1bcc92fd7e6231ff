"""`method=nuts backend=numpyro`: NumPyro's No-U-Turn sampler, its kernel with its warm-up."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from numpyro import infer

from inference.engine.driver import Run, drive, sample
from inference.engine.program import potential, unravel
from inference.engine.task import Task
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from inference.unconstrained.density import DENSE, SETTLED, Posterior, bounded, curvature_metric
from models.base import Pytree


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
    depth = 32 - lax.clz(state.num_steps.astype(jnp.int32))  # doublings: a tree of k has 2ᵏ⁻¹ to 2ᵏ − 1 steps
    record = {
        "z": state.z,
        "diverging": state.diverging,
        "acceptance_rate": state.accept_prob,
        "n_steps": state.num_steps,
        "tree_depth": depth,
        "reached_max_treedepth": depth >= kernel.max_tree_depth,
        "step_size": state.adapt_state.step_size,
        "energy": state.energy,
        "potential": state.potential_energy,
    }
    return state, record, jnp.zeros((), bool)


def chains(task: Task, posterior: Posterior, options: Any, watch: Watch) -> tuple[Run, dict[str, float]]:
    """Chains with the ``options`` of `inference.unconstrained.nuts`: (their run, seconds by phase)."""
    density, arrays = posterior.density, posterior.arrays
    kernel = Kernel(density.spec, options.num_warmup, options.target_accept, options.max_tree_depth, density.size <= DENSE)
    key = jax.random.fold_in(task.key, 1)
    keys = jax.random.split(key, options.num_chains)
    state = initial(kernel, arrays, keys, unravel(density.shapes, posterior.starts))
    iterate = partial(drive, step, kernel, arrays, lockstep=False)
    return sample(iterate, key, state, options.num_warmup, options.num_samples, task, watch)
