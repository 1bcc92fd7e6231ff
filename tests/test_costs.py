"""The budget of the default tier: it binds the whole tier in CI, and nothing else."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import costs
import pytest

ROOT = Path(__file__).parents[1]
TESTPATHS = pytest.Config.ArgsSource.TESTPATHS


def session(programs, *, budget=10, expression="not slow", keyword="", source=TESTPATHS):
    """What pytest tells the plugin after one test that compiled so many programs."""
    report = SimpleNamespace(when="call", nodeid="one", duration=0.1, user_properties=[(costs.COMPILED, programs)])
    reporter = SimpleNamespace(stats={"passed": [report], "deselected": [object()]})
    return SimpleNamespace(
        option=SimpleNamespace(markexpr=expression, keyword=keyword),
        args_source=source,
        getini={"compiled_programs": str(budget)}.get,
        pluginmanager=SimpleNamespace(get_plugin=lambda _: reporter),
    )


@pytest.mark.parametrize(("programs", "over"), [(10, False), (11, True)])
def test_the_default_tier_has_a_budget_in_ci(programs, over, monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert bool(costs.over_budget(session(programs))) == over


@pytest.mark.parametrize("part", [{"expression": "slow"}, {"keyword": "gmm"}, {"source": pytest.Config.ArgsSource.ARGS}])
def test_a_part_of_the_suite_has_none(part, monkeypatch):
    monkeypatch.setenv("CI", "true")
    assert not costs.over_budget(session(11, **part))


def test_outside_ci_nothing_fails(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert not costs.over_budget(session(11))


def test_the_default_run_has_every_test_but_those_of_labs():
    """A folder that nobody names would never be run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = [path for pattern in project["tool"]["pytest"]["ini_options"]["testpaths"] for path in ROOT.glob(pattern)]
    run = {file for path in named for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    labs = set((ROOT / "tests" / "labs").rglob("test_*.py"))
    assert labs
    assert run == set((ROOT / "tests").rglob("test_*.py")) - labs


def test_programs_are_counted_once(jax_program):
    """A program that is in the cache costs nothing more."""
    before = costs.compiled
    jax_program(3.0)
    first = costs.compiled - before
    jax_program.clear_cache()
    jax_program(3.0)
    assert (first, costs.compiled - before) == (1, 1)


@pytest.fixture
def jax_program():
    """A program that no other test has compiled."""
    import uuid

    import jax

    number = float(uuid.uuid4().int % 2**40)
    return jax.jit(lambda x: x * number)
