"""Processes of one fit on this machine, over loopback, each in a core's time."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from tempfile import mkdtemp
from unittest import mock

import jax
import numpy as np

from inference.streaming.source.processes import Group

FIT = """
import sys
import jax
coordinator, number, rank, method, out, options = sys.argv[1:7]
jax.config.update("jax_num_cpu_devices", 4)
from inference import fit, in_blocks, join_processes, read_stream
if int(number) > 1:
    join_processes(coordinator, int(number), int(rank))
from models import MODELS
options = eval(options)
folder = options.pop("folder")
sizes = options.pop("sizes", {"block_rows": 1024, "sample_rows": 1500})
files = read_stream(options.pop("rows"), folder=folder, **sizes)
name, given = options.pop("model", ("gmm", {"num_components": 3, "covariance": "diag"}))
model = MODELS[name](files.sample, **given)
of_blocks = {name: options.pop(name) for name in ("devices", "held_out", "steps") if name in options}
tree = fit(model, in_blocks(files, **of_blocks), method, folder=folder, **options)
if int(rank) == 0:
    from inference.results.tree import save
    save(tree, out)
print("finished", flush=True)
"""


@cache
def environment():
    """That of this process, with a folder where one process finds what another has compiled."""
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or mkdtemp()
    return os.environ | {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def started(number, method, out, **options):
    """The processes, running; their output is to be read."""
    coordinator = f"127.0.0.1:{free_port()}"
    return [
        subprocess.Popen(
            [sys.executable, "-c", FIT, coordinator, str(number), str(rank), method, str(out), repr(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for rank in range(number)
    ]


def ended(processes, seconds=300):
    """(exit code, output, errors) of each."""
    found = []
    for process in processes:
        out, errors = process.communicate(timeout=seconds)
        found.append((process.returncode, out, errors))
    return found


@contextmanager
def counted_sums():
    """A list that gets how many numbers each all-reduce of fits inside adds up."""
    sizes = []

    class Counted(Group):
        def all_sum(self, tree):
            sizes.append(sum(np.size(leaf) for leaf in jax.tree.leaves(tree)))
            return super().all_sum(tree)

    with mock.patch("inference.streaming.in_blocks.Group", Counted):
        yield sizes
