"""`inference.certify` from the shell: one cell, or many of them on all cores; what is certified already is left alone."""

import math
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax

from inference.certificates.cell import WAYS, cells, certify, code_of, is_current, require_cell, require_settings
from inference.certificates.cell_page import write_pages
from inference.certificates.certificate import Certificate, read_certificate, write_certificate
from inference.certificates.fingerprint import ROOT
from inference.certificates.oracles import ORACLES
from inference.certificates.page import lines_of, table_of
from inference.engine.driver import num_cores
from inference.runtime.files import write
from inference.runtime.progress import console
from models.errors import ZooError, exists

OPTIONS = ("model", "method", "budget", "seed", "out", "again", "minutes")
WORDS = ("all", "changed")
USAGE = "python -m inference.certify model=<name>|all method=<name>|all"
PUBLISHED = ROOT / "docs" / "certificates"
FAILED = 3
TABLE = "index.md"


def tell(line: str) -> None:
    """A line on standard error, beside what is printed."""
    console(sys.stderr).print(line, soft_wrap=True)


class Asked(NamedTuple):
    """The arguments of the command."""

    cells: list[tuple[str, str]]
    budget: str
    seed: int
    out: Path
    again: bool
    until: float  # seconds since the epoch, after which no further cell is begun


class Without(NamedTuple):
    """A cell that has no certificate: the time was over, or an error ended its checks."""

    error: str | None = None  # in words


def certify_main(arguments: list[str]) -> int:
    """Certify the cells that are asked for; returns 0, or 3 if one of them fails or is inconclusive."""
    asked = parsed(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    passed, without, screen = True, [], console()
    try:
        for certificate, path in _certificates(asked):
            if isinstance(certificate, Without):
                without.append(certificate)
                continue
            for line in [*lines_of(certificate), f"  {path}"]:
                screen.print(line, soft_wrap=True)
            passed &= certificate.passed
    finally:
        write(asked.out / TABLE, table_of(asked.out, list(ORACLES)).encode())
    broken = [each.error for each in without if each.error is not None]
    for error in broken:
        screen.print(error, soft_wrap=True)
    if unreached := len(without) - len(broken):
        screen.print(f"{unreached} of {len(asked.cells)} cells were not certified: minutes= was over")
    screen.print(f"all certificates: {asked.out / TABLE}", soft_wrap=True)
    return 0 if passed and not broken else FAILED


def parsed(arguments: Sequence[str]) -> Asked:
    """The arguments, ``key=value`` or ``all``; raises `ZooError` for an unknown, missing or impossible one."""
    given = {"model": "all", "method": "all"} if set(WORDS) & set(arguments) else {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if argument not in WORDS and (not equals or key not in OPTIONS):
            raise ZooError(f"{argument!r}: inference.certify takes {', '.join(OPTIONS)}, as key=value, or {' or '.join(WORDS)}")
        given |= {key: value} if equals else {}
    if absent := [name for name in ("model", "method") if name not in given]:
        raise ZooError(f"{absent[0]}= is missing: {USAGE}")
    budget, seed, again = given.get("budget", "quick"), given.get("seed", "0"), given.get("again", "false")
    if again not in ("true", "false"):
        raise ZooError(f"again must be true or false, got {again!r}")
    require_settings(budget, int(seed) if seed.isdecimal() else seed)
    cells = _chosen(given["model"], given["method"])
    if "changed" in arguments:
        if not any(exists(PUBLISHED / f"{model}-{method}.json") for model, method in cells):
            tell(f"no certificate of these cells is in {PUBLISHED}: there is nothing to compare with")
        cells = _changed(cells)
    out = Path(given.get("out", "certificates"))
    return Asked(cells, budget, int(seed), out, again == "true", time.time() + _seconds(given.get("minutes")))


def _seconds(minutes: str | None) -> float:
    try:
        found = 60 * float(math.inf if minutes is None else minutes)
    except ValueError:
        found = -1.0
    if not found > 0:
        raise ZooError(f"minutes must be a positive number, got {minutes!r}")
    return found


def _changed(cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The cells whose published certificate is not of the code and the packages of now, or did not pass.

    A cell without one claims nothing.

    They come in the order of the hashes of their code. So where time is short, each change of code puts other cells first.
    """
    return sorted((cell for cell in cells if not _holds(*cell)), key=lambda cell: code_of(*cell))


def _holds(model: str, method: str) -> bool:
    """Whether the published certificate of a cell, if there is one, passed for this code and the packages of now."""
    path = PUBLISHED / f"{model}-{method}.json"
    if not exists(path):
        return True
    try:
        found = read_certificate(path)
    except ZooError:
        return False
    return found.passed and is_current(found)


def _chosen(model: str, method: str) -> list[tuple[str, str]]:
    if "all" not in (model, method):
        require_cell(model, method)
        return [(model, method)]
    found = [cell for cell in cells() if model in ("all", cell[0]) and method in ("all", cell[1])]
    if not found:
        known = f"models are {', '.join(ORACLES)}; methods {', '.join(WAYS)}"
        raise ZooError(f"no cell has model={model} and method={method}; {known}")
    return found


def _certificates(asked: Asked) -> Iterator[tuple[Certificate | Without, Path]]:
    """Certificates as they are made, and cells that have none.

    First come those that are there and passed, for the same code, versions, seed and budget. Of others the checks that did are
    taken again.
    """
    waiting = []
    for model, method in asked.cells:
        path = asked.out / f"{model}-{method}.json"
        before = None if asked.again else _before(path)
        if before is None or not _answers(before, asked):
            waiting.append((model, method, path, before))
        else:
            tell(f"{model} {method}: as certified before; again=true certifies it again")
            yield before, path
    size = min(num_cores(), len(waiting))
    if size <= 1:
        yield from ((_certified(asked, *cell), cell[2]) for cell in waiting)
        return
    with ProcessPoolExecutor(size, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_certified, asked, *cell): cell for cell in waiting}
        try:
            for future in as_completed(running):
                model, method, path, _ = running[future]
                try:
                    yield future.result(), path
                except BrokenProcessPool:  # it takes the other cells with it: each is named
                    yield (
                        Without(f"{model} {method}: a process was killed, perhaps for its memory; the same command goes on"),
                        path,
                    )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _before(path: Path) -> Certificate | None:
    """The certificate on disk; None where there is none that can be read."""
    if not exists(path):
        return None
    try:
        found = read_certificate(path)
    except ZooError as error:
        tell(f"{error}; it is made again")
        return None
    return found


def _answers(found: Certificate, asked: Asked) -> bool:
    """Whether a certificate passed for the code, packages, seed and budget that are asked for."""
    return found.passed and (found.budget, found.seed) == (asked.budget, asked.seed) and is_current(found)


def _certified(asked: Asked, model: str, method: str, path: Path, before: Certificate | None) -> Certificate | Without:
    """A new certificate, on disk. An error ends one cell, not the others."""
    if time.time() > asked.until:
        return Without()
    try:
        certificate = certify(method, model, asked.budget, asked.seed, tell, before)
        write_certificate(certificate, path)
        write_pages(certificate, path)
    except Exception as error:  # of whatever kind: it is printed whole, named at the end, and makes the command fail
        tell(traceback.format_exc())
        return Without(f"{model} {method}: an error ended the checks: {type(error).__name__}: {error}")
    finally:
        jax.clear_caches()  # a worker certifies many cells, and would keep the programs of all in memory
    return certificate
