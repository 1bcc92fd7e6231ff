"""Gibbs samplers with latents in NumPy, as a student would write them, and slips that can be planted in the latents.

`OwnForwardFilter` of ``hmm``: a path by forward filtering and backward sampling, then probabilities given the path.
`OwnMixture` of ``gmm``: components, then probabilities, then means and precisions.
"""

import numpy as np

STATES = 2


class OwnForwardFilter:
    """``slip``: stop, start, transposed, ahead, argmax, stale, or none. See `path`."""

    def __init__(self, prior, slip=None):
        self.prior, self.slip = {name: np.asarray(value) for name, value in prior.items()}, slip
        self.blocks = {"path": self.path, "probabilities": self.probabilities}

    def start(self, rng, data, sites):
        return dict(sites)

    def sites(self, state):
        return state

    def step(self, rng, state, data):
        if self.slip == "stale":  # the path is that of the parameters before
            drawn = self.probabilities(rng, state, data) | {"path": self.path(rng, state, data)["path"]}
            return drawn, drawn
        for block in self.blocks.values():
            state = block(rng, state, data)
        return state, state

    def path(self, rng, state, data):
        moves, stop = state["transition_probs"][:, :STATES], state["transition_probs"][:, STATES]
        emission = state["emission_probs"]
        path = np.zeros(data["x"].shape, int)
        for n, length in enumerate(data["length"]):
            symbols = data["x"][n, :length]
            alpha = [emission[:, symbols[0]] * (1.0 if self.slip == "start" else state["start_probs"])]
            for symbol in symbols[1:]:
                alpha.append((alpha[-1] @ (moves.T if self.slip == "transposed" else moves)) * emission[:, symbol])
            weight = alpha[-1] * (1.0 if self.slip == "stop" else stop)
            for t in reversed(range(length)):
                if t + 1 < length:
                    weight = alpha[t + 1 if self.slip == "ahead" else t] * moves[:, path[n, t + 1]]
                drawn = int(rng.random() * weight.sum() > weight[0])
                path[n, t] = weight.argmax() if self.slip == "argmax" else drawn
        return state | {"path": path}

    def probabilities(self, rng, state, data):
        path, starts = state["path"], np.zeros(STATES)
        following, symbols = np.zeros((STATES, STATES + 1)), np.zeros((STATES, 3))
        for n, length in enumerate(data["length"]):
            own = path[n, :length]
            starts[own[0]] += 1
            np.add.at(following, (own, np.append(own[1:], STATES)), 1)
            np.add.at(symbols, (own, data["x"][n, :length]), 1)
        prior = self.prior
        return state | {
            "start_probs": rng.dirichlet(prior["start_concentration"] + starts),
            "transition_probs": np.array([rng.dirichlet(row) for row in prior["transition_concentration"] + following]),
            "emission_probs": np.array([rng.dirichlet(row) for row in prior["emission_concentration"] + symbols]),
        }


class OwnMixture:
    """``slip``: weights (the probabilities of the components are forgotten), argmax, stale, spread (of the means), or none."""

    def __init__(self, prior, slip=None):
        self.prior, self.slip = {name: np.asarray(value) for name, value in prior.items()}, slip
        self.blocks = {"component": self.component, "mixture_probs": self.weights, "gaussians": self.gaussians}

    def start(self, rng, data, sites):
        return dict(sites)

    def sites(self, state):
        return state

    def step(self, rng, state, data):
        if self.slip == "stale":
            drawn = self.gaussians(rng, self.weights(rng, state, data), data)
            drawn = drawn | {"component": self.component(rng, state, data)["component"]}
            return drawn, drawn
        for block in self.blocks.values():
            state = block(rng, state, data)
        return state, state

    def component(self, rng, state, data):
        away = data["x"][:, None] - state["mean"]
        logs = -0.5 * np.einsum("nki,kij,nkj->nk", away, state["precision"], away)
        logs += 0.5 * np.linalg.slogdet(state["precision"])[1]
        logs += 0.0 if self.slip == "weights" else np.log(state["mixture_probs"])
        noise = 0.0 if self.slip == "argmax" else rng.gumbel(size=logs.shape)
        return state | {"component": (logs + noise).argmax(1)}

    def weights(self, rng, state, data):
        counts = np.bincount(state["component"], minlength=3)
        return state | {"mixture_probs": rng.dirichlet(self.prior["concentration"] + counts)}

    def gaussians(self, rng, state, data):
        location, strength = self.prior["location"], self.prior["strength"]
        means, precisions = [], []
        for k in range(3):
            rows = data["x"][state["component"] == k]
            total = strength + len(rows)
            middle = (strength * location + rows.sum(0)) / total
            scatter = self.prior["scatter"] + (rows - middle).T @ (rows - middle)
            scatter = scatter + strength * np.outer(middle - location, middle - location)
            precision = self._wishart(rng, float(self.prior["dof"]) + len(rows), np.linalg.inv(scatter))
            shrunk = 2.0 * total if self.slip == "spread" else total
            means.append(middle + np.linalg.cholesky(np.linalg.inv(shrunk * precision)) @ rng.normal(size=2))
            precisions.append(precision)
        return state | {"mean": np.array(means), "precision": np.array(precisions)}

    def _wishart(self, rng, dof, scale):
        """Bartlett's decomposition."""
        lower = np.array([[np.sqrt(rng.chisquare(dof)), 0.0], [rng.normal(), np.sqrt(rng.chisquare(dof - 1))]])
        root = np.linalg.cholesky(scale) @ lower
        return root @ root.T


class WithoutBlocks:
    """The same without blocks: updates are checked together."""

    def __init__(self, sampler):
        self.start, self.step = sampler.start, sampler.step
