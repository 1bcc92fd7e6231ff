"""The fingerprint of a run, so that no run goes on from the draws of another."""

import hashlib
import re
from typing import Any

import jax
import numpy as np

from inference.engine.task import Task
from inference.fitting.program_code import potential_code
from models.base import Pytree

ADDRESS = re.compile(r"0x[0-9a-f]+")  # of a function, in the text of code: it differs between processes


def fingerprint(task: Task, method: str, seed: int, precision: int, options: Any) -> str:
    """Twelve characters that change with any option or number of a run, and with the code of a user's program.

    The numbers of draws and of iterations do not enter it: a run may go on to more of them.
    """
    model = task.model
    chosen = {name: value for name, value in options._asdict().items() if name not in ("num_samples", "max_iter")}
    digest = hashlib.sha256(repr((method, seed, precision, chosen, model.name, dict(model.options))).encode())
    arrays: Pytree = (task.hyper, task.rows, task.start)
    if model.algebra is None:
        code, held = potential_code(model.spec, task.hyper, task.rows)
        for text in (code, *(one for one in held if isinstance(one, str))):
            digest.update(ADDRESS.sub("", text).encode())
        arrays = (arrays, [one for one in held if not isinstance(one, str)])
    digest.update(str(jax.tree.structure(arrays)).encode())
    for leaf in map(np.asarray, jax.tree.leaves(arrays)):
        digest.update(f"{leaf.shape} {leaf.dtype}".encode())
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()[:12]
