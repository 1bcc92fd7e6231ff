"""The base of the generative classifiers: a mixture whose component is the class, with labels observed, missing or sets.

C classes, N rows:

class_probs ~ Dirichlet(concentration)                                                       (C,)
y_n ~ Categorical(class_probs),    x_n | y_n ~ emission(θ_{y_n})                             (N,)
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from models.base import Data, Model
from models.data.classes import allowed_classes, classes_of, unlabelled, unseen_classes
from models.emissions.block import Emission, checked, encoded, require_rows
from models.mixtures import mixture
from models.mixtures.mixture import Shape
from models.mixtures.weights import dirichlet
from models.reading.load import as_data
from models.rows.encoded import Rows


def classifier(
    name: str,
    data: Data,
    emission: Emission,
    prior: Any,
    num_classes: int | None,
    options: Mapping[str, Any],
    warnings: tuple[str, ...] = (),
) -> Model:
    """A classifier on ``data`` by an emission block.

    ``num_classes`` is needed only where the data has no label at all: the model is then a mixture with exchangeable classes.
    Raises `ZooError` for missing cells where the block needs them all, values that it cannot explain, fewer than two classes,
    or a prior outside its support.
    """
    classes = classes_of(data, num_classes)
    shape = Shape(dirichlet("class_probs"), "class", prior != "flat", len(classes), unlabelled(data))
    require_rows(checked(data, data.columns, emission, name), emission)
    rows = partial(rows_of, name, emission, data.columns, classes)
    return mixture.model(
        name, data, emission, shape, classes, prior, rows, options, (*warnings, *unseen_classes(data, classes))
    )


def rows_of(name: str, emission: Emission, columns: tuple[str, ...], classes: tuple[str, ...], source: Any) -> Rows:
    """Anything that `load_data` reads, as rows of the classifier."""
    data = checked(as_data(source), columns, emission, name)
    return encoded(data, emission, allowed_classes(data, classes))
