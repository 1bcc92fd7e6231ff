"""What the generative classifiers share: a mixture whose component is the class, with labels observed, missing or sets.

C classes, N rows:

class_probs ~ Dirichlet(concentration)                                                       (C,)
y_n ~ Categorical(class_probs),    x_n | y_n ~ emission(θ_{y_n})                             (N,)
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from models import mixture
from models.base import Data, Model, ZooError
from models.data import allowed_labels, as_data, missing_labels
from models.emissions import Emission
from models.mixture import Shape
from models.rows import Rows, checked, encoded, require_rows


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
    shape = Shape("class_probs", "class", prior != "flat", len(classes), unlabelled(data))
    require_rows(checked(data, data.columns, emission, name), emission, f"{len(classes)} classes", len(classes))
    rows = partial(rows_of, name, emission, data.columns, classes)
    return mixture.model(
        name, data, emission, shape, classes, prior, rows, options, (*warnings, *unseen_classes(data, classes))
    )


def unseen_classes(data: Data, classes: tuple[str, ...], row: str = "row", kind: str = "class") -> list[str]:
    """A line where no ``row`` says that it is of some class, or ``kind``: what its parameters then mean."""
    allowed = allowed_classes(data, classes)
    if allowed is None:
        return []
    single = allowed.sum(axis=1) == 1
    unseen = [name for name, seen in zip(classes, allowed[single].any(axis=0), strict=True) if not seen]
    if not unseen:
        return []
    listed = ", ".join(unseen)
    if single.all():
        return [f"no {row} is of {listed}: what is reported of it is the prior's"]
    if len(unseen) == 1:
        return [f"no {row} is known to be of {listed}: it takes what fits no other {kind}"]
    these = f"these {kind}es" if kind.endswith("s") else f"these {kind}s"
    return [f"no {row} is known to be of {listed}: {these} are exchangeable among themselves, and which is which means nothing"]


def unlabelled(data: Data) -> bool:
    """Whether no row says anything of its class."""
    return data.labels is None or not ((data.labels >= 0).any() or data.candidates is not None)


def classes_of(data: Data, num_classes: int | None = None) -> tuple[str, ...]:
    """Names of the classes: the levels of the label, or numbers where there is no label; raises `ZooError`."""
    if not unlabelled(data):
        if num_classes not in (None, len(data.levels)):
            raise ZooError(f"num_classes={num_classes}, but the label {data.label!r} has {len(data.levels)} classes")
        if len(data.levels) < 2:
            raise ZooError(f"the label {data.label!r} has one class only ({data.levels[0]}): there is nothing to tell apart")
        return data.levels
    if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise ZooError(
            f"{data.name} has no labels: name the column with data.label=<column> (label= in Python), or say how many classes "
            "to look for with num_classes, 2 or more"
        )
    return tuple(str(c) for c in range(num_classes))


def allowed_classes(data: Data, classes: tuple[str, ...]) -> np.ndarray | None:
    """(N, C): the classes that a row may be of, or None where no row has a label; raises `ZooError` for an unknown class."""
    if unlabelled(data):
        return None
    unknown = [level for level in data.levels if level not in classes]
    if unknown:
        raise ZooError(f"{data.name} has the label {unknown[0]!r}; the model knows {', '.join(classes)}")
    known = allowed_labels(data)
    # A missing label may also be a class that this data lacks; a set of candidates may not.
    allowed = np.repeat(missing_labels(data)[:, None], len(classes), axis=1)
    allowed[:, [classes.index(level) for level in data.levels]] = known
    return allowed


def rows_of(name: str, emission: Emission, columns: tuple[str, ...], classes: tuple[str, ...], source: Any) -> Rows:
    """Whatever `load_data` reads, as rows of the classifier."""
    data = checked(as_data(source), columns, emission, name)
    return encoded(data, emission, allowed_classes(data, classes))
