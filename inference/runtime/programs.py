"""Compiled functions whose traces outlive the process: exported to disk once, and called by later processes without tracing.

JAX keeps what XLA has compiled. It does not keep the trace, and tracing a sampler takes longer than a short run. `kept` is
`jax.jit` that keeps both, once `keep_programs` has named a folder; without one it is `jax.jit`.

A trace is used again only if nothing that it depends on has changed: the code of this project, the versions of JAX and NumPyro,
the shapes and placement of the arguments, and the static arguments down to the constants that their functions hold. What
cannot be told apart for certain, as a function from a user's file, is traced in every process.
"""

import functools
import hashlib
import inspect
import os
import pickle
import time
import types
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from jax import export

from inference.runtime.files import write
from models.errors import ZooError

PACKAGES = ("jax", "jaxlib", "numpyro", "numpy")
KNOWN = ("models", "inference", "jax", "jaxlib", "numpyro", "numpy", "builtins", "functools", "operator", "collections")
PLAIN = str | bytes | bool | int | float | complex | Enum | np.dtype | slice | range  # told by their text
UNUSED_SECONDS = 30 * 24 * 3600.0  # after which a file is removed
VERSION = 1  # of the files


class NotKeptError(Exception):
    """A static argument that has no reliable digest: its trace is not kept."""


class _Store:
    """Where traces are kept: set by `keep_programs` for the whole process."""

    folder: Path | None = None
    code: str = ""  # digest of code and versions
    digests: ClassVar[dict[Hashable, str]] = {}  # of static arguments


def keep_programs(folder: Path | None) -> None:
    """Keep the traces of `kept` functions in ``folder`` from now on; None: trace in every process."""
    _Store.folder = folder
    _Store.code = "" if folder is None else _code_digest()
    for file in () if folder is None else folder.glob("*"):
        with suppress(OSError):  # another process may remove it too
            if time.time() - file.stat().st_mtime > UNUSED_SECONDS:
                file.unlink()


class Kept:
    """A jitted function whose traces are kept."""

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
        try:
            call = self._read(_Store.folder / key) or self._made(_Store.folder / key, static, structure, leaves)
            found = call(leaves)
        except Exception:  # what JAX cannot export, it can still run; an error of the function itself comes again
            call = partial(self._traced, static, structure)
            found = call(leaves)
        self._calls[key] = call
        return found

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

    def _made(self, file: Path, static: Mapping[str, Any], structure: Any, leaves: list[Any]) -> Callable[[list[Any]], Any]:
        """Trace, write the trace, and call it as later processes will: one entry of the compilation cache serves them all."""
        skeleton: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            found, result = jax.tree.flatten(self._function(**static, **jax.tree.unflatten(structure, leaves)))
            skeleton[:] = [jax.tree.unflatten(result, range(len(found)))]
            return found

        exported = export.export(jax.jit(flat))(*leaves)
        _write(file, pickle.dumps((skeleton[0], bytes(exported.serialize()))))
        return _caller(skeleton[0], exported)

    def _read(self, file: Path) -> Callable[[list[Any]], Any] | None:
        """What an earlier process wrote; None where there is nothing, or nothing whole."""
        try:
            skeleton, stored = pickle.loads(file.read_bytes())
            os.utime(file)
            return _caller(skeleton, export.deserialize(bytearray(stored)))
        except Exception:  # unpickling what is not whole may raise anything; it is made again
            return None


def kept(static_argnames: Collection[str] = ()) -> Callable[[Callable[..., Any]], Kept]:
    """`jax.jit` as a decorator, with traces that are kept: ``@kept(static_argnames=("algebra",))``."""
    return lambda function: Kept(function, static_argnames)


def recalled[T](purpose: str, static: Hashable, shapes: Any, make: Callable[[], T]) -> T:
    """``make()``, which depends on ``static``, on ``shapes`` as printed, and on code alone; or what an earlier process made."""
    if _Store.folder is None:
        return make()
    try:
        file = _Store.folder / _key_of(purpose, static, shapes)
    except NotKeptError:
        return make()
    try:
        found: T = pickle.loads(file.read_bytes())
        os.utime(file)
    except Exception:  # not there, or unpickling what is not whole, which may raise anything
        found = make()
        with suppress(pickle.PicklingError, AttributeError, TypeError):  # what cannot be written is made in every process
            _write(file, pickle.dumps(found))
    return found


def _key_of(purpose: str, static: Hashable, shapes: Any) -> str:
    """Sixty-four characters that change with whatever a trace depends on. Raises `NotKeptError`."""
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


def _write(file: Path, content: bytes) -> None:
    """Where it cannot be written, as in a home that is read-only or full, the next process traces again."""
    with suppress(OSError, ZooError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, content)


@functools.cache
def _code_digest() -> str:
    """Changes with any file of this project, and with the versions of what it is traced by.

    Taken once in a process: code that is edited while a sweep runs is not the code that traces.
    """
    from importlib.metadata import version

    found = hashlib.sha256(repr((VERSION, [version(package) for package in PACKAGES])).encode())
    root = Path(__file__).parents[2]
    for part in ("models", "inference"):
        for file in sorted((root / part).rglob("*.py")):
            found.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return found.hexdigest()


def digest(value: Any) -> str:
    """A digest of a static argument by content: functions by code and by what they hold. Raises `NotKeptError`."""
    found = hashlib.sha256()
    _add(found, value, ())
    return found.hexdigest()


def _add(found: Any, value: Any, above: tuple[int, ...]) -> None:
    """Feed ``value`` to a hash; ``above`` are the identities of what holds it, which ends circles."""
    if id(value) in above:
        found.update(b"circle")
        return
    above = (*above, id(value))
    kind = type(value)
    found.update(f"<{kind.__module__}.{kind.__qualname__}>".encode())
    if (
        value is None
        or value is ...
        or isinstance(value, str | bytes | bool | int | float | complex | Enum | np.dtype | slice | range)
    ):
        found.update(repr(value).encode())
    elif isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        found.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    elif isinstance(value, tuple | list):
        found.update(str(len(value)).encode())
        for each in value:
            _add(found, each, above)
    elif isinstance(value, Mapping):
        found.update(str(len(value)).encode())
        for name, each in value.items():
            _add(found, name, above)
            _add(found, each, above)
    elif isinstance(value, frozenset | set):
        for each in sorted(map(digest, value)):
            found.update(each.encode())
    elif isinstance(value, functools.partial):
        _add(found, (value.func, value.args, dict(value.keywords)), above)
    elif isinstance(value, types.FunctionType):
        _add_function(found, value, above)
    elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc | types.ModuleType):
        found.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode())
        _require_known(getattr(value, "__module__", None) or value.__name__)
        if "<locals>" in getattr(value, "__qualname__", ""):  # a class may hold what its function was given
            raise NotKeptError(value.__qualname__)
    elif isinstance(value, types.MethodType):
        _add(found, (value.__func__, value.__self__), above)
    elif hasattr(value, "__wrapped__"):  # a jitted or cached function
        _add(found, value.__wrapped__, above)
    elif hasattr(value, "__dict__"):
        _require_known(kind.__module__)
        _add(found, vars(value), above)
    else:
        raise NotKeptError(f"{kind.__module__}.{kind.__qualname__}")


def _add_function(found: Any, function: types.FunctionType, above: tuple[int, ...]) -> None:
    """Module and name, code with its constants, defaults, and what the function holds of where it was made."""
    _require_known(function.__module__)
    found.update(f"{function.__module__}.{function.__qualname__}".encode())
    _add_code(found, function.__code__, above)
    cells = tuple(_content(cell) for cell in function.__closure__ or ())
    _add(found, (function.__defaults__, function.__kwdefaults__, cells), above)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _add_code(found: Any, code: types.CodeType, above: tuple[int, ...]) -> None:
    found.update(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(found, constant, above)
        else:
            _add(found, constant, above)


def _require_known(module: str | None) -> None:
    """A `NotKeptError` for code outside this project and the libraries whose versions are part of every key."""
    if (module or "").partition(".")[0] not in KNOWN:
        raise NotKeptError(str(module))
