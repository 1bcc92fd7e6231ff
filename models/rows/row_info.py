"""Properties of encoded rows apart from their cells, such as weights; methods read them only through `row_info`."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from jax import Array


class RowInfo(NamedTuple):
    """Properties of N rows; None, or False, if they do not have one."""

    weight: Array | None = None  # (N,), non-negative
    allowed_states: Array | None = None  # (N, K), for sequences (N, T, K): the values that a latent may take
    length: Array | None = None  # (N,): number of steps of each sequence
    seen: Array | None = None  # (N, T): which steps are observed
    local_index: Array | None = None  # (N,): index of each row in the local parameters
    atomic: bool = False  # rows must not be split into batches
    cells: Any = ()  # arrays of numbers, which lose digits in single precision


@runtime_checkable
class Encoded(Protocol):
    """Rows as a model of the zoo encodes them."""

    @property
    def row_info(self) -> RowInfo:
        """Their properties."""
        ...


def row_info(rows: Any) -> RowInfo:
    """The properties of encoded rows; none for the arrays of a user's program."""
    return rows.row_info if isinstance(rows, Encoded) else RowInfo()
