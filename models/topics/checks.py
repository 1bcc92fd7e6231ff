"""Checks of the options of a topic model, and the names of its topics."""

from collections.abc import Collection, Mapping
from itertools import count, islice
from typing import Any

import numpy as np

from models.data.arguments import require_whole
from models.data.classes import unlabelled
from models.data.table import Data, ZooError


def _are_words(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)


def check_options(num_topics: Any, labelled: Any, prior: Any, seeds: Any) -> None:
    require_whole("num_topics", num_topics)
    if not isinstance(labelled, bool):
        raise ZooError(f"labelled must be true or false, got {labelled!r}")
    if not (seeds is None or (isinstance(seeds, Mapping) and all(map(_are_words, seeds.values())))):
        raise ZooError(f"seeds must map topic names to lists of words, such as {{fruit: [apple, pear]}}, got {seeds!r}")
    if prior not in ("default", "flat"):
        raise ZooError(f"prior={prior!r} is not one of default, flat; the concentrations are separate options")


def topic_names(data: Data, number: int, seeds: Mapping[str, Any] | None, labelled: bool) -> list[Any]:
    """Names of the topics: labels and seeds, then numbers."""
    if labelled and unlabelled(data):
        raise ZooError(f"{data.name} has no labels, which labelled=true needs; name the column with data.label=")
    known = [*(data.levels if labelled else ()), *(name for name in seeds or {} if not labelled or name not in data.levels)]
    if len(known) > number:
        raise ZooError(f"{len(known)} topics have names ({', '.join(map(str, known[:5]))}, …): give num_topics={len(known)}")
    rest = (str(place) for place in count(len(known)) if str(place) not in known)
    return [*known, *islice(rest, number - len(known))] if known else list(range(number))


def positive(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        array = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    except (TypeError, ValueError, OverflowError) as error:
        raise ZooError(f"{name}: expected a number or numbers of shape {shape}, got {value!r}") from error
    if not (np.isfinite(array) & (array > 0)).all():
        raise ZooError(f"{name} must be finite and above 0")
    return array
