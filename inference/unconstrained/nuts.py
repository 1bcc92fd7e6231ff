"""The No-U-Turn sampler (Hoffman and Gelman 2014) on the marginal program, by one of three libraries.

Latents are summed out by the program, parameters live on ℝᵈ. Chains start overdispersed, each from other seeds. A
transition leaves the posterior invariant, and the law of a chain tends to it. Divergences, R-hat and ESS of the functionals can
show that a run has not arrived. That all of them pass does not show that it has: all chains may be at one of several modes.

The backends take the same steps, and differ in their warm-up. Those of NumPyro and BlackJAX are Stan's windows: they begin with
the curvature at the start, and their metric is dense up to `inference.unconstrained.density.DENSE` dimensions. nutpie's metric
comes from draws and their gradients; it runs chains in threads of its own, and its runs cannot be resumed.
"""

from importlib import import_module
from typing import Annotated, Literal, NamedTuple

from inference.engine.task import Draws, Task
from inference.methods.method import Method
from inference.methods.options import NumChains, NumSamples, NumWarmup, PermuteComponents, Setting
from inference.unconstrained.density import draws_from_starts, watch_of
from inference.unconstrained.starts import Starts, posterior_with_starts

BACKENDS = {  # name -> module with chains(task, posterior, options, watch)
    "numpyro": "inference.unconstrained.numpyro_nuts",
    "blackjax": "inference.unconstrained.blackjax_nuts",
    "nutpie": "inference.unconstrained.nutpie_nuts",
}


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
    backend: Annotated[
        Literal["numpyro", "blackjax", "nutpie"], Setting("the library that takes the steps; nutpie is the extra nutpie")
    ] = "numpyro"
    starts: Starts = "overdispersed"
    permute_components: PermuteComponents = False


def run(task: Task, options: Options) -> Draws:
    """Draws of every site from every chain, with the kernel's statistics; a `ZooError` for a backend that is not installed."""
    chains = import_module(BACKENDS[options.backend]).chains
    posterior = posterior_with_starts(task, options)
    run, timing = chains(task, posterior, options, WATCH)
    draws = draws_from_starts(task, posterior, run, timing, options.permute_components)
    return draws._replace(attrs={"backend": options.backend})


WATCH = watch_of(gradients="n_steps")


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
