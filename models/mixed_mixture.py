"""Mixture for tables of numbers, categories and counts, any cell of which may be missing (document 004), K components:

    mixture_probs ~ Dirichlet(concentration)                                                     (K,)
    z_n ~ Categorical(mixture_probs)                                                             (N,)

and, given z_n = k, independent columns, of which a row brings those that are observed:

    numbers     precision_kr ~ Gamma(dof_r / 2, scatter_r / 2)                                   (K, R)
                mean_kr | precision_kr ~ Normal(location_r, (strength precision_kr)⁻¹)           (K, R)
                x_nr ~ Normal(mean_kr, precision_kr⁻¹)
    categories  probs_<c>_k ~ Dirichlet(level_concentration)                                     (K, levels of c)
                x_nc ~ Categorical(probs_<c>_k)
    counts      rate_kd ~ Gamma(shape_d, inverse_scale_d)                                        (K, counts)
                x_nd ~ Poisson(rate_kd)

Document 004 writes a = dof / 2, b = scatter / 2, m = location, β = strength. A missing cell has probability 1 in the E-step and
no part in the M-step, which counts the observed cells of every column for itself (errata E19). That holds where cells are
missing at random: whether one is missing may depend on what is observed in its row, not on its own value.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from models import mixture
from models.base import Data, Model, ZooError
from models.categories import categorical
from models.classifier import allowed_classes, classes_of, unlabelled, unseen_classes
from models.columns import Layout, as_typed, layout, typed
from models.data import as_data
from models.discrete import poisson
from models.emissions import Emission
from models.gaussians import GAUSSIANS
from models.mixture import Shape
from models.rows import Rows, encoded, require_rows
from models.side_by_side import Part, side_by_side

NAME = "mixed_mixture"
PARTS = {"number": "numbers", "category": "categories", "count": "counts"}  # kind of column -> name of its part
NEARLY_IMPROPER = (
    "prior=flat_mean is nearly improper: evidence under it depends on how flat it is, and says nothing of the number of "
    "components"
)
VANISHING = 1e-10  # pseudo-rows behind a mean: document 004's β = 0, and still a proper prior


def build(
    data: Any,
    num_components: int | None = None,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    labelled: bool = False,
    unseen: str = "error",
) -> Model:
    """A mixture with ``num_components`` (2) components on all columns of ``data``, each in its kind (`models.columns.typed`).

    ``prior`` is "default" (weak, from the columns), "flat" (maximum likelihood), "document" (document 004's one-parameter line
    β = 2a − 1), "flat_mean" (its special case β → 0), or numbers by block, over the defaults: ``{"mixture_probs":
    {"concentration": 2}, "component": {"location", "strength", "dof", "scatter", "level_concentration", "shape",
    "inverse_scale"}}``. With ``labelled`` the components are the classes of the label, which may be missing, or a set of
    candidates, in any row. ``unseen`` is what becomes of a level of a category that the model was not built on: "error", or
    "missing". Raises `ZooError` for a table of which nothing is left to model, fewer rows than components, constant columns
    that were kept, or a prior outside its support.
    """
    data = typed(as_data(data))
    if not isinstance(labelled, bool):
        raise ZooError(f"labelled must be true or false, got {labelled!r}")
    whole = isinstance(num_components, int | np.integer) and not isinstance(num_components, bool) and num_components > 0
    if num_components is not None and not whole:
        raise ZooError(f"num_components must be a whole number above 0, got {num_components!r}")
    if labelled and num_components is not None and num_components != len(data.levels):
        raise ZooError(f"labelled=true: the components are the {len(data.levels)} classes; leave num_components out")
    num_components = 2 if num_components is None else num_components
    if labelled and unlabelled(data):
        raise ZooError(f"labelled=true, but {data.name} has no label: name its column with data.label=<column>")
    names = classes_of(data) if labelled else tuple(map(str, range(num_components)))
    like = layout(data)
    as_typed(data, like, unseen)  # refuses another word for unseen
    emission = block(like)
    shape = Shape("mixture_probs", "component", prior != "flat", len(names), exchangeable=not labelled)
    require_rows(data, emission, f"num_components={len(names)}", len(names))
    options = {"num_components": len(names), "prior": prior, "labelled": labelled, "unseen": unseen}
    rows = partial(_rows, emission, like, names if labelled else None, unseen)
    warnings = (*(unseen_classes(data, names) if labelled else ()), *((NEARLY_IMPROPER,) if prior == "flat_mean" else ()))
    model = mixture.model(NAME, data, emission, shape, names, _numbers(prior, like), rows, options, warnings, like)
    return model._replace(read=partial(as_typed, like=like, unseen=unseen))


def block(like: Layout) -> Emission:
    """The columns of a layout by kind, side by side."""
    places = {kind: tuple(d for d, own in enumerate(like.kinds) if own == kind) for kind in PARTS}
    categories = places["category"]
    names, levels = (tuple(each[d] for d in categories) for each in (like.columns, like.categories))
    blocks = {"number": GAUSSIANS["diag"], "category": categorical(names, levels), "count": poisson}
    return side_by_side(tuple(Part(PARTS[kind], own, blocks[kind]) for kind, own in places.items() if own))


def _numbers(prior: Any, like: Layout) -> Any:
    """The presets of document 004 as numbers, where there are columns of numbers."""
    presets = {"document": {"dof": 3.0, "strength": 2.0}, "flat_mean": {"strength": VANISHING}}  # β = 2a − 1 = dof − 1
    if not isinstance(prior, str) or prior in ("default", "flat"):
        return prior
    if prior not in presets:
        raise ZooError(f"prior={prior!r} is not one of default, flat, {', '.join(presets)}, or numbers by block")
    return {"component": presets[prior]} if "number" in like.kinds else "default"


def _rows(emission: Emission, like: Layout, classes: tuple[str, ...] | None, unseen: str, source: Any) -> Rows:
    data: Data = as_typed(source, like, unseen)
    return encoded(data, emission, None if classes is None else allowed_classes(data, classes))
