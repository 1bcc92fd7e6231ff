"""The models that a method supports, and its requirements on a task."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro import distributions as dist

from inference.engine.initialise import finite_latents
from inference.engine.task import Task
from inference.programs.tracing import prior_trace
from models.algebra import STRUCTURES, structures
from models.base import Algebra, Hyper, Latent, Pytree, ZooError
from models.rows.row_info import row_info

# structure -> (the need of a method that does not support it, the fact about such a model)
INCOMPATIBLE = {
    "local": ("parameters that all rows share", "rows of this model have parameters of their own, which inner updates find"),
    "coupled": (
        "blocks of parameters that are independent a priori and conjugate all at once",
        "blocks of this model are joined by their prior and conjugate only given each other",
    ),
    "cycle": (
        "parameters that are conjugate all at once",
        "blocks of this model are conjugate only given the values of the others",
    ),
}
# structure -> the need of a method that requires it
REQUIRED = {
    "collapsed": "a model with a collapsed sampler, as topics and mixtures under a proper prior have",
    "local": "rows with parameters of their own, as the topic proportions of a document in latent_dirichlet",
}


def supports_any_latents(latent: Latent) -> str | None:
    """No reason to refuse any latents."""
    return None


class Support(NamedTuple):
    """The models that a method supports, by their structures (`models.algebra.structures`) and their latents.

    >>> from models import MODELS
    >>> support = Support("cavi", STRUCTURES - {"cycle"}, remedy="use method=gibbs")
    >>> support.why_not(MODELS["gmm"]([[1.0], [2.0], [4.0]]).algebra) is None
    True
    """

    name: str  # of the method, or of its option with more requirements
    structures: frozenset[str] = STRUCTURES  # a model of any other structure is refused
    requires: frozenset[str] = frozenset()  # a model without one of these structures is refused
    consequence: str = ""  # why the other structures are refused, completing "…, so that"
    remedy: str = ""  # what to do instead
    why_no_latents: Callable[[Latent], str | None] = supports_any_latents  # why the method is undefined for latents, or None

    def why_not(self, algebra: Algebra) -> str | None:
        """Why the method does not support a model, in words; None if it does."""
        if (why := self.why_no_latents(algebra.latent)) is not None:
            return why
        present = structures(algebra.structure)
        for name in sorted(present - self.structures):
            needed, fact = INCOMPATIBLE[name]
            consequence = f", so that {self.consequence}" if self.consequence else ""
            return f"{self.name} needs {needed}; {fact}{consequence}; {self.remedy}"
        for name in sorted(self.requires - present):
            return f"{self.name} needs {REQUIRED[name]}; {self.remedy}"
        return None


ANY_MODEL = Support("this method")


def require_algebra(task: Task, support: Support = ANY_MODEL) -> Algebra:
    """The model's algebra, or a `ZooError` for a program-only model and for a model that ``support`` excludes."""
    if task.model.algebra is None:
        raise ZooError(
            f"{task.model.name} is a NumPyro program without the algebra that this method needs; use method=map, laplace, "
            "advi or nuts"
        )
    if (why := support.why_not(task.model.algebra)) is not None:
        raise ZooError(f"{task.model.name}: {why}")
    return task.model.algebra


def require_proper(task: Task) -> None:
    """A `ZooError` where the prior is flat and the method needs a proper posterior."""
    if task.model.algebra is not None and not task.model.algebra.proper:
        raise ZooError(
            "prior=flat makes no proper posterior (the likelihood of a mixture, for one, is unbounded); use method=em or map, "
            "or prior=default"
        )


def improper_sites(task: Task) -> list[str]:
    """The sites whose prior is no distribution."""
    return _sites_with(task, dist.ImproperUniform)


def require_prior_draws(task: Task, method: str) -> None:
    """A `ZooError` where draws of the program from its prior do not have the density of the prior.

    They have none where it is improper, and another one where a mask hides parts of the parameters.
    """
    require_proper(task)
    if task.model.algebra is not None:  # no prior of the zoo is masked, and `require_proper` has seen that it is proper
        return
    for kind, what in ((dist.ImproperUniform, "is improper"), (dist.MaskedDistribution, "is masked")):
        if names := _sites_with(task, kind):
            raise ZooError(
                f"method={method} starts at draws from the prior, and the prior of {', '.join(names)} {what}, so that draws do "
                "not follow it; give it a proper prior without a mask, or use method=nuts"
            )


def _sites_with(task: Task, kind: type[Any]) -> list[str]:
    """The parameters with a distribution of this kind, be it inside of others."""

    def within(fn: Any) -> bool:
        while hasattr(fn, "base_dist") and not isinstance(fn, kind):
            fn = fn.base_dist
        return isinstance(fn, kind)

    names: list[str] = []

    def visit(hyper: Hyper, rows: Pytree) -> None:
        trace = prior_trace(task.model.spec, hyper, rows)
        parameters = {name: site for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]}
        names.extend(name for name, site in parameters.items() if within(site["fn"]))

    jax.eval_shape(visit, task.hyper, task.rows)
    return names


def require_single_rows(task: Task, algebra: Algebra) -> None:
    """A `ZooError` for a row whose latent is drawn or summed over and whose weight is neither 0 nor 1.

    A row of weight 2 stands for two rows, each with a latent. Counting one latent twice gives another posterior.
    """
    if task.moments:
        raise ZooError("this method needs individual rows; only a covariance matrix was given: use nuts, em or cavi instead")
    weight, allowed_states = row_info(task.rows)[:2]
    if weight is None:
        return
    several = ~np.isin(np.asarray(weight), (0, 1))
    if allowed_states is not None and finite_latents(algebra, task.hyper, task.prior, task.rows):
        several &= np.asarray(allowed_states).sum(-1) > 1
    if several.any():
        row, whole = int(np.argmax(several)), bool((np.asarray(weight) % 1 == 0).all())
        raise ZooError(
            f"row {row + 1} of the data weighs {float(weight[row]):g}, but this method has one latent per row"
            f"{'; repeat the rows, or' if whole else ', and no fraction of one;'} use nuts, em or cavi, which take weights"
        )
