"""Traces that outlive the process: the same numbers, and no trace of anything else."""

import functools
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from quick_runs import QUICK

from inference.cli.runs.config import compose
from inference.cli.runs.execute import prepare_jax
from inference.results.tree import load
from inference.runtime import programs
from inference.runtime.files import write
from inference.runtime.programs import CachedJit, NotKeptError, digest, keep_programs, memoised
from models.mixtures import mixture

ROOT = Path(__file__).parents[3]


def known(function):
    """As if it were the project's own."""
    function.__module__ = "models.made_up"
    return function


def scaled_by(factor):
    return known(lambda x: x * factor)


@pytest.fixture
def folder(tmp_path):
    keep_programs(tmp_path / "programs")
    yield tmp_path / "programs"
    keep_programs(None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scaled_by(2.0), scaled_by(3.0)),
        (scaled_by(np.arange(3.0)), scaled_by(np.array([0.0, 1.0, 2.5]))),
        (scaled_by(np.arange(3.0)), scaled_by(np.arange(3))),
        (functools.partial(mixture.program, 1), functools.partial(mixture.program, 2)),
        (known(lambda x: x + 1), known(lambda x: x - 1)),
        (known(lambda x: x + 1), known(lambda x: x + 2)),
        ((1, (2, 3)), (1, 2, 3)),
        (("ab", "c"), ("a", "bc")),
        (1, True),
        ({"a": 1}, {"b": 1}),
        (np.array(3.0), np.array([3.0])),
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 1, "c": 2}}),
        (frozenset({("a", "bc")}), frozenset({("ab", "c")})),
        (scaled_by(scaled_by(2.0)), scaled_by(scaled_by(3.0))),
    ],
)
def test_what_differs_has_another_digest(one, other):
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: scaled_by(np.arange(3.0)),
        lambda: functools.partial(mixture.program, (1, "a"), size=2),
        lambda: (scaled_by(1.0), {"a": None, "b": [1.5, ...]}),
    ],
)
def test_what_is_made_alike_has_one_digest(make):
    assert digest(make()) == digest(make())


@pytest.mark.parametrize("strange", [lambda x: x, object(), (1, [lambda x: x])])
def test_code_that_may_change_is_not_kept(strange):
    """A test is no module of the project: its functions have no reliable digest."""
    with pytest.raises(NotKeptError):
        digest(strange)


def traced(factor, calls):
    """A kept function that counts its traces."""

    def times(static, x):
        calls.append(static)
        return {"value": static * x * factor, "none": None}

    return CachedJit(known(times), ("static",))


def test_one_trace_serves_later_processes(folder):
    """Another `CachedJit` stands for another process: nothing is traced, and results are the same."""
    x, calls = jnp.arange(3.0), []
    first = traced(2.0, calls)(3, x)
    again = traced(2.0, calls)(3, x)
    assert len(calls) == len(list(folder.iterdir())) == 1
    np.testing.assert_array_equal(first["value"], 6 * np.arange(3.0))
    np.testing.assert_array_equal(first["value"], again["value"])
    assert first["none"] is again["none"] is None
    before = len(calls)
    traced(2.0, calls)(4, x)
    assert len(calls) == before + 1  # another static argument
    traced(2.0, calls)(3, x[:2])
    assert len(calls) == before + 2  # another shape


def test_other_code_is_traced_anew(folder, monkeypatch):
    x, calls = jnp.arange(3.0), []
    traced(2.0, calls)(3, x)
    monkeypatch.setattr(programs._Store, "code", "of another version")
    traced(2.0, calls)(3, x)
    assert len(calls) == 2


def test_a_damaged_file_is_made_again(folder):
    x, calls = jnp.arange(3.0), []
    traced(2.0, calls)(3, x)
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:40])
    np.testing.assert_array_equal(traced(2.0, calls)(3, x)["value"], 6 * np.arange(3.0))
    traced(2.0, calls)(3, x)
    assert len(calls) == 2


def test_no_flipped_bit_gives_another_program(folder):
    """The seal is checked first: the program is traced anew, and the file is whole again."""
    x, calls = jnp.arange(3.0), []
    traced(2.0, calls)(3, x)
    (file,) = folder.iterdir()
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    for flip, place in enumerate(rng.choice(len(whole), 12, replace=False)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.integers(8)]) + whole[place + 1 :])
        np.testing.assert_array_equal(traced(2.0, calls)(3, x)["value"], 6 * np.arange(3.0))
        assert len(calls) == flip + 2
    traced(2.0, calls)(3, x)
    assert len(calls) == 13


def test_a_program_under_another_name_is_not_taken(folder):
    x, calls = jnp.arange(3.0), []
    traced(2.0, calls)(3, x)
    (file,) = folder.iterdir()
    traced(2.0, calls)(4, x)
    (other,) = set(folder.iterdir()) - {file}
    other.write_bytes(file.read_bytes())
    np.testing.assert_array_equal(traced(2.0, calls)(4, x)["value"], 8 * np.arange(3.0))


class Planted:
    """A pickle that makes a file."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_a_planted_pickle_is_not_run(folder, tmp_path):
    x, mark = jnp.arange(3.0), tmp_path / "mark"
    traced(2.0, [])(3, x)
    memoised("test", 1, 1, lambda: 5)
    for file in folder.iterdir():
        write(file, pickle.dumps(Planted(mark)), seal=True)
    np.testing.assert_array_equal(traced(2.0, [])(3, x)["value"], 6 * np.arange(3.0))
    assert memoised("test", 1, 1, lambda: 5) == 5
    assert not mark.exists()


@pytest.mark.skipif(os.name != "posix", reason="no owners and modes")
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_others_can_write_is_not_used(tmp_path, above):
    """Nor one below it: they could exchange it for one of theirs."""
    folder = tmp_path / "shared" / "programs"
    folder.mkdir(parents=True)
    (folder.parent if above else folder).chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others can write there"):
        keep_programs(folder)
    np.testing.assert_array_equal(traced(2.0, [])(3, jnp.arange(3.0))["value"], 6 * np.arange(3.0))
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="no owners and modes")
def test_a_command_says_once_that_nothing_is_kept(tmp_path, monkeypatch, capsys):
    """JAX runs what it finds in its cache, too: it gets none there."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tmp_path.chmod(0o777)
    before = jax.config.jax_compilation_cache_dir
    for _ in range(2):
        prepare_jax(compose(QUICK))
    assert capsys.readouterr().err.count("others can write there") == 1
    assert jax.config.jax_compilation_cache_dir == before
    assert programs._Store.folder is None


@pytest.mark.skipif(os.name != "posix", reason="no owners and modes")
def test_a_folder_is_closed_to_others(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir(mode=0o755)
    for each in (folder, tmp_path / "new" / "programs"):
        keep_programs(each)
        keep_programs(None)
        assert each.stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_exported_runs(folder):
    """A callback to Python has no place in a file."""

    def doubled(x):
        return jax.pure_callback(lambda value: 2 * np.asarray(value), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    function = CachedJit(known(doubled), ())
    for _ in range(2):
        np.testing.assert_array_equal(function(jnp.arange(3.0)), 2 * np.arange(3.0))
    assert not folder.exists() or not list(folder.iterdir())


def test_an_error_of_the_function_is_its_own(folder):
    def refused(x):
        raise ValueError("no such shape")

    with pytest.raises(ValueError, match="no such shape"):
        CachedJit(known(refused), ())(jnp.arange(3.0))


def test_values_are_recalled(folder):
    made = []
    for shape in (1, 1, 2):
        assert memoised("test", scaled_by(2.0), shape, lambda shape=shape: made.append(shape) or shape) == shape
    assert made == [1, 2]


def test_without_a_folder_nothing_is_written(tmp_path):
    x, calls = jnp.arange(3.0), []
    np.testing.assert_array_equal(traced(2.0, calls)(3, x)["value"], 6 * np.arange(3.0))
    assert memoised("test", 1, 1, lambda: 5) == 5
    assert not list(tmp_path.iterdir())


def run_of_gmm(folder, method, cache):
    """Draws of a process of its own, whose programs are kept in ``cache``; None: in none."""
    table = folder / "table.csv"
    np.savetxt(table, np.random.default_rng(0).normal(size=(12, 2)), delimiter=",", header="a,b", comments="")
    out = Path(tempfile.mkdtemp(dir=folder))
    own = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    own |= {"XDG_CACHE_HOME": str(cache)} if cache else {"JAX_COMPILATION_CACHE_DIR": str(folder / "plain")}
    command = [sys.executable, "-m", "inference.run", "model=gmm", f"method={method}", f"data={table}", f"out={out}"]
    settings = ["num_warmup=50", "num_samples=30", "num_chains=2", "progress=false", "pictures=false"]
    done = subprocess.run([*command, *settings], env=own, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return load(out)["posterior"].to_dataset()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_a_second_run_has_the_same_numbers(tmp_path, method):
    """Two processes: the second one finds every trace, and its draws are bitwise those of the first, and of a run without."""
    kept = tmp_path / "kept"
    first = run_of_gmm(tmp_path, method, kept)
    files = {file.name for file in (kept / "bayes-model-zoo/programs").glob("*")}
    second = run_of_gmm(tmp_path, method, kept)
    assert files
    assert files == {file.name for file in (kept / "bayes-model-zoo/programs").glob("*")}
    xr.testing.assert_identical(first, second)
    xr.testing.assert_allclose(first, run_of_gmm(tmp_path, method, None), rtol=1e-6)


@pytest.mark.slow
def test_a_first_run_that_was_killed_does_no_harm(tmp_path):
    """Its programs are kept up to the one of the step, as every kill before that leaves them."""
    kept = tmp_path / "kept"
    first = run_of_gmm(tmp_path, "nuts", kept)
    files = sorted((kept / "bayes-model-zoo/programs").glob("*"), key=lambda file: file.stat().st_size)
    assert len(files) > 2
    files[-1].unlink()  # the largest one
    xr.testing.assert_identical(run_of_gmm(tmp_path, "nuts", kept), first)
    assert files[-1].exists()
