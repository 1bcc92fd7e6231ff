"""The faults, as data: one file for each area."""

from importlib import import_module

from ..fault import Fault, settled
from ..tree import ROOT

NAMES = ("families", "emissions", "chains", "models", "methods", "results", "topics", "loops", "certificates")
AREAS: dict[str, tuple[Fault, ...]] = {
    name: tuple(settled(fault, ROOT) for fault in import_module(f"{__name__}.{name}").FAULTS) for name in NAMES
}
FAULTS: tuple[Fault, ...] = tuple(fault for faults in AREAS.values() for fault in faults)
