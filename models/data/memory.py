"""Check memory before a large allocation: a number in a file can require any amount."""

import os

from models.errors import ZooError


def total_memory() -> int | None:
    """Bytes of memory of this machine, or None if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def require_memory(size: float, what: str) -> None:
    """Raise `ZooError` if ``what`` needs more bytes, ``size``, than the machine has."""
    memory = total_memory()
    if memory is not None and size > memory:
        raise ZooError(f"{what} would need {size / 2**30:.3g} GiB of memory, but this machine has {memory / 2**30:.3g}")
