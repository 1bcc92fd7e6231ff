"""Compiled functions whose traces outlive the process: exported to disk once, and called by later processes without tracing.

JAX keeps what XLA has compiled. It does not keep the trace, and tracing a sampler takes longer than a short run. `cached_jit`
is `jax.jit` that keeps both, once `keep_programs` has named a folder; without one it is `jax.jit`.

A trace is used again only if nothing that it depends on has changed: the code of this project, the versions of JAX and NumPyro,
the shapes and placement of the arguments, and the static arguments down to the constants that their functions hold. A
function with arguments that cannot be identified for certain, such as a function from a user's file, is traced in every
process.

A stored file is run, so that it is trusted like code. Its folder is this user's alone (`models.host.private`), or it is not
used. Its seal is checked before anything else reads it. Nothing is unpickled: `jax.export` reads a flatbuffer, and the rest is
text (`inference.runtime.kept.values`). A process of this user can still plant a file; it can exchange the code as well.
"""

import functools
import hashlib
import inspect
import os
import time
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
from jax import export

from inference.runtime.files import read, write
from inference.runtime.kept.digests import NotKeptError, digest
from inference.runtime.kept.values import as_text, from_text
from models.errors import ZooError
from models.host.private import private_folder

PACKAGES = ("jax", "jaxlib", "numpyro", "numpy")
UNUSED_SECONDS = 30 * 24 * 3600.0  # after which a file is removed
VERSION = 2  # of the files


class _Store:
    """Where traces are kept: set by `keep_programs` for the whole process."""

    folder: Path | None = None
    code: str = ""  # digest of code and versions
    digests: ClassVar[dict[Hashable, str]] = {}  # of static arguments


def keep_programs(folder: Path | None) -> None:
    """Keep the traces of `cached_jit` functions in ``folder`` from now on; None: trace in every process.

    A folder that others can write into is not used; there is a warning.

    >>> keep_programs(Path.home() / ".cache" / "bayes-model-zoo" / "programs")
    """
    private = None if folder is None else private_folder(folder)
    if private is None and folder is not None:
        warnings.warn(why_not_used(folder), RuntimeWarning, stacklevel=2)
    _Store.folder = private
    _Store.code = "" if private is None else _code_digest()
    for file in () if private is None else private.glob("*"):
        with suppress(OSError):  # another process may remove it too
            if time.time() - file.stat().st_mtime > UNUSED_SECONDS:
                file.unlink()


def why_not_used(folder: Path) -> str:
    """Why nothing is stored in ``folder``, in one line."""
    return (
        f"{folder} cannot be made, or others can write there: no compiled programs are kept, and every run makes its own; name "
        "a folder of yours by XDG_CACHE_HOME"
    )


class CachedJit:
    """A jitted function with stored traces."""

    def __init__(self, function: Callable[..., Any], static_argnames: Collection[str]) -> None:
        self.jitted = jax.jit(function, static_argnames=tuple(static_argnames))
        self._function, self._static = function, frozenset(static_argnames)
        self._signature = inspect.signature(function)
        self._calls: dict[str, Callable[[list[Any]], Any]] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _Store.folder is None:
            return self.jitted(*args, **kwargs)
        given = self._signature.bind(*args, **kwargs).arguments
        leaves, structure = jax.tree.flatten({name: value for name, value in given.items() if name not in self._static})
        static = {name: value for name, value in given.items() if name in self._static}
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self.jitted(*args, **kwargs)
        try:
            key = self._key(static, structure, leaves)
        except NotKeptError:
            return self.jitted(*args, **kwargs)
        if key in self._calls:
            return self._calls[key](leaves)
        file = _Store.folder / key
        for find in (self._read, partial(self._made, static, structure, leaves)):
            try:
                call = find(file)
                result = call(leaves)
                break
            except Exception:  # not there, damaged, or of a machine that has changed: it is made again
                continue
        else:  # JAX can run a function that it cannot export; an error of the function itself is raised again
            call = partial(self._traced, static, structure)
            result = call(leaves)
        self._calls[key] = call
        return result

    def _traced(self, static: Mapping[str, Any], structure: Any, leaves: list[Any]) -> Any:
        return self.jitted(**static, **jax.tree.unflatten(structure, leaves))

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes of what a call returns, as `jax.jit` has it."""
        return self.jitted.eval_shape(*args, **kwargs)

    def _key(self, static: Mapping[str, Any], structure: Any, leaves: list[Any]) -> str:
        types = [(jax.typeof(leaf), getattr(leaf, "sharding", "")) for leaf in leaves]
        shapes = [(str(kind), kind.weak_type, str(placed)) for kind, placed in types]
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        return _key_of(name, (tuple(static), tuple(static.values())), (str(structure), shapes))

    def _made(self, static: Mapping[str, Any], structure: Any, leaves: list[Any], file: Path) -> Callable[[list[Any]], Any]:
        """Trace, write the trace, and call it as later processes will: one entry of the compilation cache serves them all."""
        skeleton: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            outputs, result = jax.tree.flatten(self._function(**static, **jax.tree.unflatten(structure, leaves)))
            skeleton[:] = [jax.tree.unflatten(result, range(len(outputs)))]
            return outputs

        exported = export.export(jax.jit(flat))(*leaves)
        with suppress(NotKeptError):
            _write(file, as_text(skeleton[0]), bytes(exported.serialize()))
        return _caller(skeleton[0], exported)

    def _read(self, file: Path) -> Callable[[list[Any]], Any]:
        """The program that an earlier process wrote. Raises an error where there is none, or no whole one."""
        skeleton, program = _parts(file)
        return _caller(skeleton, export.deserialize(bytearray(program)))


def cached_jit(static_argnames: Collection[str] = ()) -> Callable[[Callable[..., Any]], CachedJit]:
    """`jax.jit` as a decorator, with stored traces: ``@cached_jit(static_argnames=("algebra",))``."""
    return lambda function: CachedJit(function, static_argnames)


def memoised[T](purpose: str, static: Hashable, shapes: Any, make: Callable[[], T]) -> T:
    """``make()``, a function of ``static``, ``shapes`` as printed, and code alone; or its value in an earlier process."""
    if _Store.folder is None:
        return make()
    try:
        file = _Store.folder / _key_of(purpose, static, shapes)
    except NotKeptError:
        return make()
    try:
        value: T = _parts(file)[0]
    except (ZooError, ValueError, OSError):  # not there, or damaged
        value = make()
        with suppress(NotKeptError):  # without a text it is made in every process
            _write(file, as_text(value))
    return value


def _key_of(purpose: str, static: Hashable, shapes: Any) -> str:
    """Sixty-four characters that change with everything that a trace depends on. Raises `NotKeptError`."""
    state = (jax.config.jax_enable_x64, str(jax.config.jax_default_matmul_precision), jax.default_backend(), jax.device_count())
    return hashlib.sha256(repr((_Store.code, purpose, _digest_once(static), shapes, state)).encode()).hexdigest()


def _digest_once(value: Hashable) -> str:
    """`digest`, computed once for equal values; of a plain tuple entry by entry, since entries come back in other tuples."""
    if type(value) is tuple:
        return repr([_digest_once(each) for each in value])
    typed = (type(value), value)  # True equals 1
    if typed not in _Store.digests:
        _Store.digests[typed] = digest(value)
    return _Store.digests[typed]


def _caller(skeleton: Any, exported: export.Exported) -> Callable[[list[Any]], Any]:
    structure, call = jax.tree.structure(skeleton), jax.jit(exported.call)
    return lambda leaves: jax.tree.unflatten(structure, call(*leaves))


def _write(file: Path, text: bytes, program: bytes = b"") -> None:
    """Where it cannot be written, as in a home that is read-only or full, the next process traces again."""
    with suppress(OSError, ZooError):
        write(file, b"\n".join((file.name.encode(), text, program)), seal=True)


def _parts(file: Path) -> tuple[Any, bytes]:
    """(value, program) that `_write` wrote under this name. Raises `ZooError`, `ValueError` or `OSError` for anything else."""
    name, text, program = read(file, require_seal=True).split(b"\n", 2)
    if name != file.name.encode():
        raise ValueError(f"{file} has the program of another name")
    with suppress(OSError):  # a read-only disk
        os.utime(file)
    return from_text(text), program


@functools.cache
def _code_digest() -> str:
    """A digest of all files of models/ and inference/, and of the versions of the packages that trace them.

    Computed once in a process: code that is edited while a sweep runs is not the code that it traces.
    """
    from importlib.metadata import version

    hashed = hashlib.sha256(repr((VERSION, [version(package) for package in PACKAGES])).encode())
    root = Path(__file__).parents[2]
    for part in ("models", "inference"):
        for file in sorted((root / part).rglob("*.py")):
            hashed.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return hashed.hexdigest()
