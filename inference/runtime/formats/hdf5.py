"""Checks of an HDF5 file of unknown origin: no other file is opened, and nothing expands beyond the bytes of the file.

A dataset of HDF5 can lie in any other file that this user can read, be put together from several, or be a link. One in chunks
may be compressed. Such a dataset, one that was never written, and texts that are all the same bytes take more memory than the
file has. The zoo writes none of these: its numbers and texts take less than the file. So chunks are an error, sizes are checked
as the file declares them, and texts are counted in small pieces. What remains is HDF5 itself, whose own code reads the
structure of the file.
"""

import io
import math
from typing import TYPE_CHECKING, Any

from models.errors import ZooError

if TYPE_CHECKING:
    import h5py

PIECE_BYTES = 2**28  # of texts that are read at once, where each of them is as long as the file
FEW_TEXTS = 64  # of an attribute, which is read whole
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"  # the name of a dataset without content
LISTS = ("DIMENSION_LIST", "REFERENCE_LIST")  # attributes by which netCDF connects variables and dimensions


def require_self_contained(content: bytes) -> None:
    """A `ZooError` where the bytes of an HDF5 file refer to other files, or declare more than they hold.

    >>> require_self_contained(Path("results.nc").read_bytes())
    """
    import h5py

    with h5py.File(io.BytesIO(content), "r") as file:
        _Check(len(content)).of_group(file)


class _Check:
    """A walk over all objects of a file, with the memory that they take so far."""

    def __init__(self, size: int) -> None:
        self._size, self._taken, self._seen = size, 0, set[Any]()
        self._at_once = PIECE_BYTES // max(size, 1)

    def of_group(self, group: "h5py.Group") -> None:
        """All objects of a group. Every object is visited once, so that the walk ends."""
        import h5py

        self._attributes(group)
        for name in group:
            where = f"{group.name.rstrip('/')}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ZooError(f"{where} is a link, which may lead to any file")
            kind = group.get(name, getclass=True)
            if kind not in (h5py.Group, h5py.Dataset):
                raise ZooError(f"{where} is neither a group nor numbers")
            each = group[name]
            if (address := h5py.h5o.get_info(each.id).addr) in self._seen:
                raise ZooError(f"{where} is there under two names")
            self._seen.add(address)
            if kind is h5py.Group:
                self.of_group(each)
            else:
                self._dataset(where, each)

    def _dataset(self, where: str, dataset: "h5py.Dataset") -> None:
        if dataset.is_virtual or dataset.external:
            raise ZooError(f"{where} lies in another file")
        self._attributes(dataset)
        if dataset.chunks is not None and dataset.size:  # an empty one has nothing to inflate
            raise ZooError(f"{where} is in chunks, which may be compressed")
        if not _is_dimension(dataset):
            self._take(where, (dataset.size or 0) * dataset.dtype.itemsize)
        if dataset.dtype.hasobject:
            self._texts(where, dataset)

    def _texts(self, where: str, dataset: "h5py.Dataset") -> None:
        import h5py

        if h5py.check_string_dtype(dataset.dtype) is None:
            raise ZooError(f"{where} holds neither numbers nor texts")
        if dataset.shape == ():
            self._take(where, len(dataset[()]))
            return
        step = max(1, self._at_once)
        for begin in range(0, len(dataset), step):
            self._take(where, sum(map(len, dataset[begin : begin + step].ravel())))

    def _attributes(self, node: "h5py.Group | h5py.Dataset") -> None:
        import h5py

        for name in node.attrs:
            where, declared = f"{node.name}: {name}", node.attrs.get_id(name)
            number = math.prod(declared.shape or ())
            self._take(where, number * declared.dtype.itemsize)
            if not declared.dtype.hasobject or (name in LISTS and _is_list(declared, node)):
                continue
            if h5py.check_string_dtype(declared.dtype) is None or number > max(FEW_TEXTS, self._at_once):
                raise ZooError(f"{where} is neither numbers nor a few texts")
            value = node.attrs[name]
            self._take(where, sum(map(len, [value] if declared.shape == () else value.flat)))

    def _take(self, where: str, size: int) -> None:
        self._taken += size
        if self._taken > self._size:
            raise ZooError(f"with {where} it declares more than the {self._size} bytes of the file")


def _is_dimension(dataset: "h5py.Dataset") -> bool:
    """Whether a dataset stands for a dimension: h5netcdf reads none of its numbers. This tests the same text as h5netcdf."""
    name = dataset.attrs.get("NAME")
    return isinstance(name, bytes) and name.startswith(NO_VARIABLE)


def _is_list(declared: "h5py.h5a.AttrID", node: "h5py.Group | h5py.Dataset") -> bool:
    """Whether an attribute lists references: a list of them for each dimension, or one for each variable with a dimension."""
    import h5py

    base = h5py.check_vlen_dtype(declared.dtype)
    if base is not None:
        number = math.prod(declared.shape or ())
        return h5py.check_ref_dtype(base) is not None and number <= max(1, len(getattr(node, "shape", ())))
    kinds = [declared.dtype[name] for name in declared.dtype.names or ()]
    return bool(kinds) and all(h5py.check_ref_dtype(kind) is not None or not kind.hasobject for kind in kinds)
