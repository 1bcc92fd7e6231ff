"""The rooms: imports go down only, nothing goes round in a circle, and a room can be taken in at a glance."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_FILES, MOST_LINES = 12, 350
# From the lowest to the highest: a room imports those before it, and itself.
ROOMS = [
    "models.errors",
    "models.cells",
    "models.versions",
    "models.data",
    "models.datasets",
    "models.reading.lines",
    "models.reading",
    "models.inspection",
    "models.host",
    "models.symmetries",
    "models.types",
    "models.abilities",
    "models.base",
    "models.algebra",
    "models.rows",
    "models.families",
    "models.latents",
    "models.distributions",
    "models.emissions",
    "models.emissions.gaussians",
    "models.emissions.named",
    "models.topics.sampling",
    "models.topics",
    "models.logistic",
    "models.factors",
    "models.chains.compiled",
    "models.chains",
    "models.dynamics",
    "models.mixtures",
    "models",
    "inference.runtime.kept",
    "inference.runtime.formats",
    "inference.runtime",
    "inference.programs",
    "inference.convergence",
    "inference.engine",
    "inference.row_sums",
    "inference.fixed_points",
    "inference.streaming.source",
    "inference.streaming",
    "inference.minibatches",
    "inference.identification",
    "inference.methods",
    "inference.unconstrained",
    "inference.results",
    "inference.diagnostics",
    "inference.fitting",
    "inference.evidence",
    "inference.predictions",
    "inference.sequences",
    "inference.topics",
    "inference.criticism",
    "inference.estimators",
    "inference.comparison",
    "inference.markup",
    "inference.plots",
    "inference.report",
    "inference.certificates.oracles",
    "inference.certificates.oracles.dispersed",
    "inference.certificates.checks",
    "inference.certificates.laws",
    "inference.certificates.witnesses",
    "inference.certificates",
    "inference.samplers.programs",
    "inference.samplers",
    "labs.student",
    "labs.solutions",
    "labs.parts",
    "labs.labs",
    "labs",
    "inference.cli.runs",
    "inference.cli",
    "inference",
]
# They list the zoo, the methods and the labs
GROWING = {"models", "inference/methods", "labs/labs", "labs/solutions"}
FORWARDS = "inference.lab"  # which runs `labs`


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_of(path): path for part in ("models", "inference", "labs") for path in sorted((ROOT / part).rglob("*.py"))}


def room_of(module):
    """A ``__main__`` is what `python -m <its room>` runs: a command, which stands on the top floor, as `inference.run`."""
    if module.endswith(".__main__"):
        return ROOMS[-1]
    return max((room for room in ROOMS if module == room or module.startswith(f"{room}.")), key=len)


def imports_of(source, known):
    """The modules among ``known`` that a text of Python imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "imports are absolute"
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in named}
    return found & set(known)


IMPORTS = {module: imports_of(path.read_text(encoding="utf-8"), FILES) - {module} for module, path in FILES.items()}


def upward(imports):
    """Imports of a room that stands higher."""
    place = {room: number for number, room in enumerate(ROOMS)}
    return [
        f"{module} -> {other}"
        for module, others in imports.items()
        for other in sorted(others)
        if place[room_of(other)] > place[room_of(module)]
    ]


def test_imports_go_down():
    assert not upward(IMPORTS)


def test_an_upward_import_is_seen():
    assert upward(IMPORTS | {"models.data.table": {"models.base"}}) == ["models.data.table -> models.base"]
    assert imports_of("def f():\n    from inference.cli import main", FILES) == {"inference.cli.main"}


def test_imports_have_no_circle():
    tuple(TopologicalSorter(IMPORTS).static_order())
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(IMPORTS | {"models.data.table": {"models.data.columns"}}).static_order())


def test_models_do_not_know_of_inference():
    assert not [module for module, others in IMPORTS.items() for other in others if module[:6] == "models" != other[:6]]


def importers_of_labs(imports):
    """Modules outside of the labs that import one of theirs, but for the one that forwards to their command."""
    known = {module for module in imports if module.partition(".")[0] == "labs"}
    return [module for module, others in imports.items() if module not in known | {FORWARDS} and others & known]


def test_nothing_but_the_former_command_imports_labs():
    assert not importers_of_labs(IMPORTS)
    assert importers_of_labs(IMPORTS | {"inference.report.page": {"labs.trace"}}) == ["inference.report.page"]


def test_model_files_do_not_import_one_another():
    zoo = {module for module in FILES if room_of(module) == "models"} - {"models", "models.zoo"}
    assert not [(module, other) for module in zoo for other in IMPORTS[module] & zoo]


def loaded_by(module):
    """The modules that ``module``, and they, import at the top of their files, without what the packages on the way import."""
    loaded, waiting = set(), [module]
    while waiting:
        others = imports_at_top(FILES[waiting.pop()]) - loaded
        loaded |= others
        waiting += others
    return loaded


def imports_at_top(path):
    """The modules that a file imports when it is loaded: not in functions, and not for types alone."""
    top = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return imports_of(ast.unparse(ast.Module(top, [])), FILES)


def test_the_loop_body_stands_alone():
    """The sweep depends on the algebra and on nothing that runs, reads or reports; a sampler on little more."""
    sweep, gibbs = loaded_by("inference.engine.sweep"), loaded_by("inference.methods.gibbs")
    assert not {module for module in sweep if module.startswith(("inference.", "models.reading"))}
    assert len(sweep) <= 15
    assert len(gibbs) <= 32


def test_every_room_says_what_lives_there():
    for module, path in FILES.items():
        if path.name == "__init__.py":
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            assert said, module
            assert len(said.splitlines()) <= 8, module
            assert module in ROOMS, module


def test_rooms_and_files_stay_small():
    rooms = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES.values() if path.name != "__init__.py")
    assert not {room: number for room, number in rooms.items() if number > MOST_FILES and room not in GROWING}
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in FILES.items()}
    assert not {module: number for module, number in lines.items() if number > MOST_LINES}


def test_test_files_have_different_names():
    """pytest imports them as modules of one level: of two with one name it refuses the second."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not {name for name, number in names.items() if number > 1}


def test_test_files_do_not_import_one_another():
    tests = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    assert not [name for name, path in tests.items() if imports_of(path.read_text(encoding="utf-8"), tests) - {name}]
