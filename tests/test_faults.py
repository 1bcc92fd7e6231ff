"""The fault farm (`python -m tests.faults`): its catalogue is not rotten, it looks where it should, and catches ten faults."""

import ast
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from faults.catalogue import AREAS, FAULTS
from faults.checks import steps_of
from faults.fault import Fault, match_of, planted, reach_of, settled
from faults.nearest import in_order
from faults.record import Recorded
from faults.table import Outcome, last_outcomes, lines_of, read_outcomes, unexplained, write_outcomes
from faults.tree import ROOT, copied, environment, with_fault, without_fault
from faults.trial import LATE, SECONDS, failed_check, first_failure, tried
from faults.warm import run_module

from inference.certificates.cell import PLANS, cells

SOURCE = '''"""A file."""
LIMIT = 3


def bounded(x):
    """At most the limit."""
    low = 0  # β
    return max(
        low,
        min(x, LIMIT),
    )


class Scale:
    unit: int = 2

    def of(self, x):
        return x * self.unit + round(
            x  # to a whole number
            * 2,
        )
'''


def fault(pattern, faulty, within="bounded", file="models/example.py", **more):
    return Fault("a-name", f"{file}::{within}", pattern, faulty, "what is wrong", "sign", **more)


def tree_of(source):
    return ast.dump(ast.parse(source))


@cache
def text_of(file):
    return (ROOT / file).read_text(encoding="utf-8")


def test_there_are_more_than_a_hundred_faults_with_names_of_their_own():
    assert len(FAULTS) >= 100
    assert not {name for name, number in Counter(each.name for each in FAULTS).items() if number > 1}
    assert set(AREAS) >= {"families", "emissions", "chains", "models", "methods", "results", "topics"}


def test_every_fault_has_one_place():
    """A fragment that has changed must change in the catalogue too."""
    rotten = []
    for each in FAULTS:
        try:
            planted(each, text_of(each.file))
        except (ValueError, SyntaxError, FileNotFoundError) as error:
            rotten.append(f"{each.name}: {error}")
    assert not rotten


def test_layout_and_comments_do_not_matter():
    """The plainest layout, without comments, has the same fragments."""
    plain = {file: ast.unparse(ast.parse(text_of(file))) for file in {each.file for each in FAULTS}}
    for each in FAULTS:
        assert ast.dump(match_of(each, plain[each.file]).node) == ast.dump(match_of(each, text_of(each.file)).node)


@pytest.mark.parametrize(
    ("planned", "before", "after"),
    [
        (fault("low = _1", "low = _1 + 1"), "low = 0  # β", "low = 0 + 1  # β"),
        (fault("min(_, LIMIT)", "LIMIT"), "min(x, LIMIT)", "(LIMIT)"),
        (fault("max(_1, _2)", "max(_2, _1)"), "low,\n        min(x, LIMIT),", "min(x, LIMIT), low"),
        (fault("3", "4", "LIMIT"), "LIMIT = 3", "LIMIT = (4)"),
        (fault("2", "1", "Scale.unit"), "int = 2", "int = (1)"),
        (fault("_1 * self.unit", "_1", "Scale.of"), "x * self.unit", "(x)"),
        (fault("self.unit", "self.unit + 1", "Scale.of"), "self.unit", "(self.unit + 1)"),
        (
            fault("round(_1 * 2)", "_1", "Scale.of"),
            "round(\n            x  # to a whole number\n            * 2,\n        )",
            "x",
        ),
    ],
)
def test_a_fragment_is_replaced_in_its_place(planned, before, after):
    changed = planted(planned, SOURCE)
    assert before in SOURCE
    assert tree_of(changed) == tree_of(SOURCE.replace(before, after))
    assert len(changed.splitlines()) == len(SOURCE.splitlines())


def test_an_argument_of_a_call_is_a_fragment():
    source = "def f(a):\n    first = 1\n    g(a, first=a)\n"
    assert "    g(a, first = 0)\n" in planted(fault("first = a", "first = 0", "f"), source)


@pytest.mark.parametrize(("pattern", "within"), [("low = 2", "bounded"), ("low", "bounded"), ("_1 + _1", "Scale.of")])
def test_a_fragment_must_be_there_once(pattern, within):
    """A placeholder with a number stands for one expression."""
    with pytest.raises(ValueError, match="times, not once"):
        match_of(fault(pattern, "x", within), SOURCE + "\nlow = 2\n")
    with pytest.raises(ValueError, match=r"has no Scale\.to"):
        match_of(fault(pattern, "x", "Scale.to"), SOURCE)


def test_a_fragment_must_change_and_stay_python():
    with pytest.raises(ValueError, match="as it was"):
        planted(fault("low = 0", "low =  (0)"), SOURCE)
    with pytest.raises(SyntaxError):
        planted(fault("low = 0", "low = ("), SOURCE)
    with pytest.raises(SyntaxError):
        planted(fault("min(x, LIMIT)", "raise ValueError"), SOURCE)
    with pytest.raises(ValueError, match="_2 is not in the pattern"):
        planted(fault("low = _1", "low = _2"), SOURCE)


def test_a_function_is_found_in_another_file_of_its_folder(tmp_path):
    room = tmp_path / "models"
    room.mkdir()
    planned = fault("low = 0", "low = 1")
    assert settled(planned, tmp_path) == planned
    (room / "example.py").write_text("def other(): pass\n", "utf-8")
    (room / "moved.py").write_text(SOURCE, "utf-8")
    moved = settled(planned, tmp_path)
    assert moved.place == "models/moved.py::bounded"
    assert "low = 1" in planted(moved, SOURCE)
    for name in ("again.py", "example.py"):  # in two others, and then in its own file
        (room / name).write_text(SOURCE, "utf-8")
        assert settled(planned, tmp_path) == planned


def test_reach_is_the_fragment_then_its_statement_function_and_file():
    places = [sorted(lines) for _, lines in reach_of(fault("min(x, LIMIT)", "x"), SOURCE).places]
    assert places[:3] == [[10], [8, 9, 10, 11], [6, 7, 8, 9, 10, 11]]
    assert places[3] == list(range(1, len(SOURCE.splitlines()) + 1))
    assert reach_of(fault("_ * 2", "x", "Scale.of"), SOURCE).places[0] == ("models/example.py", frozenset({19, 20}))


def test_a_constant_reaches_the_lines_that_mention_it():
    """Its own line runs at every import, which says nothing."""
    assert reach_of(fault("3", "4", "LIMIT"), SOURCE).places[0] == ("models/example.py", frozenset({10}))


def test_tests_that_run_the_line_come_first_and_near_ones_before_others():
    def recorded(test, *lines, seconds=1.0):
        return Recorded(test, seconds, {"models/example.py": sum(1 << line for line in lines)})

    record = [
        recorded("tests/inference/test_far.py::test_runs_it", 10),
        recorded("tests/models/test_example.py::test_runs_it", 10),
        recorded("tests/models/test_example.py::test_beside"),
        recorded("tests/models/test_other.py::test_runs_the_function", 7),
        recorded("tests/models/test_none.py::test_something_else"),
    ]
    chosen = in_order(fault("min(x, LIMIT)", "x"), SOURCE, record, seconds=100)
    names = [test.removeprefix("tests/") for test in chosen]
    assert names == [
        "models/test_example.py::test_runs_it",
        "inference/test_far.py::test_runs_it",
        "models/test_example.py::test_beside",
        "models/test_other.py::test_runs_the_function",
    ]
    assert len(in_order(fault("min(x, LIMIT)", "x"), SOURCE, record, seconds=2, fewest=1)) == 2


def test_outcomes_are_kept_and_survivors_named(tmp_path):
    outcomes = [
        Outcome("one", "default", "a test", 1.0, 3),
        Outcome("two", "", "", 2.0, 3),
        Outcome("three", "", "", 1.0, 3, "same"),
    ]
    write_outcomes(tmp_path / "out.json", outcomes)
    assert read_outcomes(tmp_path / "out.json") == outcomes
    assert unexplained(outcomes) == ["two"]
    said = "\n".join(lines_of(outcomes, [replace(FAULTS[0], name=each.name) for each in outcomes]))
    assert "1 of 3 faults are caught" in said
    assert "three: same" in said


def test_a_survivor_meets_the_tiers_that_it_has_not_met():
    survivor = Outcome("one", "", "", 1.0, 3, met=("default",))
    assert survivor.is_final(["default"])
    assert not survivor.is_final(["default", "slow"])
    assert Outcome("one", "default", "a test", 1.0, 3).is_final(["slow"])


def only_its_file(tree, planned):
    file = tree / planned.file
    file.parent.mkdir(parents=True)
    file.write_text(text_of(planned.file), "utf-8")
    return file


def test_a_fault_is_taken_out_for_a_while(tmp_path):
    """What fails without the fault, too, does not catch it."""
    planned = FAULTS[0]
    file = only_its_file(tmp_path, planned)
    with with_fault(tmp_path, planned):
        assert file.read_text("utf-8") == planted(planned, text_of(planned.file))
        with without_fault(tmp_path, planned):
            assert file.read_text("utf-8") == text_of(planned.file)
        assert file.read_text("utf-8") == planted(planned, text_of(planned.file))


@pytest.fixture
def answered(tmp_path, monkeypatch):
    """What a tier says of a fault where commands end in these ways, with the fault and without it."""
    planned = FAULTS[0]
    file = only_its_file(tmp_path, planned)
    (tmp_path / "tests").mkdir()
    module = planned.file.removesuffix(".py").replace("/", ".")
    (tmp_path / "tests/test_it.py").write_text(f"from {module} import x\n# mark.slow", "utf-8")
    record = [Recorded("tests/test_it.py::test_it", 1.0, {planned.file: -1})]

    def of(tier, with_it, without_it):
        monkeypatch.setattr(
            "faults.trial.run_module", lambda *_: without_it if file.read_text("utf-8") == text_of(planned.file) else with_it
        )
        return tried(planned, tmp_path, tmp_path, record, (tier,))

    return of


TIME_IS_UP, PASSES = (None, ""), (0, "")
FAILS = {"certificate": (3, "kernel law\n"), "slow": (1, "FAILED tests/test_it.py::test_it - no")}


@pytest.mark.parametrize("tier", ["default", "certificate", "slow"])
def test_what_is_not_done_in_time_with_the_fault_says_nothing(tier, answered, tmp_path):
    """It neither catches the fault nor passes: the next run tries this tier again."""
    found = answered(tier, TIME_IS_UP, PASSES)
    assert (found.caught, found.late, found.met, found.verdict) == (False, (tier,), (), LATE)
    assert not found.is_final((tier,))
    assert unexplained([found]) == [found.name]
    assert f"{found.name}: {tier} {LATE}" in "\n".join(lines_of([found], FAULTS))
    write_outcomes(tmp_path / "out.json", [found])
    assert read_outcomes(tmp_path / "out.json") == [found]


@pytest.mark.parametrize("tier", FAILS)
@pytest.mark.parametrize("late", [False, True])
def test_what_fails_catches_a_fault_if_it_passes_in_time_without_it(tier, late, answered):
    found = answered(tier, FAILS[tier], TIME_IS_UP if late else PASSES)
    assert (found.tier, found.late, found.met) == (("", (tier,), ()) if late else (tier, (), ()))


def test_a_certificate_must_not_fail_without_the_fault(answered):
    with pytest.raises(RuntimeError, match="fails without a fault"):
        answered("certificate", FAILS["certificate"], FAILS["certificate"])


def test_outcomes_of_other_faults_are_kept():
    first, second = FAULTS[0].name, FAULTS[1].name
    kept = [Outcome("gone", "default", "a test", 1.0, 3), Outcome(second, "", "", 1.0, 3), Outcome(first, "", "", 1.0, 3)]
    caught = Outcome(second, "slow", "a test", 1.0, 3)
    assert last_outcomes([*kept, caught]) == [kept[2], caught]


# ---------------------------------------------------------------------------------------------------------------------
# Ten faults, each beside a default test that catches it

SAMPLE = {
    "gamma-mode-of-shape": "models/families/test_families.py::test_mode_of_statistics_alone_is_maximum_likelihood[spherical]",
    "normal-mean-partition-sign": "models/families/test_families.py::test_mean_is_the_gradient_of_the_log_partition[unit]",
    "multinomial-coefficient": "models/test_naive_bayes.py::test_program_equals_algebra_equals_scipy[multinomial-default]",
    "predictive-dof": "models/test_naive_bayes_posterior.py::test_posterior_predictive_of_laplace_and_student",
    "underflow-unseen": "models/chains/test_chain.py::test_gradient_of_the_log_partition_is_the_expected_counts[1-False]",
    "hmm-permutes-states-alone": "inference/methods/test_hmm_fits.py::test_states_are_relabelled_together",
    "regression-shape": "models/factors/test_relevance.py::test_the_log_prior_is_the_programs[ppca]",
    "relabel-inverse": "inference/identification/test_relabel.py::test_permuted_draws_are_put_back[memberships]",
    "ess-limit-loose": "inference/diagnostics/test_false_alarms.py::test_the_required_effective_size_of_one_quantity",
    "halves-overlap": "inference/predictions/test_own_rows.py::test_halves_are_the_whole",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    return copied(tmp_path_factory.mktemp("tree"))


@pytest.mark.slow
def test_without_a_fault_the_tests_of_the_sample_pass(tree, tmp_path):
    """Otherwise what catches a fault would catch nothing."""
    assert not first_failure([f"tests/{test}" for test in SAMPLE.values()], "not slow", 300, tree, environment(tree, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_fault_is_caught_by_the_default_tier(name, tree, tmp_path):
    (planned,) = (each for each in FAULTS if each.name == name)
    everything = {planned.file: -1}  # all lines
    found = tried(planned, tree, tmp_path, [Recorded(f"tests/{SAMPLE[name]}", 1.0, everything)], ("default",))
    assert (found.tier, found.test) == ("default", f"tests/{SAMPLE[name]}")
    assert (tree / planned.file).read_text() == (ROOT / planned.file).read_text()


@pytest.mark.slow
def test_the_copy_is_what_is_tested(tree, tmp_path):
    """A fault that raises as soon as it is run must reach the test, whatever is installed."""
    (planned,) = (each for each in FAULTS if each.name == "gamma-mode-of-shape")
    loud = replace(planned, faulty="1 / 0")
    test = f"tests/{SAMPLE[planned.name]}"
    with with_fault(tree, loud):
        assert first_failure([test], "not slow", 300, tree, environment(tree, tmp_path)) == test
    assert not first_failure([test], "not slow", 300, tree, environment(tree, tmp_path))


def test_the_farm_asks_every_cell_its_checks_without_controls():
    for model, method in cells():
        names = [step.name for step in steps_of(model, method)]
        assert names[:2] == ["parity", "contracts"]
        assert names[2:] == [each.name for each in PLANS[method].checks if "quick" in each.sizes], (model, method)


@pytest.mark.slow
def test_the_certificate_rejects_a_fault_and_passes_without_it(tree, tmp_path):
    (planned,) = (each for each in FAULTS if each.name == "prior-of-gibbs-ignored")
    variables = environment(tree, tmp_path)
    code, _ = run_module(["tests.faults.checks", "gmm_simple", "gibbs"], SECONDS["certificate"], tree, variables)
    assert code == 0
    with with_fault(tree, planned):
        assert failed_check(("gmm_simple", "gibbs"), tree, variables) == "kernel law"


@pytest.mark.slow
def test_a_slow_test_that_fails_anyway_is_passed_over(tree, tmp_path):
    file = tree / "tests/models/test_always.py"
    file.write_text("import pytest\n\n@pytest.mark.slow\ndef test_it():\n    assert not 1\n", encoding="utf-8")
    harmless = fault("shlex.quote(_1)", "str(shlex.quote(_1))", "in_shell", "models/errors.py")  # nothing has changed
    record = [Recorded("tests/models/test_always.py::test_it", 1.0, {harmless.file: -1})]
    try:
        found = tried(harmless, tree, tmp_path, record, ("slow",))
    finally:
        file.unlink()
    assert (found.tier, found.met) == ("", ("slow",))
