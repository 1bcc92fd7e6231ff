"""All files are written and read here; `inference.runtime.pieces` writes those that no memory holds.

A file is made in memory, checked for room, written under a temporary name in its own folder, synced and renamed, so that a
kill, a full disk or a power failure leaves the old file or the new one and nothing between. Results, configurations and
checkpoints end in a *seal*: a last line with the SHA-256 of all above it, which netCDF readers skip and YAML reads as a
comment. It moves with its file. It covers names, attributes and texts, while HDF5's own checksums cover blocks of numbers only,
and it is checked before HDF5 reads a byte. A folder is complete when its manifest, written last, has size and SHA-256 of its
files. Two kinds of files are not written here, as neither holds a result: the lock (`inference.runtime.lock`), and JAX's cache
of compiled programs.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.runtime.formats.texts import HIDDEN
from models.errors import ZooError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

MANIFEST = "manifest.json"
LOCK = "run.lock"
LOG = "error.log"
RESULTS, CONFIG, ENVIRONMENT = "results.nc", "config.yaml", "environment.json"
CHECKPOINTS = "checkpoint-*.npz"
CHECKPOINT_SECONDS = 30.0  # between two checkpoints, by default
FINAL = "final-*.npz"  # the last checkpoints of a finished run
PARTIALS = (".bayes-model-zoo-", ".partial")  # how the names of half-written files begin and end
FORMAT = 1  # of the manifest
MARK = b"\n# SHA-256 of all above: "
SEAL_BYTES = len(MARK) + 64 + 1
PIECE = 2**24  # bytes per call of write
ELSEWHERE = "make room, or give another place"
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # errors of file systems that cannot sync a folder
REMEDY = "put a copy of it back, or run again in another folder"


class NotWrittenError(ZooError):
    """A file could not be written: the disk is full, or the folder is gone or not writable. Nothing is left behind."""


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def write(path: str | Path, content: bytes, seal: bool = False) -> None:
    """Write a whole file or nothing.

    Raises `NotWrittenError`: the old file is unchanged, and there is no half-written one. Where only the sync of the folder
    after the rename failed, the new file is whole in its place, and may not outlive a power failure.
    """
    path = Path(path)
    parts = [content]
    if seal:
        parts.append(MARK + hashlib.sha256(content).hexdigest().encode() + b"\n")
    partial = path.parent / secrets.token_hex(8).join(PARTIALS)
    try:
        _require_space(path, sum(len(part) for part in parts))
        try:
            _write_synced(partial, parts)
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise NotWrittenError(f"{path} cannot be written: {error.strerror or error}; {ELSEWHERE}") from error


def write_netcdf(path: str | Path, tree: "xr.DataTree | xr.Dataset") -> None:
    """A sealed netCDF file. It is made in memory: HDF5 ends the process where a disk is full."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coordinate .* has a space in its name")  # `inference.results.load` mends it
            with memoryview(tree.to_netcdf(engine="h5netcdf")) as view:  # of a BytesIO: Python ends where one is collected
                content = bytes(view)  # as garbage before its views, as those in the frames of an error are
    except MemoryError as error:
        raise NotWrittenError(f"{path} cannot be written: it is made in memory, of which there is too little") from error
    write(path, content, seal=True)


def write_table(path: str | Path, frame: "pd.DataFrame", **options: Any) -> None:
    """A table as CSV; ``options`` are those of `pandas.DataFrame.to_csv`."""
    write(path, str(frame.to_csv(**options)).encode())


def write_figure(path: str | Path, figure: "Figure", **options: Any) -> None:
    """A picture in the format of the ending of ``path``; ``options`` are those of `matplotlib.figure.Figure.savefig`."""
    path = Path(path)
    if not path.suffix:
        path = path.with_name(f"{path.name}.png")
    try:
        content = picture_bytes(figure, path.suffix[1:], **options)
    except ValueError as error:
        raise NotWrittenError(f"{path} cannot be drawn: {error}") from error
    write(path, content)


def picture_bytes(figure: "Figure", kind: str, **options: Any) -> bytes:
    """A picture as svg, png, pdf, …; an SVG is the same for the same figure, because it has no date and no random names."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    if kind == "svg":
        options["metadata"] = {"Date": None}
        FigureCanvasAgg(figure)  # lays out several times faster than the one that draws SVG
        if (layout := figure.get_layout_engine()) is not None:
            layout.execute(figure)
            figure.set_layout_engine("none")
    with rc_context({"svg.hashsalt": "zoo"}):
        figure.savefig(buffer, format=kind, **options)
    content = buffer.getvalue()
    # Names stand in comments of the picture, where XML allows no control characters
    return HIDDEN.sub("\ufffd", content.decode()).encode() if kind == "svg" else content


def _require_space(path: Path, size: int) -> None:
    total, _, free = shutil.disk_usage(path.parent)
    if size > free and total:  # some file systems report no room at all, and still accept files
        raise NotWrittenError(
            f"{path} cannot be written: it takes {size / 2**20:.1f} MiB, and {free / 2**20:.1f} are free there; {ELSEWHERE}"
        )


def _write_synced(path: Path, parts: list[bytes]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        for part in parts:
            write_all(file, part)
        os.fsync(file)
    finally:
        os.close(file)


def write_all(file: int, content: bytes) -> None:
    """Write all of ``content``, in calls of a size that every system takes."""
    rest = memoryview(content).cast("B")
    while len(rest):
        rest = rest[os.write(file, rest[:PIECE]) :]


def sync_folder(folder: Path) -> None:
    """A rename is on disk when its folder is. Only POSIX opens folders, and not every file system can sync one."""
    if os.name != "posix":
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(file)


def remove(*paths: Path) -> None:
    """Remove the existing files among these, all of one folder, and sync the folder."""
    try:
        for path in paths:
            path.unlink(missing_ok=True)
        if paths:
            sync_folder(paths[0].parent)
    except OSError as error:
        raise NotWrittenError(f"{paths[0].parent} cannot be changed: {error.strerror or error}") from error


class LoggedError(Exception):
    """A bug of the zoo, whose traceback is in a file."""

    def __init__(self, error: BaseException, log: Path | None) -> None:
        where = "no log could be written" if log is None else f"the traceback is in {log}"
        super().__init__(f"{_line(error)} ({where})")


def log_of(error: BaseException, folder: Path | None = None) -> Path | None:
    """Write the traceback of an error into a folder, or a temporary one; None where neither can be written."""
    text = "".join(traceback.format_exception(error)).encode()
    with contextlib.suppress(ZooError):
        if folder is not None and (not (folder / LOG).exists() or is_sealed(folder / LOG)):
            write(folder / LOG, text, seal=True)
            return folder / LOG
    with contextlib.suppress(ZooError, OSError):
        path = Path(tempfile.mkdtemp(prefix="bayes-model-zoo-")) / LOG
        write(path, text, seal=True)
        return path
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read(path: str | Path, require_seal: bool = False, remedy: str = REMEDY) -> bytes:
    """The content of a file without its seal. Raises `ZooError` where its seal, or the manifest of its folder, does not match.

    With ``require_seal`` a file without one is an error; otherwise it is returned as it is. ``remedy`` ends the messages.
    """
    path = Path(path)
    content = _bytes(path)
    expected = _manifest(path.parent).get(path.name)
    if expected is not None and expected != _described(content):
        raise ZooError(
            f"{path} is not the file that its run wrote ({MANIFEST} in its folder has another checksum): it was damaged or "
            f"exchanged; {remedy}"
        )
    tail = content[-SEAL_BYTES:]
    if not (tail.startswith(MARK) and tail.endswith(b"\n")):
        if require_seal:
            raise ZooError(f"{path} is damaged, cut short, or from an older version: its checksum is missing; {remedy}")
        return content
    content = content[:-SEAL_BYTES]
    if tail[len(MARK) : -1] != hashlib.sha256(content).hexdigest().encode():
        raise ZooError(f"{path} is damaged: its content does not match its checksum; {remedy}")
    return content


def is_sealed(path: Path) -> bool:
    """Whether a file was written by the zoo and is unchanged: it ends in its own checksum."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return content[-SEAL_BYTES:] == MARK + hashlib.sha256(content[:-SEAL_BYTES]).hexdigest().encode() + b"\n"


def read_netcdf(path: str | Path) -> "xr.DataTree":
    """A netCDF file as a tree, in memory. Raises `ZooError` for a damaged file, and for one that the zoo did not write."""
    import xarray as xr

    from inference.runtime.formats.hdf5 import require_self_contained

    content = read(path)
    try:
        require_self_contained(content)
        with xr.open_datatree(io.BytesIO(content), engine="h5netcdf") as tree:
            return xr.DataTree.from_dict({node.path: node.to_dataset(inherit=False).load() for node in tree.subtree})
    except ZooError as error:
        raise ZooError(f"{path} was not written by the zoo: {error}; {REMEDY}") from error
    except MemoryError:
        raise
    # Broad on purpose. The seal has been checked, so that only files without one, or of other programs, fail here. HDF5,
    # h5netcdf and xarray then raise OSError, KeyError, RuntimeError, TypeError or UnicodeDecodeError, by which byte is wrong.
    # All of them mean the same to the user, and the first one stays the cause.
    except Exception as error:
        raise ZooError(
            f"{path} cannot be read as netCDF: it is damaged, cut short, or something else ({_line(error)}); {REMEDY}"
        ) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ZooError(f"{path} cannot be read: {error.strerror or error}") from error


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


# ---------------------------------------------------------------------------------------------------------------------
# The manifest of a folder


def complete(folder: Path, files: Iterable[Path]) -> None:
    """Write the manifest of files in a folder: the last thing that a run does."""
    described = {path.name: _described(_bytes(path)) for path in sorted(files)}
    write(folder / MANIFEST, as_text({"format": FORMAT, "files": described}))


def in_manifest(folder: Path) -> list[Path]:
    """The files that the manifest of a folder names; none without a manifest."""
    return [folder / name for name in _manifest(folder)]


def reopen(folder: Path) -> None:
    """Remove the manifest: the folder is about to change. Remove partial files of a killed process as well."""
    manifest = [folder / MANIFEST] if _manifest(folder) else []
    remove(*manifest, *folder.glob("*".join(PARTIALS)))


def intact(folder: Path) -> set[str]:
    """Names of the files that the manifest of a folder lists, and that are there as they were written."""
    return {name for name, expected in _manifest(folder).items() if _is_as_described(folder / name, expected)}


def is_complete(folder: Path, *needed: str) -> bool:
    """Whether every file of the manifest is unchanged, and those ``needed`` are among them; False without a manifest."""
    files = _manifest(folder)
    return (
        {*needed} <= {*files}
        and bool(files)
        and all(_is_as_described(folder / name, expected) for name, expected in files.items())
    )


def _manifest(folder: Path) -> dict[str, Any]:
    """File -> size and SHA-256; nothing where there is no manifest. Raises `ZooError` for one that is damaged."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    content = _bytes(path)
    try:
        manifest = json.loads(content)
        checksum = manifest.pop("sha256")
        if as_text(manifest) == content and manifest["format"] == FORMAT:
            return dict(manifest["files"])
        newer = manifest["format"] != FORMAT and checksum == _digest_of(manifest)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        newer = False
    if newer:
        raise ZooError(f"{path} is of another version of the zoo (format {manifest['format']!r}; this one knows {FORMAT})")
    raise ZooError(f"{path} is damaged, or none of the zoo's; without it {RESULTS} is read by its own checksum")


def as_text(manifest: dict[str, Any]) -> bytes:
    """JSON with its own checksum as its last entry: as ``as_text({"format": 1})``, where a seal would not be JSON."""
    return (json.dumps(manifest | {"sha256": _digest_of(manifest)}, indent=2) + "\n").encode()


def _digest_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _is_as_described(path: Path, expected: Any) -> bool:
    return path.is_file() and _described(_bytes(path)) == expected


def _described(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
