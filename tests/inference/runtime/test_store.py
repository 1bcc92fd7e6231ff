"""The store: whole files or none, and what was damaged is never believed."""

import errno
import json
import os
import resource
import shutil
import signal
import stat
import traceback
from contextlib import nullcontext

import h5py
import numpy as np
import pytest
import xarray as xr
from failing_disk import Disk, Killed, full_at, watched
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from inference.cli.runs.config import compose
from inference.cli.runs.stored_run import resumed
from inference.results import load, save
from inference.results.tree import SCHEMA
from inference.runtime import files as store
from inference.runtime.checkpoints import store as store_checkpoint
from models import ZooError

RNG = np.random.default_rng(0)


def small_tree():
    tree = xr.DataTree.from_dict(
        {
            "/posterior": xr.Dataset(
                {"mean": (("chain", "draw", "component"), RNG.normal(size=(2, 30, 2))), "scale": 1.5},
                coords={"component": np.array(["one", "zwölf"], dtype=object)},
            ),
            "/log_likelihood": xr.Dataset({"x": ("row", RNG.normal(size=7))}),
        }
    )
    tree.attrs = {"schema": SCHEMA, "model": "gmm", "method": "gibbs", "exit_status": 0, "interrupted": 0, "seed": 3}
    return tree


def folder_of(path, tree):
    """A finished run folder of little more than its result."""
    path.mkdir()
    save(tree, path / "results.nc")
    config = OmegaConf.to_yaml(OmegaConf.create(compose(["method=gibbs", "seed=3"])))
    store.write(path / "config.yaml", config.encode(), seal=True)
    store.write(path / "summary.csv", b"name,value\nmean,1\n")
    store.complete(path, [path / name for name in ("results.nc", "config.yaml", "summary.csv")])
    return path


def test_a_file_is_whole_or_the_old_one(tmp_path, monkeypatch):
    """Whatever request fails: one `ZooError`, the old content, nothing else in the folder; a kill leaves the old or the new."""
    path, number = tmp_path / "file", 0
    while True:
        number += 1
        path.write_bytes(b"old")
        with watched(monkeypatch, Disk(tmp_path, full_at(number))) as disk:
            try:
                store.write(path, b"new" * 1000, seal=True)
            except ZooError as error:
                assert os.strerror(errno.ENOSPC) in str(error)
                assert "make room" in str(error)
        assert [p.name for p in tmp_path.iterdir()] == ["file"]
        assert path.read_bytes() == b"old" or store.read(path, require_seal=True) == b"new" * 1000
        if disk.asked < number:
            break
    assert number > 6  # make, write, seal, sync, rename, and the folder's own
    for place in range(1, number):
        path.write_bytes(b"old")
        with watched(monkeypatch, Disk(tmp_path, killed_at(place))), pytest.raises(Killed):
            store.write(path, b"new" * 1000, seal=True)
        assert path.read_bytes() == b"old" or store.read(path, require_seal=True) == b"new" * 1000
    store.reopen(tmp_path)  # what killed processes left
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def killed_at(wanted):
    def fails(asked, name):
        if asked == wanted:
            raise Killed

    return fails


@pytest.fixture
def _small_files():
    """The system itself refuses files beyond 4,000 bytes, as a full disk does."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.usefixtures("_small_files")
def test_what_does_not_fit_is_one_message(tmp_path):
    """HDF5 crashes where a disk is full: the store refuses, and leaves nothing."""
    with pytest.raises(ZooError, match=r"results\.nc cannot be written"):
        save(small_tree(), tmp_path / "results.nc")
    assert not list(tmp_path.iterdir())


def test_space_is_asked_for_first(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ZooError, match=r"takes 0\.0 MiB, and 0\.0 are free"):
        store.write(tmp_path / "file", b"x" * 101)
    store.write(tmp_path / "file", b"x" * 100)


def test_sealed_files_are_netcdf(tmp_path):
    """Other programs read them: xarray by name, HDF5 itself."""
    tree = small_tree()
    save(tree, tmp_path / "results.nc")
    xr.testing.assert_identical(xr.open_datatree(tmp_path / "results.nc").load(), tree)
    with h5py.File(tmp_path / "results.nc") as file:
        assert sorted(file) == ["log_likelihood", "posterior"]
    xr.testing.assert_identical(load(tmp_path / "results.nc"), tree)


def flips(folder, number, seed):
    """(file, place, bit) at random, files as likely as each other."""
    rng = np.random.default_rng(seed)
    files = sorted(folder.iterdir())
    for _ in range(number):
        file = files[rng.integers(len(files))]
        yield file, int(rng.integers(file.stat().st_size)), int(rng.integers(8))


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("number", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_flipped_bits_are_never_loaded(tmp_path, number, manifest):
    """A bit of any file: the result is loaded as it was written, or refused; so is the configuration."""
    tree = small_tree()
    folder = folder_of(tmp_path / "run", tree)
    if not manifest:  # as of a folder that was killed, or files that were moved
        (folder / "manifest.json").unlink()
    (folder / "checkpoint-a-b.npz").write_bytes(b"")
    asked = compose([f"resume={folder}"])
    right = resumed(asked)
    refused = 0
    (folder / "checkpoint-a-b.npz").unlink()
    for file, place, bit in flips(folder, number, seed=int(manifest)):
        before = file.read_bytes()
        content = bytearray(before)
        content[place] ^= 1 << bit
        file.write_bytes(bytes(content))
        try:
            xr.testing.assert_identical(load(folder), tree)
        except ZooError as error:
            refused += 1
            assert str(folder) in str(error)
        (folder / "checkpoint-a-b.npz").write_bytes(b"")
        try:
            assert resumed(asked) == right
        except ZooError as error:
            refused += 1
            assert str(folder) in str(error)
        (folder / "checkpoint-a-b.npz").unlink()
        file.write_bytes(before)
    assert refused > number / 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read as netCDF"),
        (b"nothing of the kind", "cannot be read as netCDF"),
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "cannot be read as netCDF"),
        ("half", "cannot be read as netCDF"),
        ("without attributes", "no result of the zoo"),
    ],
)
def test_foreign_and_truncated_results(tmp_path, content, words):
    path = tmp_path / "results.nc"
    if content == "half":
        save(small_tree(), path)
        content = path.read_bytes()[: path.stat().st_size // 2]
    if content == "without attributes":
        xr.Dataset({"x": ("y", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    else:
        path.write_bytes(content)
    with pytest.raises(ZooError, match=words):
        load(tmp_path)


def test_copies_by_xarray_are_loaded(tmp_path):
    """No seal, no manifest."""
    tree = small_tree()
    tree.to_netcdf(tmp_path / "results.nc", engine="h5netcdf")
    xr.testing.assert_identical(load(tmp_path), tree)


def test_results_of_another_version_are_refused(tmp_path):
    tree = small_tree()
    tree.attrs["schema"] = SCHEMA + 1
    save(tree, tmp_path / "results.nc")
    with pytest.raises(ZooError, match="another version of the zoo"):
        load(tmp_path)


def test_a_result_of_another_run_is_noticed(tmp_path):
    """Sound in itself, but not what the manifest beside it says."""
    folder = folder_of(tmp_path / "run", small_tree())
    other = small_tree()
    save(other, folder / "results.nc")
    with pytest.raises(ZooError, match="not the file that its run wrote"):
        load(folder)
    store.write(folder / "manifest.json", (folder / "manifest.json").read_bytes().replace(b'"size"', b'"sise"'))
    with pytest.raises(ZooError, match=r"manifest\.json is damaged, or none of the zoo"):
        load(folder)
    (folder / "manifest.json").unlink()
    xr.testing.assert_identical(load(folder), other)


def test_a_manifest_of_the_future(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FORMAT", 2)
    folder = folder_of(tmp_path / "run", small_tree())
    monkeypatch.undo()
    assert json.loads((folder / "manifest.json").read_text())["format"] == 2
    with pytest.raises(ZooError, match="another version of the zoo"):
        load(folder)


def test_pictures_by_their_endings(tmp_path):
    figure = Figure(figsize=(1, 1))
    for name, start in (("a.png", b"\x89PNG"), ("b.pdf", b"%PDF"), ("c", b"\x89PNG")):
        store.write_figure(tmp_path / name, figure)
        written = tmp_path / (name if "." in name else f"{name}.png")
        assert written.read_bytes().startswith(start)
    with pytest.raises(ZooError, match=r"d\.nonsense cannot be drawn"):
        store.write_figure(tmp_path / "d.nonsense", figure)


WRITERS = {
    "nc": (store.write_netcdf, xr.Dataset({"x": ("row", np.arange(3.0))})),
    "png": (store.write_figure, Figure()),
    "npz": (lambda path, state: store_checkpoint(path, 1, 0.1, state, []), (np.zeros(2),)),
}


@pytest.mark.parametrize("kind", list(WRITERS))
def test_a_write_that_fails_holds_no_buffer(kind, tmp_path, monkeypatch):
    """Views of a BytesIO in the frames of an error end the process when the garbage collector meets the BytesIO first."""

    def fails(file, content):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "write", fails)
    write, content = WRITERS[kind]
    with pytest.raises(ZooError) as caught:
        write(tmp_path / f"a.{kind}", content)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__cause__.__traceback__)]
    views = [value for frame in frames for value in frame.f_locals.values() if isinstance(value, memoryview)]
    assert views
    assert all(isinstance(view.obj, bytes) for view in views)


# File systems of other kinds


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EIO])
def test_folders_that_cannot_be_synced(tmp_path, monkeypatch, number):
    """Where there is no such thing the file is written; any other error is one."""
    real = os.fsync

    def fsync(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ZooError, match="cannot be written") if number == errno.EIO else nullcontext():
        store.write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"  # the rename was before it


def test_disks_that_tell_no_size_are_written_to(tmp_path, monkeypatch):
    nothing = shutil.disk_usage(tmp_path)._replace(total=0, used=0, free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: nothing)
    store.write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
