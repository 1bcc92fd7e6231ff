"""The configuration of a run, read back from its folder."""

from pathlib import Path
from typing import Any

from inference.runtime.files import read
from models.errors import ZooError

REMEDY = "start a new run"


def read_configuration(path: Path, require_seal: bool = False) -> Any:
    """The content of a ``config.yaml`` as built-in types. Raises `ZooError` for a file that is damaged or no configuration."""
    from omegaconf import OmegaConf

    content = read(path, require_seal=require_seal, remedy=REMEDY)
    try:
        return OmegaConf.to_container(OmegaConf.create(content.decode()))
    # Broad on purpose. A damaged text reaches PyYAML's constructors and OmegaConf's converters, which raise other errors
    # as well as ValueError, TypeError, AttributeError, AssertionError or RecursionError, by which byte is wrong. All of them
    # mean the same to the user, and the first one stays the cause.
    except Exception as error:
        raise ZooError(f"{path} is damaged: {next(iter(str(error).splitlines()), '')}; {REMEDY}") from error
