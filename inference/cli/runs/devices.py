"""The devices that the environment names."""

import os

from models.errors import ZooError


def require_devices() -> None:
    """A `ZooError` where ``JAX_PLATFORMS`` names devices that JAX does not find, as a GPU."""
    import jax

    named = os.environ.get("JAX_PLATFORMS", "")
    if named in ("", "cpu"):
        return
    try:
        jax.devices()
    except (AssertionError, RuntimeError) as error:
        raise ZooError(
            f"JAX_PLATFORMS={named}: JAX finds no such device; unset it to use the processor, or install the extra cuda"
        ) from error
