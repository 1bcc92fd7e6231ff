"""Mixture model of tables with numbers, categories, counts and missing cells (document 004): N rows, K components.

    mixture_probs ~ Dirichlet(concentration), or other weights                                   (K,)
    z_n ~ Categorical(mixture_probs)                                                             (N,)

and, given z_n = k, the columns are independent. R columns hold numbers, the others categories or counts:

    numbers     precision_kr ~ Gamma(dof_r / 2, scatter_r / 2)                                   (K, R)
                mean_kr | precision_kr ~ Normal(location_r, (strength precision_kr)⁻¹)           (K, R)
                x_nr ~ Normal(mean_kr, precision_kr⁻¹)
    categories  probs_<c>_k ~ Dirichlet(level_concentration)                                     (K, levels of c)
                x_nc ~ Categorical(probs_<c>_k)
    counts      rate_kd ~ Gamma(shape_d, inverse_scale_d)                                        (K, counts)
                x_nd ~ Poisson(rate_kd)

With ``counts=negative_binomial`` counts vary more: x_nd ~ NegativeBinomial(rate_kd, inverse_dispersion_kd), see
`models.emissions.negative_binomial`. Zero-inflated counts are 0 with probability zero_probs_kd, and otherwise counts of the
named distribution, see `models.emissions.zero_inflated`.

Document 004 writes a = dof / 2, b = scatter / 2, m = location, β = strength. A missing cell contributes a factor of 1 in the
E-step and nothing in the M-step, which counts the observed cells of each column separately (errata E19). This is valid if
cells are missing at random: whether a cell is missing may depend on the observed cells of its row, but not on its own value.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from models.base import Data, Model, ZooError
from models.data.classes import allowed_classes, classes_of, unlabelled, unseen_classes
from models.data.columns import Layout, layout, typed
from models.emissions.block import Emission, encoded, require_rows
from models.emissions.named import Choice, check_choice, emission_of
from models.mixtures import mixture
from models.mixtures.mixture import Shape
from models.mixtures.named_weights import weights_of
from models.reading.load import as_data, read_as
from models.rows.encoded import Rows

NAME = "mixed_mixture"
NEARLY_IMPROPER = (
    "prior=flat_mean is nearly improper: the evidence depends on how flat it is, and cannot be used to choose the number of "
    "components"
)
VANISHING = 1e-10  # prior strength of a mean: in place of document 004's β = 0, so that the prior stays proper


def build(
    data: Any,
    num_components: int | None = None,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    labelled: bool = False,
    unseen: str = "error",
    weights: str = "learned",
    counts: str = "poisson",
) -> Model:
    """Build a mixture with ``num_components`` (default 2) components; rules decide the kind of each column.

    `models.data.columns.typed` applies these rules; ``load_data(..., types=)`` overrides them.

    ``prior`` is "default" (weak, from the columns), "flat" (maximum likelihood), "document" (document 004's one-parameter line
    β = 2a − 1), "flat_mean" (its special case β → 0), or numbers by block that replace defaults: ``{"mixture_probs":
    {"concentration": 2}, "component": {"location", "strength", "dof", "scatter", "level_concentration", "shape",
    "inverse_scale"}}``. ``weights`` are those of `models.gmm`. ``counts`` says how counts vary: poisson, negative_binomial,
    zero_inflated_poisson or zero_inflated_negative_binomial. With ``labelled`` the components are the classes of the label,
    which may be missing or a set of candidates. ``unseen`` says how new rows with an unknown category are read: "error", or
    "missing" for a missing cell.

    Raises `ZooError` if no column is left to model, for constant columns that were kept, or a prior outside its support.

    >>> model = build("martians_survey", num_components=3)
    >>> model.reading.layout.kinds
    ('number', 'number', 'category', 'category', 'count')
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
    read_as(data, like, unseen)  # refuses another word for unseen
    choice = Choice("mixed", counts=counts)
    check_choice(choice, ("mixed",))
    emission = emission_of(choice, data)
    shape = Shape(weights_of(weights), "component", prior != "flat", len(names), exchangeable=not labelled)
    require_rows(data, emission)
    options = {"num_components": len(names), "prior": prior, "labelled": labelled, "unseen": unseen}
    options |= {"weights": weights, "counts": counts}
    rows = partial(_rows, emission, like, names if labelled else None, unseen)
    warnings = (*(unseen_classes(data, names) if labelled else ()), *((NEARLY_IMPROPER,) if prior == "flat_mean" else ()))
    model = mixture.model(NAME, data, emission, shape, names, _numbers(prior, like), rows, options, warnings, like)
    return model._replace(description=__doc__, reading=model.reading._replace(read=partial(read_as, like=like, unseen=unseen)))


def _numbers(prior: Any, like: Layout) -> Any:
    """The presets of document 004 as numbers by block; "default" if no column holds numbers."""
    presets = {"document": {"dof": 3.0, "strength": 2.0}, "flat_mean": {"strength": VANISHING}}  # β = 2a − 1 = dof − 1
    if not isinstance(prior, str) or prior in ("default", "flat"):
        return prior
    if prior not in presets:
        raise ZooError(f"prior={prior!r} is not one of default, flat, {', '.join(presets)}, or numbers by block")
    return {"component": presets[prior]} if "number" in like.kinds else "default"


def _rows(emission: Emission, like: Layout, classes: tuple[str, ...] | None, unseen: str, source: Any) -> Rows:
    data: Data = read_as(source, like, unseen)
    return encoded(data, emission, None if classes is None else allowed_classes(data, classes))
