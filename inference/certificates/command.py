"""`inference.certify` from the shell: certify cells, compare witnesses, renew what differs; on all cores."""

import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax

from inference.certificates import sensitivity
from inference.certificates.cell import PLANS, cells, certify, require_cell, require_settings
from inference.certificates.cell_page import write_pages
from inference.certificates.certificate import Certificate, read_certificate, write_certificate, write_unfinished
from inference.certificates.checks.figure import control_of
from inference.certificates.comparison import Cell, Changed, changes_of_models
from inference.certificates.oracles import ORACLES, VARIANTS, name_of
from inference.certificates.page import lines_of, table_of
from inference.engine.driver import num_cores
from inference.runtime.files import remove, write
from inference.runtime.progress import console
from models.errors import ZooError, exists

OPTIONS = ("model", "method", "budget", "seed", "out", "again")
WORDS = ("all", "witnesses", "renew", "sensitivity")
USAGE = "python -m inference.certify model=<name>|all method=<name>|all"
OF_MODEL = "model."  # begins an option of the model, which chooses one of its variants
PUBLISHED = Path(__file__).parents[2] / "docs" / "certificates"
FAILED = 3
TABLE = "index.md"
UNFINISHED = ".unfinished.json"  # ending of the file of a certificate until its last check is done


def tell(line: str) -> None:
    """A line on standard error, apart from the printed output."""
    console(sys.stderr).print(line, soft_wrap=True)


class Request(NamedTuple):
    """The arguments of the command."""

    action: str  # certify, or one of the other words
    cells: list[Cell]
    budget: str
    seed: int
    out: Path
    again: bool

    @property
    def writes_pages(self) -> bool:
        """Whether certificates get a page and a picture; those of published ones are made with the site."""
        return self.out.resolve() != PUBLISHED


class Broken(NamedTuple):
    """A cell that has no certificate, because an error ended its checks."""

    error: str  # in words


def certify_main(arguments: list[str]) -> int:
    """Run the command; returns 0, or 3 if a cell fails or is inconclusive, or a witness differs."""
    request = parsed(arguments)
    if request.action == "witnesses":
        return _compare(request)
    if request.action == "renew":
        return _renew(request)
    if request.action == "sensitivity":
        console().print(sensitivity.table(), soft_wrap=True)
        return 0
    request.out.mkdir(parents=True, exist_ok=True)
    return _certify(request)


def _certify(request: Request) -> int:
    passed, broken, screen = True, [], console()
    try:
        for certificate, path in _certificates(request):
            if isinstance(certificate, Broken):
                broken.append(certificate.error)
                continue
            for line in [*lines_of(certificate), f"  {path}"]:
                screen.print(line, soft_wrap=True)
            passed &= certificate.passed
    finally:
        leads_to = ".md" if request.writes_pages else ".json"
        write(request.out / TABLE, table_of(request.out, [*ORACLES, *VARIANTS], leads_to).encode())
    for error in broken:
        screen.print(error, soft_wrap=True)
    screen.print(f"all certificates: {request.out / TABLE}", soft_wrap=True)
    return 0 if passed and not broken else FAILED


def _compare(request: Request) -> int:
    """Compare the witnesses of certificates with what the code computes now; returns 3 if some differ."""
    compared = list(_changes(request))
    different = sum(each.differs for each in compared)
    answer = f"{different} of {len(compared)} cells differ from" if different else f"all {len(compared)} cells agree with"
    console().print(f"{answer} their witnesses in {request.out}", soft_wrap=True)
    return FAILED if different else 0


def _renew(request: Request) -> int:
    """Certify the cells again that differ, each with its own budget and seed."""
    changed = [each.cell for each in _changes(request) if each.differs]
    if not changed:
        console().print("no witness differs: nothing to renew")
        return 0
    passed = True
    for budget, seed, some in _by_settings(request.out, changed):
        passed &= _certify(request._replace(cells=some, budget=budget, seed=seed)) == 0
    return 0 if passed else FAILED


def _changes(request: Request) -> Iterator[Changed]:
    """The comparison of every cell, printed as it is made. Raises `ZooError` where there is no certificate at all."""
    if not any(exists(_path(request.out, cell)) for cell in request.cells):
        raise ZooError(f"no certificate of these cells is in {request.out}: there is nothing to compare with")
    for changed in changes_of_models(request.cells, request.out):
        tell(f"{' '.join(changed.cell)}: {'differs' if changed.differs else 'the same numbers'}")
        for line in changed.lines:
            console().print(line, soft_wrap=True)
        yield changed


def _by_settings(folder: Path, cells: Sequence[Cell]) -> list[tuple[str, int, list[Cell]]]:
    """Cells by the budget and the seed of their certificates: full and 0 where there is none that can be read."""
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        before = _readable(_path(folder, cell))
        groups.setdefault(("full", 0) if before is None else (before.budget, before.seed), []).append(cell)
    return [(*settings, some) for settings, some in groups.items()]


def _path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell[0]}-{cell[1]}.json"


def parsed(arguments: Sequence[str]) -> Request:
    """The arguments, ``key=value`` or a word; raises `ZooError` for an unknown, missing or impossible one."""
    words = [argument for argument in arguments if argument in WORDS]
    options: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if argument not in WORDS and (not equals or (key not in OPTIONS and not key.startswith(OF_MODEL))):
            known = f"{', '.join(OPTIONS)}, model.<option>"
            raise ZooError(f"{argument!r}: inference.certify takes {known}, as key=value, or {' or '.join(WORDS)}")
        if equals and key in options:
            raise ZooError(f"{key}= is given twice: {options[key]} and {value}")
        options |= {key: value} if equals else {}
    given = ({"model": "all", "method": "all"} if words else {}) | options
    if absent := [name for name in ("model", "method") if name not in given]:
        raise ZooError(f"{absent[0]}= is missing: {USAGE}")
    action = words[0] if words and words[0] != "all" else "certify"
    if action != "certify" and (unused := {"budget", "seed", "again"} & set(given)):
        raise ZooError(f"{min(unused)}= has no use with {action}: each certificate has its own")
    if len(words) > 1:
        raise ZooError(f"{' and '.join(words)} do not go together: give one of them")
    budget, seed, again = given.get("budget", "quick"), given.get("seed", "0"), given.get("again", "false")
    if again not in ("true", "false"):
        raise ZooError(f"again must be true or false, got {again!r}")
    require_settings(budget, int(seed) if seed.isdecimal() and len(seed) < 100 else seed)
    out = Path(given.get("out", "certificates" if action == "certify" else PUBLISHED))
    of_model = {key.removeprefix(OF_MODEL): value for key, value in given.items() if key.startswith(OF_MODEL)}
    chosen = _chosen(name_of(given["model"], of_model), given["method"])
    if action in ("witnesses", "renew") and "all" in (given["model"], given["method"]):  # what has a certificate
        variants = _cells(VARIANTS, given["method"]) if given["model"] == "all" else []
        chosen = [cell for cell in [*chosen, *variants] if exists(_path(out, cell))] or chosen
    return Request(action, chosen, budget, int(seed), out, again == "true")


def _cells(models: Iterable[str], method: str) -> list[Cell]:
    return [cell for cell in cells(models) if method in ("all", cell[1])]


def _chosen(model: str, method: str) -> list[Cell]:
    if "all" not in (model, method):
        require_cell(model, method)
        return [(model, method)]
    selected = _cells(ORACLES if model == "all" else [name for name in (*ORACLES, *VARIANTS) if name == model], method)
    if not selected:
        known = f"models are {', '.join(ORACLES)}; methods {', '.join(PLANS)}"
        raise ZooError(f"no cell has model={model} and method={method}; {known}")
    return selected


def _certificates(request: Request) -> Iterator[tuple[Certificate | Broken, Path]]:
    """Certificates as they are made, and cells that have none.

    Checks of a certificate that is there, finished or not, are taken from it if they passed and their witnesses are the same.
    """
    waiting = [(*cell, _path(request.out, cell)) for cell in request.cells]
    size = min(num_cores(), len(waiting))
    if size <= 1:
        yield from ((_certified(request, *cell), cell[2]) for cell in waiting)
        return
    with ProcessPoolExecutor(size, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_certified, request, *cell): cell for cell in waiting}
        try:
            for future in as_completed(running):
                model, method, path = running[future]
                try:
                    yield future.result(), path
                except BrokenProcessPool:  # it takes the other cells with it: each is named
                    error = f"{model} {method}: a process was killed, perhaps for its memory; the same command goes on"
                    yield Broken(error), path
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _readable(path: Path) -> Certificate | None:
    """The certificate on disk; None where there is none that can be read."""
    if not exists(path):
        return None
    try:
        return read_certificate(path)
    except ZooError as error:
        tell(f"{error}; it is made again")
        return None


def _before(path: Path, budget: str, seed: int) -> Certificate | None:
    """The stored checks for a budget and a seed: those of an unfinished certificate, then others of a finished one.

    The control of a check comes from the same certificate: a finished one may be of a check that was another.
    """
    files = (path.with_suffix(UNFINISHED), path)
    stored = [one for file in files if (one := _readable(file)) is not None and (one.budget, one.seed) == (budget, seed)]
    if len(stored) < 2:
        return stored[0] if stored else None
    made = {name for check in stored[0].checks for name in (check.name, control_of(check.name))}
    return stored[1]._replace(checks=(*stored[0].checks, *(check for check in stored[1].checks if check.name not in made)))


def _certified(request: Request, model: str, method: str, path: Path) -> Certificate | Broken:
    """A new certificate, on disk. An error ends one cell, not the others."""
    unfinished = path.with_suffix(UNFINISHED)
    before = None if request.again else _before(path, request.budget, request.seed)

    def keep(certificate: Certificate) -> None:
        write_unfinished(certificate, unfinished)

    try:
        certificate = certify(method, model, request.budget, request.seed, tell, before, keep)
        if certificate == before:
            tell(f"{model} {method}: as certified before; again=true certifies it again")
        write_certificate(certificate, path)
        if request.writes_pages:
            write_pages(certificate, path)
        remove(unfinished)
    except Exception as error:  # of any kind: it is printed whole, named at the end, and makes the command fail
        tell(traceback.format_exc())
        return Broken(f"{model} {method}: an error ended the checks: {type(error).__name__}: {error}")
    finally:
        jax.clear_caches()  # a worker certifies many cells, and would keep the programs of all in memory
    return certificate
