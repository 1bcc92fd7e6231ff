"""A file of a stranger opens no other file, and takes no more memory than it has bytes."""

import zlib

import h5py
import numpy as np
import pytest
import xarray as xr

from inference.results import load
from inference.runtime.files import read_netcdf, write_netcdf
from models.errors import ZooError

SECRET = b"not yours"


def tree():
    texts = np.array(["a", "b" * 50, ""], dtype=object)
    square = np.array([["c", "dd"], ["", "e"]], dtype=object)
    data = xr.Dataset({"x": ("row", np.arange(3.0)), "empty": ("none", np.zeros(0)), "flag": ("row", [True, False, True])})
    data["square"] = (("one", "other"), square)
    data = data.assign_coords(row=texts).assign_attrs(words=["one", "two"], note="n" * 300, number=3)
    return xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"schema": "3"}), "/group": data, "/group/below": data.drop_vars("row")}
    )


def outside(file, folder):
    file.create_dataset("x", shape=(len(SECRET),), dtype="u1", external=[(str(folder / "secret"), 0, len(SECRET))])


def virtual(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["y"] = np.arange(10)
    layout = h5py.VirtualLayout((10,), dtype="i8")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "y", shape=(10,))
    file.create_virtual_dataset("x", layout)


def linked(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["y"] = np.arange(10)
    file["x"] = h5py.ExternalLink(folder / "other.h5", "/y")


def soft(file, folder):
    file["x"] = h5py.SoftLink("/group")


def circle(file, folder):
    file["group/again"] = file["group"]


def compressed(file, folder):
    file.create_dataset("x", data=np.zeros(10**6), compression="gzip")


def never_written(file, folder):
    file.create_dataset("x", shape=(10**12,), dtype="f8")


def large_chunks(file, folder):
    file.create_dataset("x", shape=(1,), maxshape=(None,), chunks=(10**7,), dtype="f8", compression="gzip")


def dimension_of_many_names(file, folder):
    """h5netcdf reads a dataset whose NAME is an array, also if it is that of a dimension."""
    found = file.create_dataset("x", shape=(6 * 10**7,), dtype="f8")
    found.attrs["NAME"] = np.array([b"This is a netCDF dimension but not a netCDF variable      60000000"])


def swollen(file, folder):
    """A chunk that is declared as eight numbers, and inflates to many more."""
    found = file.create_dataset("x", shape=(8,), chunks=(8,), dtype="f8", compression="gzip")
    found.id.write_direct_chunk((0,), zlib.compress(bytes(10**7)))


def lists_of_numbers(file, folder):
    file.attrs.create("DIMENSION_LIST", [np.arange(3), np.arange(2)], dtype=h5py.vlen_dtype(np.int64))


def of_another_kind(file, folder):
    file.create_dataset("x", data=np.array([np.arange(3), np.arange(2)], dtype=object), dtype=h5py.vlen_dtype(np.int64))


def in_an_attribute(file, folder):
    file.attrs.create("x", [np.arange(3), np.arange(2)], dtype=h5py.vlen_dtype(np.int64))


def a_type(file, folder):
    file["x"] = np.dtype("f8")


STRANGE = {
    outside: "lies in another file",
    virtual: "lies in another file",
    linked: "is a link",
    soft: "is a link",
    circle: "under two names",
    compressed: "in chunks",
    dimension_of_many_names: "declares more than",
    swollen: "in chunks",
    lists_of_numbers: "neither numbers nor a few texts",
    never_written: "declares more than",
    large_chunks: "in chunks",
    of_another_kind: "neither numbers nor texts",
    in_an_attribute: "neither numbers nor a few texts",
    a_type: "neither a group nor numbers",
}


@pytest.mark.parametrize("put", STRANGE)
def test_a_strange_file_is_refused(tmp_path, put):
    """In one line, before xarray reads it."""
    (tmp_path / "secret").write_bytes(SECRET)
    path = tmp_path / "results.nc"
    tree().to_netcdf(path, engine="h5netcdf")
    read_netcdf(path)
    with h5py.File(path, "a") as file:
        put(file, tmp_path)
    with pytest.raises(ZooError, match=STRANGE[put]) as caught:
        load(path)
    assert "was not written by the zoo" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_texts_that_are_the_same_bytes_are_counted(tmp_path):
    """References to one text of the heap, as no library writes them: 3 MB became 7.6 GB."""
    path = tmp_path / "results.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=["T" * 5000] + [f"{number:05}" for number in range(99)], dtype=h5py.string_dtype())
        begin, size = file["x"].id.get_offset(), 16  # length, address of the heap, index
    content = bytearray(path.read_bytes())
    content[begin : begin + 100 * size] = content[begin : begin + size] * 100
    path.write_bytes(content)
    with h5py.File(path) as file:
        assert len(file["x"][99]) == 5000
    with pytest.raises(ZooError, match="declares more than"):
        read_netcdf(path)


def test_what_the_zoo_writes_is_read(tmp_path):
    write_netcdf(tmp_path / "results.nc", tree())
    for path, node in read_netcdf(tmp_path / "results.nc").subtree_with_keys:
        xr.testing.assert_identical(node.to_dataset(), tree()[path].to_dataset())
