"""Functionals of a chain do not depend on the order of its states."""

import jax
import numpy as np
from naive import near

from models.chains.prior import START, TRANSITION, Shape
from models.chains.summaries import functionals_of


def test_functionals_do_not_know_the_order_of_the_states():
    """Stay probabilities from the largest, the expected length and co-occurrence: the same with states renamed."""
    rng = np.random.default_rng(0)
    start, transition, latents = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(3), (2, 4))
    functionals = jax.jit(functionals_of(Shape(3, True, True), True, ((0, 1), (0, 3))))
    found = functionals({}, {START: start, TRANSITION: transition}, latents)
    assert near(found["stay_probs"], np.sort(transition.diagonal())[::-1], rtol=1e-15)
    for order in ([2, 0, 1], [1, 0, 2]):
        renamed = {START: start[order], TRANSITION: transition[order][:, [*order, 3]]}
        for name, value in functionals({}, renamed, latents[..., order]).items():
            assert near(value, found[name], rtol=1e-12)
