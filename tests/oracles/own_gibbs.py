"""A Gibbs sampler of ``gmm_simple`` in NumPy, as a student would write it, and slips that can be planted in it.

mean_k ~ Normal(location, I / strength), z_n ~ Categorical(1/K), x_n ~ Normal(mean_{z_n}, I)
"""

import numpy as np


class OwnGibbs:
    """``slip``: strength (2 for 1), assignments (a wrong sign), or none."""

    def __init__(self, prior, slip=None):
        self.location, self.strength, self.slip = np.asarray(prior["location"]), float(prior["strength"]), slip
        self.blocks = {"component": self.assigned, "mean": self.moved}

    def start(self, rng, data, sites):
        return {"mean": sites["mean"], "component": sites["component"]}

    def init(self, rng, data):
        return {"mean": rng.normal(size=(2, 2)), "component": np.zeros(len(data["x"]), int)}

    def step(self, rng, state, data):
        for block in self.blocks.values():
            state = block(rng, state, data)
        return state, state

    def sites(self, state):
        return state

    def assigned(self, rng, state, data):
        log_density = -0.5 * ((data["x"][:, None] - state["mean"]) ** 2).sum(-1)
        log_density = -log_density if self.slip == "assignments" else log_density
        return state | {"component": (log_density + rng.gumbel(size=log_density.shape)).argmax(1)}

    def moved(self, rng, state, data):
        precision, centre = self._conditional(state, data)
        return state | {"mean": centre + rng.normal(size=centre.shape) / np.sqrt(precision)}

    def _conditional(self, state, data):
        """Precision (K, 1) and mean (K, D) of every component's mean."""
        strength = 2 * self.strength if self.slip == "strength" else self.strength
        one_hot = np.eye(2)[state["component"]]
        precision = strength + one_hot.sum(0)[:, None]
        return precision, (strength * self.location + one_hot.T @ data["x"]) / precision


class WithConditionals:
    """The same, with the log density of its conditional, and no blocks."""

    def __init__(self, sampler):
        self.sampler, self.start, self.step = sampler, sampler.start, sampler.step
        self.log_conditionals = {"mean": self.log_mean}

    def log_mean(self, sites, data):
        precision, centre = self.sampler._conditional(sites, data)
        return -0.5 * (precision * (sites["mean"] - centre) ** 2).sum()


class Chains:
    """The same, which cannot be started at given parameters."""

    def __init__(self, sampler):
        self.init, self.step = sampler.init, sampler.step
