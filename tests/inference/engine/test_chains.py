"""The driver: chunks, checkpoints, interruption."""

import json
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from inference.cli.runs.stored_run import resumed
from inference.engine.driver import drive, one_blas_thread, sample
from inference.runtime.checkpoints import Checkpoint
from inference.runtime.progress import SILENT, Silent
from models import ZooError


def walk(static, arrays, key, state):
    """A random walk that is done when it has taken ``static`` steps."""
    position, taken = state
    position = position + jax.random.normal(key)
    return (position, taken + 1), position, taken + 1 >= static


def run(num_steps, key=0, static=10**9, state=None, reporter=None, **options):
    state = (jnp.zeros(3), jnp.zeros(3, int)) if state is None else state
    return drive(walk, static, (), jax.random.PRNGKey(key), state, num_steps, reporter or Silent(), "walking", **options)


def test_records_are_a_plain_loop():
    """Chunked and vectorised, the walk is what a Python loop over steps and chains gives."""
    found = run(300).records
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    naive = [[float(jax.random.normal(jax.random.fold_in(key, i))) for i in range(5)] for key in keys]
    assert found.shape == (3, 300)
    np.testing.assert_allclose(found[:, :5], np.cumsum(naive, axis=1), rtol=1e-12)


def test_draws_go_on_where_the_warm_up_ended():
    """Three steps that are dropped and four that are kept are the last four of seven, with the same random numbers."""
    task = SimpleNamespace(reporter=Silent(), checkpoint=lambda name, cut=False: None)
    state = (jnp.zeros(3), jnp.zeros(3, int))
    drawn, _ = sample(partial(drive, walk, 10**9, ()), jax.random.PRNGKey(0), state, 3, 4, task, SILENT)
    np.testing.assert_array_equal(drawn.records, run(7).records[:, 3:])


def test_stops_when_all_chains_are_done():
    found = run(300, static=7)
    assert found.num_steps == 7
    assert found.records.shape == (3, 7)


def test_resumed_run_equals_an_unbroken_one(tmp_path):
    """Stopped after 120 steps and resumed from its checkpoint, the walk goes where it would have gone."""
    whole = run(300)
    file = Checkpoint(tmp_path / "checkpoint.npz", cut=True)
    run(120, checkpoint=file)
    resumed_run = run(300, checkpoint=file)
    np.testing.assert_array_equal(resumed_run.records, whole.records)
    with pytest.raises(ZooError, match="another model"):
        run(300, checkpoint=file, state=(jnp.zeros(4), jnp.zeros(4, int)))


@pytest.mark.slow
@pytest.mark.parametrize("lockstep", [True, False])
def test_devices_change_nothing(lockstep):
    """Six chains on several of four devices walk as on one, and past the step where the last one was done on one."""
    code = f"""
import jax, json
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
from test_chains import run
assert len(jax.local_devices()) == 4
state = (jnp.zeros(6), jnp.array([0, 1, 2, 3, 4, 5]))
found = [run(300, state=state, lockstep={lockstep}, static=static) for static in (10**9, 40)]
print(json.dumps([one.records.tolist() for one in found]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    whole, stopped = map(np.array, json.loads(done.stdout))
    state = (jnp.zeros(6), jnp.array([0, 1, 2, 3, 4, 5]))
    np.testing.assert_array_equal(whole, run(300, state=state).records)
    alone = run(300, state=state, static=40).records
    assert alone.shape[1] == 40
    np.testing.assert_array_equal(stopped, whole[:, : stopped.shape[1]])  # to the end of their chunk


def test_threads_give_blas_back():
    """Two overlapping users of the limit: the last to leave puts it back."""
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
    second.__exit__(None, None, None)
    assert [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"] == before


class Interrupted(Silent):
    """Ctrl-C, whatever the run is then at, a moment after its first hundred steps."""

    timer = None

    def update(self, done, note, chains):
        if done >= 100 and self.timer is None:
            self.timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            self.timer.start()


def test_interrupt_keeps_finished_steps():
    """The first Ctrl-C ends the run after the chunk in hand; its steps are those of the unbroken run."""
    found = run(50_000_000, reporter=Interrupted())
    assert found.interrupted
    assert 100 <= found.num_steps < 50_000_000
    np.testing.assert_array_equal(found.records[:, :100], run(100).records)


def test_resume_needs_a_run(tmp_path):
    with pytest.raises(ZooError, match="that is not the folder of a run"):
        resumed({"resume": str(tmp_path)})
