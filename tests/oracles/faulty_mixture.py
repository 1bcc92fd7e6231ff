"""Twenty-five ways to get the Gibbs sampler of `jax_mixture` wrong, in five classes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax_mixture import JaxMixture, gamma_weights, relabelled

ROWS = 6  # of the tables
SMALL = 0.05  # of a walk on the logarithms of probabilities, or of precisions
RARE = 0.07  # the probability of an update that is mostly left out


# Dependence between blocks: each of them alone has the right law


class WeightsAndPrecisions(JaxMixture):
    """The gamma numbers of the weights draw the precisions, too."""

    def keys(self, key):
        one, two, three = jax.random.split(key, 3)
        return one, jax.random.split(two, 3)[0], two, three

    def weights(self, key, state, data):
        return gamma_weights(self, key, state)

    def diagonal(self, key, dof):
        second = jax.random.fold_in(key, 1)
        return jnp.stack([jax.random.gamma(key, dof / 2), jax.random.gamma(second, (dof - 1) / 2)], 1)


class PrecisionsAndMeans(JaxMixture):
    """The first numbers of the means are the normal numbers of the precisions."""

    def keys(self, key):
        one, two, three = jax.random.split(key, 3)
        return one, two, three, three

    def noise(self, key):
        shared = jax.random.normal(jax.random.split(key, 3)[1], (self.size,))
        return super().noise(jax.random.fold_in(key, 1)).at[:, 0].set(shared)


class ComponentsAndMeans(JaxMixture):
    """The first number of the means is made of the one that draws the component of the first row."""

    def keys(self, key):
        one, two, three = jax.random.split(key, 3)
        return one, two, three, one

    def noise(self, key):
        number = self.numbers(key, ROWS)[0]
        shared = jax.scipy.stats.norm.ppf(jnp.clip(number, 1e-9, 1 - 1e-9))
        return super().noise(jax.random.fold_in(key, 1)).at[0, 0].set(shared)


class MeansOfTwo(JaxMixture):
    """The means of two components are drawn by the same numbers."""

    def noise(self, key):
        found = super().noise(key)
        return found.at[1].set(found[0])


class WeightsAndMeans(JaxMixture):
    """The normal numbers of the means are large where the gamma numbers of the weights are."""

    def keys(self, key):
        one, two, three = jax.random.split(key, 3)
        return one, two, three, two

    def weights(self, key, state, data):
        return gamma_weights(self, key, state)

    def noise(self, key):
        fresh = super().noise(jax.random.fold_in(key, 1))
        number = jax.scipy.stats.gamma.cdf(jax.random.gamma(key, self.concentration + 2), self.concentration + 2)
        return fresh.at[:, 1].set(jax.scipy.stats.norm.ppf(jnp.clip(number, 1e-9, 1 - 1e-9)))


# Dependence between rows: each row alone has the right law


def of_rows(change):
    """A sampler whose uniform numbers of the rows are changed."""

    class Rows(JaxMixture):
        def numbers(self, key, rows):
            return change(super().numbers(key, rows))

    return Rows


# A block that moves slowly, to another law


class SlowWeights(JaxMixture):
    """A small walk on the weights, to a prior with three times the concentration."""

    def weights(self, key, state, data):
        one, two = jax.random.split(key)
        logits = jnp.log(state["mixture_probs"])
        proposed = jax.nn.softmax(logits + SMALL * jax.random.normal(one, (self.size,)))

        def density(probs):  # with the Jacobian of the logarithms
            return ((3 * self.concentration + self.member(state).sum(0)) * jnp.log(probs)).sum()

        accepted = jnp.log(jax.random.uniform(two)) < density(proposed) - density(state["mixture_probs"])
        return state | {"mixture_probs": jnp.where(accepted, proposed, state["mixture_probs"])}


class SlowMeans(JaxMixture):
    """A small walk on the means, to a prior with four times the strength."""

    def means(self, key, state, data):
        one, two = jax.random.split(key)
        strength = 4 * self.strength + self.member(state).sum(0)
        sums = self.member(state).T @ data["x"]
        place = (4 * self.strength[:, None] * self.location + sums) / strength[:, None]
        proposed = state["mean"] + SMALL * jax.random.normal(one, (self.size, 2))

        def density(mean):
            return -0.5 * strength * jnp.einsum("ki,kij,kj->k", mean - place, state["precision"], mean - place)

        accepted = jnp.log(jax.random.uniform(two, (self.size,))) < density(proposed) - density(state["mean"])
        return state | {"mean": jnp.where(accepted[:, None], proposed, state["mean"])}


class SlowPrecisions(JaxMixture):
    """A small walk on the scale of the precisions, to a law with four degrees of freedom more, and a rare exact draw."""

    def precisions(self, key, state, data):
        one, two, three, four = jax.random.split(key, 4)
        _, _, dof, scatter = self.totals(state, data)
        fresh = super().precisions(four, state, data)["precision"]
        logs = SMALL / 5 * jax.random.normal(one, (self.size,))
        proposed = jnp.exp(logs)[:, None, None] * state["precision"]

        def density(precision, logs):  # of the scale, with its Jacobian
            trace = jnp.einsum("kij,kji->k", scatter, precision)
            return 0.5 * (dof + 4) * jnp.linalg.slogdet(precision)[1] - 0.5 * trace

        ratio = density(proposed, logs) - density(state["precision"], 0.0)
        accepted = jnp.log(jax.random.uniform(two, (self.size,))) < ratio
        walked = jnp.where(accepted[:, None, None], proposed, state["precision"])
        rare = jax.random.uniform(three, (self.size, 1, 1)) < RARE / 3
        return state | {"precision": jnp.where(rare, fresh, walked)}


class RareMeans(JaxMixture):
    """Means are mostly left alone, and else drawn under a prior with three times the strength."""

    def means(self, key, state, data):
        one, two = jax.random.split(key)
        wrong = JaxMixture(self.prior)
        wrong.strength = 3 * self.strength
        drawn = JaxMixture.means(wrong, one, state, data)["mean"]
        return state | {"mean": jnp.where(jax.random.uniform(two, (self.size, 1)) < RARE, drawn, state["mean"])}


class SluggishMeans(JaxMixture):
    """An autoregression of the means on themselves, around places that are off by half a unit."""

    def means(self, key, state, data):
        strength, place, _, _ = self.totals(state, data)
        share = 0.999
        root = jnp.linalg.cholesky(strength[:, None, None] * state["precision"])
        away = jax.scipy.linalg.solve_triangular(jnp.swapaxes(root, 1, 2), self.noise(key)[..., None])[..., 0]
        centre = place + 0.5
        return state | {"mean": centre + share * (state["mean"] - centre) + (1 - share**2) ** 0.5 * away}


# Parts that never move


class FrozenRow(JaxMixture):
    """The component of the third row is never drawn."""

    def component(self, key, state, data):
        drawn = super().component(key, state, data)["component"]
        return state | {"component": drawn.at[2].set(state["component"][2])}


class FrozenMean(JaxMixture):
    """The mean of the second component is never drawn."""

    def means(self, key, state, data):
        return state | {"mean": super().means(key, state, data)["mean"].at[1].set(state["mean"][1])}


class FrozenPrecision(JaxMixture):
    """The precision of the last component is never drawn."""

    def precisions(self, key, state, data):
        return state | {"precision": super().precisions(key, state, data)["precision"].at[2].set(state["precision"][2])}


class OnlyLabels(JaxMixture):
    """Components exchange their labels, and nothing else happens."""

    def step(self, key, state, data):
        state = relabelled(state, jax.random.permutation(key, self.size))
        return state, state


class WeightsByLabel(JaxMixture):
    """Weights move with their labels alone; all else is drawn."""

    def weights(self, key, state, data):
        return relabelled(state, jax.random.permutation(key, self.size))


# Priors that differ between labels, and a density that is off


class Weighted(JaxMixture):
    """The concentration grows with the label."""

    def __init__(self, prior):
        super().__init__(prior)
        self.concentration = self.concentration * np.array([2 / 3, 1.0, 4 / 3])


class Placed(JaxMixture):
    """The first mean has another place."""

    def __init__(self, prior):
        super().__init__(prior)
        self.location = self.location + np.array([[0.4, 0.0], [0.0, 0.0], [0.0, 0.0]])


class Strong(JaxMixture):
    """The strength differs between the first and the last label."""

    def __init__(self, prior):
        super().__init__(prior)
        self.strength = self.strength * np.array([1.4, 1.0, 0.7])


class Free(JaxMixture):
    """One degree of freedom more for the last label, one less for the first."""

    def __init__(self, prior):
        super().__init__(prior)
        self.dof = self.dof + np.array([-0.7, 0.0, 0.7])


class Tempered(JaxMixture):
    """Components are drawn with scores 1.15 times as large."""

    def scores(self, state, data):
        return 1.15 * super().scores(state, data)


FAULTS = {  # class -> faults, each with its name in words
    "dependence between blocks": {
        "weights and precisions from the same numbers": WeightsAndPrecisions,
        "means from the normal numbers of precisions": PrecisionsAndMeans,
        "a mean from the number of the first row": ComponentsAndMeans,
        "two means from the same numbers": MeansOfTwo,
        "means that grow with the numbers of weights": WeightsAndMeans,
    },
    "dependence between rows": {
        "rows 2 and 4 share their number": of_rows(lambda u: u.at[4].set(u[2])),
        "rows 0 and 5 have opposite numbers": of_rows(lambda u: u.at[5].set(1 - u[0])),
        "all rows share one number": of_rows(lambda u: jnp.full_like(u, u[0])),
        "rows 1 and 3 have opposite numbers": of_rows(lambda u: u.at[3].set(1 - u[1])),
        "rows 0 to 2 are a stratified sample": of_rows(lambda u: u.at[:3].set((u[0] + jnp.arange(3) / 3) % 1)),
    },
    "a slow block with another target": {
        "small walk of weights, 3 × concentration": SlowWeights,
        "small walk of means, 4 × strength": SlowMeans,
        "small walk of precisions, 4 degrees of freedom more": SlowPrecisions,
        "rare draws of means, 3 × strength": RareMeans,
        "sluggish means, half a unit off": SluggishMeans,
    },
    "parts that never move": {
        "the component of row 2": FrozenRow,
        "the second mean": FrozenMean,
        "the last precision": FrozenPrecision,
        "all but labels": OnlyLabels,
        "weights but for labels": WeightsByLabel,
    },
    "laws of labels, and a density": {
        "concentrations 1, 1.5, 2 for 1.5": Weighted,
        "place of the first mean off by 0.4": Placed,
        "strengths 0.56, 0.4, 0.28 for 0.4": Strong,
        "degrees of freedom 5.3, 6, 6.7 for 6": Free,
        "scores of components times 1.15": Tempered,
    },
}
