"""What tests of stopped runs ask for."""

import pytest

from inference.engine import driver as chains
from inference.runtime import checkpoints


@pytest.fixture
def always_written_down(monkeypatch):
    """A checkpoint after every chunk, and many chunks."""
    monkeypatch.setattr(checkpoints.CheckpointTimer, "is_due", lambda self: True)
    monkeypatch.setattr(chains, "CHUNK_SECONDS", 0.002)
