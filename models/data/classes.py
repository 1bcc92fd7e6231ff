"""Classes named by labels, and which of them each row may belong to."""

import numpy as np

from models.data.table import Data, ZooError


def allowed_labels(data: Data) -> np.ndarray:
    """(N, levels): which labels each row may have; a missing label may be any."""
    labels = np.full(data.num_rows, -1) if data.labels is None else data.labels
    known = labels[:, None] == np.arange(len(data.levels)) if data.candidates is None else data.candidates
    missing = missing_labels(data)
    return known | missing[:, None] if missing.any() else known


def missing_labels(data: Data) -> np.ndarray:
    """(N,): whether the label of a row is missing; a set of candidates is not missing."""
    labels = np.full(data.num_rows, -1) if data.labels is None else data.labels
    return (labels < 0) & (True if data.candidates is None else ~data.candidates.any(axis=1))


def unseen_classes(data: Data, classes: tuple[str, ...], row: str = "row", kind: str = "class") -> list[str]:
    """A warning if some class has no labelled row, with the meaning of its parameters. ``row``, ``kind``: words to use."""
    allowed = allowed_classes(data, classes)
    if allowed is None:
        return []
    single = np.count_nonzero(allowed, axis=1) == 1
    unseen = [name for name, seen in zip(classes, (allowed & single[:, None]).any(axis=0), strict=True) if not seen]
    if not unseen:
        return []
    listed = ", ".join(unseen)
    if single.all():
        return [f"no {row} is of {listed}: its estimates come from the prior alone"]
    if len(unseen) == 1:
        return [f"no {row} is known to be of {listed}: it absorbs the {row}s that fit no other {kind}"]
    these = f"these {kind}es" if kind.endswith("s") else f"these {kind}s"
    return [f"no {row} is known to be of {listed}: {these} are exchangeable, so their names carry no meaning"]


def empty_groups(data: Data, size: int) -> list[str]:
    """A warning if there are more groups than rows, of an unlabelled table: most of them are of the prior alone."""
    number = data.num_rows if data.weight is None else int((data.weight > 0).sum())
    if size <= number or not unlabelled(data):
        return []
    empty = f"{size - number} groups or more have no row, and come from the prior alone"
    return [f"{size} groups and {number} rows: {empty}; ask for fewer groups"]


def unlabelled(data: Data) -> bool:
    """Whether no row has a label or a set of candidates."""
    return data.labels is None or not ((data.labels >= 0).any() or data.candidates is not None)


def classes_of(data: Data, num_classes: int | None = None) -> tuple[str, ...]:
    """Names of the classes: the levels of the label, or numbers if there is none; raises `ZooError`."""
    if not unlabelled(data):
        if num_classes not in (None, len(data.levels)):
            raise ZooError(f"num_classes={num_classes}, but the label {data.label!r} has {len(data.levels)} classes")
        if len(data.levels) < 2:
            raise ZooError(f"the label {data.label!r} has only one class ({data.levels[0]}), and at least two are needed")
        return data.levels
    if isinstance(num_classes, bool) or not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise ZooError(
            f"{data.name} has no labels: name the column with data.label=<column> (label= in Python), or say how many classes "
            "to look for with num_classes, 2 or more"
        )
    return tuple(str(c) for c in range(num_classes))


def allowed_classes(data: Data, classes: tuple[str, ...]) -> np.ndarray | None:
    """(N, C): which classes each row may have, None if no row has a label; raises `ZooError` for an unknown class."""
    if unlabelled(data):
        return None
    unknown = [level for level in data.levels if level not in classes]
    if unknown:
        raise ZooError(f"{data.name} has the label {unknown[0]!r}; the model knows {', '.join(classes)}")
    known = allowed_labels(data)
    if data.levels == classes:
        return known
    # A missing label may also be a class that this data lacks; a set of candidates excludes it.
    allowed = np.repeat(missing_labels(data)[:, None], len(classes), axis=1)
    allowed[:, [classes.index(level) for level in data.levels]] = known
    return allowed
