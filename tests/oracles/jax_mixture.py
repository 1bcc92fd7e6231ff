"""A Gibbs sampler of ``gmm`` in JAX without blocks, whose parts are methods that a fault replaces.

mixture_probs ~ Dirichlet(concentration),  precision_k ~ Wishart(dof, scatter⁻¹),
mean_k ~ Normal(location, (strength precision_k)⁻¹),  z_n ~ Categorical(mixture_probs),  x_n ~ Normal(mean_{z_n}, precision⁻¹)
"""

import jax
import jax.numpy as jnp
import numpy as np


class JaxMixture:
    """The right sampler. Its parts are methods, which a fault replaces; ``prior`` is that of `inference.target`."""

    def __init__(self, prior):
        self.prior = {name: np.asarray(value) for name, value in prior.items()}
        self.size = 3
        self.concentration = self.prior["concentration"] * np.ones(self.size)
        self.location = self.prior["location"] * np.ones((self.size, 2))
        self.strength, self.dof = (self.prior[name] * np.ones(self.size) for name in ("strength", "dof"))

    def start(self, key, data, sites):
        return dict(sites)

    def step(self, key, state, data):
        keys = self.keys(key)
        state = self.component(keys[0], state, data)
        state = self.weights(keys[1], state, data)
        state = self.precisions(keys[2], state, data)
        state = self.means(keys[3], state, data)
        return state, state

    def keys(self, key):
        return jax.random.split(key, 4)

    def component(self, key, state, data):
        probs = jax.nn.softmax(self.scores(state, data), axis=1).cumsum(1)
        chosen = (self.numbers(key, len(data["x"]))[:, None] > probs[:, :-1]).sum(1)
        return state | {"component": chosen.astype(state["component"].dtype)}

    def scores(self, state, data):
        away = data["x"][:, None] - state["mean"]
        logs = -0.5 * jnp.einsum("nki,kij,nkj->nk", away, state["precision"], away)
        return logs + 0.5 * jnp.linalg.slogdet(state["precision"])[1] + jnp.log(state["mixture_probs"])

    def numbers(self, key, rows):
        return jax.random.uniform(key, (rows,))

    def member(self, state):
        return jax.nn.one_hot(state["component"], self.size, dtype=state["mean"].dtype)

    def weights(self, key, state, data):
        return state | {"mixture_probs": jax.random.dirichlet(key, self.concentration + self.member(state).sum(0))}

    def totals(self, state, data):
        """Of every component, given its rows: strength and place of the mean, degrees of freedom and scatter."""
        member, x = self.member(state), data["x"]
        counts, sums = member.sum(0), member.T @ x
        strength = self.strength + counts
        place = (self.strength[:, None] * self.location + sums) / strength[:, None]
        squares = jnp.einsum("nk,ni,nj->kij", member, x, x)
        prior = self.strength[:, None, None] * self.location[:, :, None] * self.location[:, None]
        scatter = self.prior["scatter"] + squares + prior - strength[:, None, None] * place[:, :, None] * place[:, None]
        return strength, place, self.dof + counts, scatter

    def precisions(self, key, state, data):
        """Bartlett's decomposition, of Wishart(dof, scatter⁻¹)."""
        _, _, dof, scatter = self.totals(state, data)
        first, second = jax.random.split(key, 3)[:2]
        diagonal = jnp.sqrt(2 * self.diagonal(first, dof))
        below = jax.random.normal(second, (self.size,))
        lower = jnp.zeros((self.size, 2, 2)).at[:, 0, 0].set(diagonal[:, 0]).at[:, 1, 1].set(diagonal[:, 1])
        lower = lower.at[:, 1, 0].set(below)
        root = jnp.linalg.cholesky(jnp.linalg.inv(scatter)) @ lower
        return state | {"precision": root @ jnp.swapaxes(root, 1, 2)}

    def diagonal(self, key, dof):
        return jax.random.gamma(key, jnp.stack([dof, dof - 1], 1) / 2)

    def means(self, key, state, data):
        strength, place, _, _ = self.totals(state, data)
        noise = self.noise(key)
        root = jnp.linalg.cholesky(strength[:, None, None] * state["precision"])
        away = jax.scipy.linalg.solve_triangular(jnp.swapaxes(root, 1, 2), noise[..., None])[..., 0]
        return state | {"mean": place + away}

    def noise(self, key):
        return jax.random.normal(key, (self.size, 2))


def gamma_weights(sampler, key, state):
    """Dirichlet weights as shares of gamma numbers."""
    numbers = jax.random.gamma(key, sampler.concentration + sampler.member(state).sum(0))
    return state | {"mixture_probs": numbers / numbers.sum()}


def relabelled(state, order):
    """The same mixture with its components in another order."""
    places = jnp.argsort(order)
    parts = {name: state[name][order] for name in ("mixture_probs", "mean", "precision")}
    return state | parts | {"component": places[state["component"]].astype(state["component"].dtype)}
