"""Witnesses of published certificates against those of the present code, model by model on all cores."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax

from inference.certificates.cell import PLANS, PRECISION, bound_checks
from inference.certificates.certificate import certificate_or_none, read_certificate
from inference.certificates.witnesses.witness import Difference
from inference.engine.driver import num_cores
from inference.fitting.prepare import x64

Cell = tuple[str, str]  # model, method
SHOWN = 3  # numbers of a check that are named


class Changed(NamedTuple):
    """The checks of a cell whose numbers are not those of its certificate."""

    cell: Cell
    checks: dict[str, list[Difference]]  # name of a check -> where its numbers differ
    claim: str = ""  # the present claim of the method, where the certificate has another one
    error: str = ""  # the error that ended the comparison, in words

    @property
    def differs(self) -> bool:
        """Whether the certificate is of other numbers, or another claim."""
        return bool(self.checks or self.claim or self.error)

    @property
    def lines(self) -> list[str]:
        """A line for every check that differs: which numbers, and by how much."""
        name = " ".join(self.cell)
        lines_of = [f"{name}: {check}: {in_words(lines_of)}" for check, lines_of in self.checks.items()]
        lines_of += [f"{name}: the method now claims {self.claim!r}"] if self.claim else []
        return lines_of + ([f"{name}: {self.error}"] if self.error else [])


def in_words(differences: Sequence[Difference]) -> str:
    """Which numbers of a witness differ, and by how much.

    >>> in_words([Difference("the check", math.inf), Difference("cov", 1e-5)])
    'the check is new or gone; cov differs by 1e-05 of its size'
    """
    shown = [
        f"{each.name} differs by {each.relative:.1g} of its size"
        if math.isfinite(each.relative)
        else f"{each.name} is new or gone"
        for each in differences[:SHOWN]
    ]
    more = [f"{len(differences) - SHOWN} more"] if len(differences) > SHOWN else []
    return "; ".join(shown + more)


def changes_of_models(cells: Sequence[Cell], folder: Path) -> Iterator[Changed]:
    """Compare cells whose certificates are in ``folder``. A process takes all cells of a model, which share programs."""
    by_model: dict[str, list[Cell]] = {}
    for cell in cells:
        by_model.setdefault(cell[0], []).append(cell)
    longest_first = sorted(by_model.values(), key=lambda some: -_seconds(some, folder))
    with ProcessPoolExecutor(min(num_cores(), len(by_model)), mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_changes, cells, folder): cells for cells in longest_first}
        try:
            for future in as_completed(running):
                try:
                    yield from future.result()
                except BrokenProcessPool:  # it takes the other models with it: each is named
                    yield from (
                        Changed(cell, {}, error="a process was killed, perhaps for its memory") for cell in running[future]
                    )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _seconds(cells: Sequence[Cell], folder: Path) -> float:
    """How long the checks of cells took: their witnesses take longer, too."""
    certificates = (certificate_or_none(folder / f"{model}-{method}.json") for model, method in cells)
    return sum(check.seconds for one in certificates if one is not None for check in one.checks)


def _changes(cells: Sequence[Cell], folder: Path) -> list[Changed]:
    # Programs run for milliseconds: compiling them with fewer optimisations takes a third less
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        return [changed(cell, folder) for cell in cells]
    finally:
        jax.clear_caches()  # a process compares several models


def changed(cell: Cell, folder: Path) -> Changed:
    """Compare one cell. An error ends one cell, not the others."""
    model, method = cell
    try:
        certificate = read_certificate(folder / f"{model}-{method}.json")
        stored = {check.name: check for check in certificate.checks}
        with x64(PRECISION):
            bound = bound_checks(model, method, certificate.budget, certificate.seed)
            changes = {each.name: each.changes(stored.get(each.name)) for each in bound}
    except Exception as error:  # of any kind: it is named, and makes the command fail
        return Changed(cell, {}, error=f"{type(error).__name__}: {error}")
    checks = {name: differences for name, differences in changes.items() if differences}
    checks |= {name: [Difference("the check", math.inf)] for name in stored if name not in changes}
    claim = PLANS[method].method.claim
    return Changed(cell, checks, "" if claim == certificate.claim else claim)
