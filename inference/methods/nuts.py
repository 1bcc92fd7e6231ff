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
from jax.flatten_util import ravel_pytree
from numpyro import infer

from inference.engine.driver import drive, sample
from inference.engine.initialise import start_sites
from inference.engine.program import constrain_draws, log_jacobians, potential, transforms, unconstrain_chains
from inference.engine.requirements import require_proper
from inference.engine.task import Draws, Kind, Task
from inference.identification.random_labels import drawn_labellings, require_symmetry
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumWarmup, PermuteComponents, Setting
from inference.runtime.programs import cached_jit
from inference.runtime.progress import Watch
from models.base import Pytree

FLAT = 1e-4  # curvature relative to the largest: standard deviations a hundred times apart
SETTLED = 100  # iterations in which adaptation replaces a curvature far from the mode; after 20 it still makes divergences
DENSE = 64  # dimensions up to which the mass matrix is dense


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


def bounded(potential: Callable[[Pytree], Array]) -> Callable[[Pytree], Array]:
    """``potential`` of a point, where it and its gradient are numbers that can be squared; +∞ with a gradient of 0 elsewhere.

    A gradient beyond that makes a momentum whose kinetic energy overflows to −∞, and NumPyro accepts the point for certain. At
    +∞ a trajectory diverges and ends. The bound is the cube root of the largest number: 6e102 in double precision.
    """

    def forward(z: Pytree) -> tuple[Array, Pytree]:
        energy, gradient = jax.value_and_grad(potential)(z)
        largest = jnp.cbrt(jnp.finfo(energy.dtype).max)
        sound = jnp.stack([(jnp.abs(leaf) < largest).all() for leaf in (energy, *jax.tree.leaves(gradient))]).all()
        return jnp.where(sound, energy, jnp.inf), jax.tree.map(lambda leaf: jnp.where(sound, leaf, 0.0), gradient)

    @jax.custom_vjp
    def value(z: Pytree) -> Array:
        return forward(z)[0]

    value.defvjp(forward, lambda gradient, weight: (jax.tree.map(lambda leaf: weight * leaf, gradient),))
    return value


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


def curvature_metric(potential: Callable[[Pytree], Array], z: Pytree) -> Array:
    """(D, D): inverse mass matrix to begin with, the inverse of the curvature of ``potential`` at ``z``.

    Where the curvature is negative its size counts, and no direction counts as flatter than `FLAT` times the steepest. Trees of
    the first hundred iterations would otherwise be deep where scales differ, as those of means and precisions do. Gradients are
    differenced one direction after the other: second derivatives take longer to compile, and memory for all directions at once.
    They see no detail finer than their step, 6e-6 of a coordinate or of 1: enough to begin with. Where the curvature is not
    finite, the identity remains.
    """
    point, shaped = ravel_pytree(z)
    gradient = jax.grad(lambda point: potential(shaped(point)))
    width = jnp.cbrt(jnp.finfo(point.dtype).eps) * jnp.maximum(1.0, jnp.abs(point))
    above, below = jnp.split(jax.lax.map(gradient, point + jnp.concatenate([jnp.diag(width), -jnp.diag(width)])), 2)
    curvature = (above - below) / (2 * width[:, None])
    values, vectors = jnp.linalg.eigh((curvature + curvature.T) / 2)
    sizes = jnp.maximum(jnp.abs(values), FLAT * jnp.abs(values).max())
    metric = (vectors / sizes) @ vectors.T
    return jnp.where(jnp.isfinite(metric).all(), metric, jnp.eye(len(point)))


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
    require_proper(task)
    if options.permute_components:
        require_symmetry(task.model)
    arrays = (task.hyper, task.sufficient_rows)
    task.reporter.phase("starting chains", None)
    supports = transforms(task.model.spec, *arrays)
    z = unconstrain_chains(supports, start_sites(task, options.num_chains))
    dense = sum(leaf.size for leaf in jax.tree.leaves(z)) // options.num_chains <= DENSE
    kernel = Kernel(task.model.spec, options.num_warmup, options.target_accept, options.max_tree_depth, dense)
    key = jax.random.fold_in(task.key, 1)
    state = initial(kernel, arrays, jax.random.split(key, options.num_chains), z)
    iterate = partial(drive, step, kernel, arrays, lockstep=METHOD.lockstep)
    run, timing = sample(iterate, key, state, options.num_warmup, options.num_samples, task, WATCH)
    if run.records is None:
        return Draws(Kind.CHAINS, {}, {}, timing, interrupted=True)
    records = dict(run.records)
    z = records.pop("z")
    sites = jax.tree.map(np.asarray, constrain_draws(supports, z))
    log_joint = -np.asarray(records.pop("potential")) - np.asarray(log_jacobians(supports, z))
    if options.permute_components:
        sites = drawn_labellings(task, sites)
    return Draws(Kind.CHAINS, sites, records, timing, run.interrupted, log_joint=log_joint)


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
