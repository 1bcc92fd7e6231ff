"""The fault farm (`python -m tests.faults`): its catalogue is not rotten, it looks where it should, and catches ten faults."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from faults.catalogue import AREAS, FAULTS
from faults.checks import steps_of
from faults.fault import Fault, place_of, planted, reach_of
from faults.nearest import in_order
from faults.record import Recorded
from faults.table import Outcome, last_outcomes, lines_of, read_outcomes, unexplained, write_outcomes
from faults.tree import ROOT, copied, environment, with_fault, without_fault
from faults.trial import SECONDS, failed_check, first_failure, tried
from faults.warm import run_module

from inference.certificates.cell import WAYS, cells

SOURCE = '''"""A file."""
LIMIT = 3


def bounded(x):
    """At most the limit."""
    low = 0
    return max(
        low,
        min(x, LIMIT),
    )
'''


def fault(line, faulty, file="models/example.py", **more):
    return Fault("a-name", file, line, faulty, "what is wrong", "sign", **more)


def test_there_are_more_than_a_hundred_faults_with_names_of_their_own():
    assert len(FAULTS) >= 100
    assert not {name for name, number in Counter(each.name for each in FAULTS).items() if number > 1}
    assert set(AREAS) >= {"families", "emissions", "chains", "models", "methods", "results", "topics"}


def test_every_line_of_the_catalogue_is_where_it_says():
    """A line that has moved or changed must move in the catalogue too."""
    rotten = []
    for each in FAULTS:
        try:
            planted(each, (ROOT / each.file).read_text(encoding="utf-8"))
        except (ValueError, SyntaxError, FileNotFoundError) as error:
            rotten.append(f"{each.name}: {error}")
    assert not rotten


def test_a_line_is_planted_as_it_is_indented():
    assert "    low = 1\n" in planted(fault("low = 0", "low = 1"), SOURCE)


@pytest.mark.parametrize("line", ["low = 2", "low,"])
def test_a_line_must_be_there_once(line):
    with pytest.raises(ValueError, match="times, not once"):
        place_of(fault(line, "x"), SOURCE + "\nlow,\n")


def test_a_line_must_change_and_stay_python():
    with pytest.raises(ValueError, match="as it was"):
        planted(fault("low = 0", "low =  0"), SOURCE)
    with pytest.raises(SyntaxError):
        planted(fault("low = 0", "low = ("), SOURCE)


def test_reach_is_the_line_then_its_statement_function_and_file():
    places = [sorted(lines) for _, lines in reach_of(fault("min(x, LIMIT),", "x,"), SOURCE).places]
    assert places[:3] == [[10], [8, 9, 10, 11], [6, 7, 8, 9, 10, 11]]
    assert places[3] == list(range(1, 12))


def test_a_constant_reaches_the_lines_that_mention_it():
    """Its own line runs at every import, which says nothing."""
    assert reach_of(fault("LIMIT = 3", "LIMIT = 4"), SOURCE).places[0] == ("models/example.py", frozenset({10}))


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
    chosen = in_order(fault("min(x, LIMIT),", "x,"), SOURCE, record, seconds=100)
    names = [test.removeprefix("tests/") for test in chosen]
    assert names == [
        "models/test_example.py::test_runs_it",
        "inference/test_far.py::test_runs_it",
        "models/test_example.py::test_beside",
        "models/test_other.py::test_runs_the_function",
    ]
    assert len(in_order(fault("min(x, LIMIT),", "x,"), SOURCE, record, seconds=2, fewest=1)) == 2


def test_outcomes_are_kept_and_survivors_named(tmp_path):
    outcomes = [
        Outcome("one", "default", "a test", 1.0, 3),
        Outcome("two", "", "", 2.0, 3),
        Outcome("three", "", "", 1.0, 3, "same"),
    ]
    write_outcomes(tmp_path / "out.json", outcomes)
    assert read_outcomes(tmp_path / "out.json") == outcomes
    assert unexplained(outcomes) == ["two"]
    said = "\n".join(lines_of(outcomes, [Fault(each.name, "", "", "", "", "sign") for each in outcomes]))
    assert "1 of 3 faults are caught" in said
    assert "three: same" in said


def test_a_survivor_meets_the_tiers_that_it_has_not_met():
    survivor = Outcome("one", "", "", 1.0, 3, met=("default",))
    assert survivor.is_final(["default"])
    assert not survivor.is_final(["default", "slow"])
    assert Outcome("one", "default", "a test", 1.0, 3).is_final(["slow"])


def test_a_fault_is_taken_out_for_a_while(tmp_path):
    """What fails without the fault, too, does not catch it."""
    planned = FAULTS[0]
    (tmp_path / planned.file).parent.mkdir(parents=True)
    (tmp_path / planned.file).write_text((ROOT / planned.file).read_text("utf-8"), "utf-8")
    with with_fault(tmp_path, planned):
        assert planned.faulty in (tmp_path / planned.file).read_text("utf-8")
        with without_fault(tmp_path, planned):
            assert (tmp_path / planned.file).read_text("utf-8") == (ROOT / planned.file).read_text("utf-8")
        assert planned.faulty in (tmp_path / planned.file).read_text("utf-8")


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
    "multinomial-coefficient": "models/test_naive_bayes.py::test_program_equals_algebra_equals_scipy[flat-multinomial]",
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
    loud = replace(planned, faulty='raise RuntimeError("planted")')
    test = f"tests/{SAMPLE[planned.name]}"
    with with_fault(tree, loud):
        assert first_failure([test], "not slow", 300, tree, environment(tree, tmp_path)) == test
    assert not first_failure([test], "not slow", 300, tree, environment(tree, tmp_path))


def test_the_farm_asks_every_cell_its_checks_without_controls():
    for model, method in cells():
        names = [step.name for step in steps_of(model, method)]
        assert names[:2] == ["parity", "contracts"]
        assert names[2:] == [each.name for each in WAYS[method].questions if "quick" in each.sizes], (model, method)


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
    harmless = fault("import shlex", "import shlex  # nothing has changed", "models/errors.py")
    record = [Recorded("tests/models/test_always.py::test_it", 1.0, {harmless.file: -1})]
    try:
        found = tried(harmless, tree, tmp_path, record, ("slow",))
    finally:
        file.unlink()
    assert (found.tier, found.met) == ("", ("slow",))
