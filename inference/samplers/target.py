"""`inference.target`: the posterior of a model in the shapes that samplers of other libraries take.

Positions are unconstrained: a dict of arrays by site, or one vector of all of them. The log density has the Jacobian of the
transform to the parameters, so that a sampler of positions samples the parameters. Everything is computed in the precision that
JAX is set to, for input of any precision: ``jax.config.update("jax_enable_x64", True)``, or
``with jax.enable_x64(True)``, for double precision. `Target.draws` and `Target.result` are always in double precision.
"""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array

from inference.certificates.checks.cases import built
from inference.certificates.oracles import ORACLES
from inference.engine.program import constrain, innermost, potential, transforms, unconstrain
from inference.fitting.foreign import as_result
from inference.fitting.prepare import as_arrays, require_model, x64
from inference.samplers.draws import marked
from inference.samplers.hints import SEEN_FROM, Priors
from inference.samplers.kernels import data_of, entry_of, oracle_at_bench
from models.base import Data, Hyper, Model, Pytree
from models.errors import ZooError, did_you_mean
from models.symmetries import Symmetry

Position = Mapping[str, Any]  # site -> array on ℝᵈ
PARAGRAPHS = 2  # of a model's docstring that has its generative program: the head, and the program
ROLES = {  # number of a prior -> what it is
    "a": "first number of the Beta",
    "b": "second number of the Beta",
    "concentration": "of the Dirichlet of the probabilities of components or classes",
    "dof": "degrees of freedom of the precision: Wishart(dof, scatter⁻¹), of one number Gamma(dof / 2, scatter / 2)",
    "emission_concentration": "of the Dirichlet of the symbols of a state",
    "initial_concentration": "of the Dirichlet of the first token",
    "intercept_scale": "standard deviation of the intercept",
    "inverse_scale": "rate of the Gamma of a count's mean",
    "level_concentration": "of the Dirichlet of the levels of a category",
    "loading_strength": "a loading has precision loading_strength × precision",
    "location": "mean of the means",
    "right_concentration": "of the Dirichlet of ratings, at the right one",
    "scatter": "inverse scale of the precision",
    "shape": "shape of the Gamma of a count's mean",
    "start_concentration": "of the Dirichlet of the first state",
    "strength": "a mean has precision strength × precision",
    "topic_concentration": "of the Dirichlet of the topics of a document",
    "transition_concentration": "of the Dirichlet of the next state or token; a column more than rows is the stop",
    "weight_scale": "standard deviation of the weights",
    "word_concentration": "of the Dirichlet of the words of a topic",
    "wrong_concentration": "of the Dirichlet of ratings, at wrong ones",
}
SEEN = {  # numbers that the user does not choose
    "origin": "constant centre of the columns, computed from the table; no choice of yours",
    "spread": "constant scale of the columns, computed from the table; no choice of yours",
}
WIDTH = 100  # columns of the printed posterior


@dataclass(frozen=True, repr=False)
class Target:
    """The posterior of a model on a table.

    >>> posterior = target("gmm")
    >>> posterior.log_density(posterior.start(seed=0)).shape
    ()
    """

    model: Model
    table: Data
    rows: Pytree  # as the program reads them
    data: Mapping[str, np.ndarray]  # by name of a model: as kernels of `inference.certify` read it; else the encoded rows
    latents: Mapping[str, str]  # by name of a model: the latents that `inference.certify` checks, and their shapes in words

    @property
    def prior(self) -> Hyper:
        """The numbers of the prior, by name."""
        return self.model.hyper

    @property
    def symmetry(self) -> Symmetry:
        """The transformations that leave the posterior unchanged, such as permutations of the components; None: none."""
        return self.model.symmetry

    @cached_property
    def _transforms(self) -> dict[str, Any]:
        with x64(64):
            return transforms(self.model.spec, dict(self.model.hyper), self.rows)

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Of a position, by site in alphabetical order, in which a vector has them."""
        return {name: np.shape(value) for name, value in sorted(self.start(0).items())}

    @property
    def size(self) -> int:
        """d, the length of a position as a vector."""
        return sum(int(np.prod(shape)) for shape in self._shapes.values())

    def start(self, seed: int) -> dict[str, Array]:
        """A position at random: parameters drawn from the prior."""
        with x64(64):
            sites = Priors(self.model, self.rows).draw(self.model.hyper, seed, 1)
            position = unconstrain(self._transforms, {name: value[0] for name, value in sites.items()})
        return _as_set({name: np.asarray(value) for name, value in position.items()})

    def constrain(self, position: Position) -> dict[str, Array]:
        """Position -> parameters by site."""
        return constrain(self._transforms, _as_set(dict(position)))

    def unconstrain(self, sites: Mapping[str, Any]) -> dict[str, Array]:
        """Parameters by site -> position."""
        return unconstrain(self._transforms, _as_set(dict(sites)))

    def log_density(self, position: Position) -> Array:
        """Log p(x, θ) of a position, plus the log Jacobian. JAX can trace, batch and differentiate it."""
        hyper, rows = _as_set((dict(self.model.hyper), self.rows))
        return -potential(self.model.spec, hyper, rows, _as_set(dict(position)))

    def gradient(self, position: Position) -> dict[str, Array]:
        """The gradient of `log_density`."""
        slope: dict[str, Array] = jax.grad(self.log_density)(_as_set(dict(position)))
        return slope

    def as_vector(self, position: Position) -> Array:
        """Position -> (d,)."""
        position_set = _as_set(dict(position))
        return jnp.concatenate([jnp.ravel(position_set[name]) for name in self._shapes])

    def as_position(self, vector: Any) -> dict[str, Array]:
        """(d,) -> position."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])
        parts = jnp.split(_as_set(vector), ends[:-1])
        return {name: part.reshape(shape) for part, (name, shape) in zip(parts, self._shapes.items(), strict=True)}

    def log_density_of_vector(self, vector: Any) -> Array:
        """`log_density` of a vector (d,)."""
        return self.log_density(self.as_position(vector))

    def result(self, positions: Any = None, method: str = "draws", *, sites: Any = None) -> xr.DataTree:
        """A result out of positions (chain, draw, d), or by site (chain, draw, …): for `compare`, diagnostics and pages.

        ``sites=`` takes parameters in place of positions: a dict of arrays (chain, draw, …) by site, or any input of
        `inference.as_result`. The result has the warning "draws given by the user: not checked", also on its page,
        until they agree with a reference in `inference.check_draws`.

        Raises `ZooError` for both positions and sites, or neither.
        """
        if (positions is None) == (sites is None):
            raise ZooError("result: give positions on ℝᵈ, or sites= for parameters: one of the two")
        drawn = self.draws(positions) if sites is None else sites
        return marked(as_result(self.model, self.table, drawn, method))

    def draws(self, positions: Any) -> dict[str, np.ndarray]:
        """Parameters (chain, draw, …) by site out of positions, the input of `inference.check_draws`."""
        with x64(64):
            by_site = (
                positions if isinstance(positions, Mapping) else jax.vmap(jax.vmap(self.as_position))(np.asarray(positions))
            )
            host = {name: np.asarray(value) for name, value in by_site.items()}
            sites = jax.jit(jax.vmap(jax.vmap(self.constrain)))(host)
        return {name: np.asarray(value) for name, value in sites.items()}

    def __repr__(self) -> str:
        lines = [f"posterior of {self.model.name}, {self.size} dimensions", "", *_program(self.model), ""]
        with x64(64):
            values = self.constrain(self.start(0))
        lines += ["sites:"] + [f"  {name} {value.shape}, {_support(self._transforms[name])}" for name, value in values.items()]
        if self.latents:
            lines += ["latents:"] + [f"  {name} {what}" for name, what in self.latents.items()]
        lines += ["data:"] + [f"  {name} {np.shape(value)}" for name, value in self.data.items()]
        for heading, numbers in (("prior:", self._numbers(False)), ("not of the prior:", self._numbers(True))):
            lines += [heading, *numbers] if numbers else []
        return "\n".join(lines)

    def _numbers(self, seen: bool) -> list[str]:
        """A line for each number of the prior, or for each other number."""
        roles = ROLES | SEEN
        lines = []
        for name, value in self.prior.items():
            if (name in SEEN_FROM) == seen:
                numbers = np.array2string(np.asarray(value), precision=4, separator=", ").replace("\n", "")
                line = f"  {name} {numbers}{f': {roles[name]}' if name in roles else ''}"
                lines.append(textwrap.fill(line, WIDTH, subsequent_indent="    "))
        return lines


def _as_set(tree: Pytree) -> Pytree:
    """Floating-point arrays in the precision that JAX is set to."""
    wanted = jnp.result_type(float)

    def leaf(value: Any) -> Any:
        if isinstance(value, jax.core.Tracer):
            return value.astype(wanted) if jnp.issubdtype(value.dtype, jnp.floating) else value
        array = np.asarray(value)
        return jnp.asarray(array.astype(wanted) if array.dtype.kind == "f" else array)

    return jax.tree.map(leaf, tree)


def _program(model: Model) -> list[str]:
    """The generative program, as the docstring of the model has it."""
    paragraphs = (model.description or "").strip().split("\n\n")[:PARAGRAPHS]
    return "\n\n".join(paragraphs).split("\n")


def _support(transform: Any) -> str:
    """The support of a site, in words."""
    words = re.findall("[A-Z][a-z]*", type(innermost(transform.codomain)).__name__)
    return " ".join(words).lower()


def target(model: Model | str, data: Any = None) -> Target:
    """The posterior of ``model`` on ``data``, for a user's sampler.

    ``model`` is a model of the zoo, or a NumPyro program made one by `inference.program_model`. A name gives the posterior that
    `inference.certify` certifies kernels on: a small table, which the oracle draws, and a special prior, which ``prior``
    states.

    Raises `ZooError` for an unknown name, and for a model without data.

    >>> data = load_data("iris")
    >>> posterior = target(MODELS["gmm"](data, num_components=3), data)
    >>> posterior.size  # three means, three triangles of precisions, two free probabilities
    44
    """
    if isinstance(model, str):
        return _of_name(model, data)
    require_model(model)
    if data is None:
        raise ZooError(f"target({model.name}): data is missing; a name, as in target({model.name!r}), has a table of its own")
    table = model.read(data)
    on_host = model.rows(table)
    with x64(64):
        return Target(model, table, as_arrays(on_host), _named(on_host), {})


def _of_name(name: str, data: Any) -> Target:
    if name not in ORACLES:
        raise ZooError(f"model={name!r} is not one of {', '.join(ORACLES)}{did_you_mean(name, ORACLES)}")
    if data is not None:
        raise ZooError(f"target({name!r}) has a table of its own; for yours give a model: MODELS[{name!r}](data, …)")
    oracle, rng = oracle_at_bench(name), np.random.default_rng(0)
    tables = oracle.draw_tables(rng, oracle.draw_parameters(rng, 1))
    model, table = built(oracle), oracle.table(tables, 0)
    with x64(64):
        rows = as_arrays(model.rows(table))
    latents = {} if oracle.latent is None else {oracle.latent: _latent(tables[oracle.latent][0])}
    return Target(model, table, rows, entry_of(data_of(oracle, tables), 0), latents)


def _named(rows: Pytree) -> dict[str, np.ndarray]:
    """The arrays of encoded rows by name."""
    paths = jax.tree_util.tree_flatten_with_path(rows)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in paths}


def _latent(value: np.ndarray) -> str:
    """Shape and kind of a latent, in words."""
    return f"{value.shape}, {'whole numbers from 0' if value.dtype.kind == 'i' else 'real'}"
