"""Functions of an `Algebra` that methods share: the update rule, inner products, divergences, expectations."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array

from models.base import Algebra, Model, Stats, Structure


def add(left: Stats, right: Stats) -> Stats:
    """``nu = prior + statistics``: the update rule."""
    return jax.tree.map(lambda a, b: a + b, left, right)


def inner(T: Stats, nu: Stats) -> Array:
    """< T, nu > over all leaves of two pytrees with the same structure: a scalar, with 0 · (−∞) = 0."""
    products = jax.tree.map(lambda T, nu: (jnp.where(nu == 0, 0.0, T) * nu).sum(), T, nu)
    return jax.tree.reduce(jnp.add, products)


def log_partition(algebra: Algebra, nu: Mapping[str, Stats]) -> Array:
    """Log ∫ exp < T(θ), nu > dθ over all blocks: a scalar."""
    return sum((family.log_partition(nu[name]) for name, family in algebra.families), jnp.zeros(()))


def log_prior(algebra: Algebra, prior: Mapping[str, Stats], T: Mapping[str, Stats]) -> Array:
    """Log p(θ) in the coordinates of the program's sites: < T(θ), prior > − log Z(prior) + coupling; 0 for a flat prior."""
    if not algebra.proper:
        return jnp.zeros(())
    joined = jnp.zeros(()) if algebra.structure.coupling is None else algebra.structure.coupling(prior, T)
    return inner(T, dict(prior)) - log_partition(algebra, prior) + joined


def negative_divergence(algebra: Algebra, prior: Mapping[str, Stats], T: Mapping[str, Stats], nu: Mapping[str, Stats]) -> Array:
    """E_q[log p(θ)] − E_q[log q(θ)] = −KL(q ‖ p), where q(θ) has nu and T = E_q[T(θ)]; sum over the algebra's blocks."""
    if not algebra.families:
        return jnp.zeros(())
    T, prior, nu = ({name: leaf[name] for name, _ in algebra.families} for leaf in (T, prior, nu))
    return log_prior(algebra, prior, T) + log_partition(algebra, nu) - inner(T, nu)


def at_mean(algebra: Algebra, key: Array, nu: Mapping[str, Stats]) -> dict[str, Stats]:
    """E_q[T(θ)], block by block; ignores the key."""
    return {name: family.mean(nu[name]) for name, family in algebra.families}


def at_mode(algebra: Algebra, key: Array, nu: Mapping[str, Stats]) -> dict[str, Stats]:
    """T(θ) at the mode of q(θ), block by block; ignores the key."""
    return {name: family.mode(nu[name]) for name, family in algebra.families}


def at_sample(algebra: Algebra, key: Array, nu: Mapping[str, Stats]) -> dict[str, Stats]:
    """T(θ) of one draw from q(θ), block by block."""
    keys = jax.random.split(key, len(algebra.families))
    return {name: family.sample(k, nu[name]) for k, (name, family) in zip(keys, algebra.families, strict=True)}


# ---------------------------------------------------------------------------------------------------------------------
# Questions about a model


STRUCTURES = frozenset({"joint", "coupled", "cycle", "local", "collapsed"})


def structures(structure: Structure) -> frozenset[str]:
    """How the parameter blocks of a model depend on each other: joint, or coupled or cycle or both; and any of the others.

    - joint: all blocks are independent a priori and conjugate at once
    - coupled: the prior joins blocks, and each block is conjugate given the others
    - cycle: blocks are conjugate only given the values of the others, and a sweep updates them in turn
    - local: some blocks have one entry per row
    - collapsed: the parameters can be integrated out given the latents

    >>> from models import MODELS
    >>> sorted(structures(MODELS["gmm"]([[1.0], [2.0], [4.0]]).algebra.structure))
    ['collapsed', 'joint']
    """
    present = {
        "coupled": structure.coupling is not None,
        "cycle": bool(structure.cycle),
        "local": bool(structure.local),
        "collapsed": structure.collapsed is not None,
    }
    names = frozenset(name for name, holds in present.items() if holds)
    return names if names & {"coupled", "cycle"} else names | {"joint"}


def exchanges_labels(model: Model) -> bool:
    """Whether the posterior is the same in all orders of the components."""
    return model.symmetry is not None and model.symmetry.exchanges_labels


def turns_factors(model: Model) -> bool:
    """Whether the posterior is the same if factors are rotated, or exchanged and reflected."""
    return model.symmetry is not None and model.symmetry.turns_factors


def reports_probabilities(model: Model) -> bool:
    """Whether a result reports probabilities for the latents of a row; factor scores, for example, are not probabilities."""
    return model.algebra is None or model.algebra.latent.reported.entropy is not None


def latent_axes(model: Model) -> tuple[str, str]:
    """(what has a latent, whether its values are discrete or real); a program's latents are taken to be those of rows.

    >>> from models import MODELS
    >>> latent_axes(MODELS["gmm"]([[1.0], [2.0], [4.0]]))
    ('row', 'discrete')
    """
    if model.algebra is None:
        return "row", "discrete"
    latent = model.algebra.latent
    return latent.unit, "real" if latent.values == "real" else "discrete"


def is_sequential(model: Model) -> bool:
    """Whether a row of the model is a sequence, with a latent at every step."""
    return latent_axes(model)[0] == "step"


def has_paths(model: Model) -> bool:
    """Whether a row of the model is a sequence of states, of which some path is the most probable."""
    return latent_axes(model) == ("step", "discrete")


def row_name(model: Model) -> str:
    """The word for a row: the leading dimension of the local parameters, such as "document", otherwise "row"."""
    local = () if model.algebra is None else model.algebra.structure.local
    return model.naming.dims[local[0]][0] if local else "row"
