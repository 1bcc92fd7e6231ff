"""Functions that call wrong ones: they lose their points, and are told which function to mend first."""

from pathlib import Path

import pytest

from labs import grading
from labs.grading import grade_of
from labs.labs import lab_of
from labs.stub import called_by, key_of, solution_text, unwritten
from labs.student.worker import loaded
from labs.submission import copy_of

LAB = lab_of("forward_backward")
RIGHT = solution_text(LAB)
FORGETS = {" + largest.squeeze(axis)": ""}  # log_sum does not add the largest again
MEND = ("right with a finished `log_sum`; mend `log_sum` first",)
FIRST_EMISSION = {"alpha = [np.log(start) + log_emit[:, x[0]]]": "alpha = [np.log(start)]"}
CALLS_TOTAL = {"total = log_sum(alpha[-1] + beta[-1], 0)": "total = log_likelihood(alpha, np.exp(beta[-1]))"}


def messages(folder, slips):
    text = RIGHT
    for right, wrong in slips.items():
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    path = folder / "forward_backward.py"
    path.write_text(text, encoding="utf-8")
    grade = grade_of(LAB, path)
    return {result.part: result.messages for result in grade.results}, {result.part: result.points for result in grade.results}


@pytest.fixture
def in_this_process(monkeypatch):
    """Answers from this process, which starts faster than one for each part."""

    def collected(lab, work, part, seed, seconds):
        module = loaded(Path(work.name), work.text())
        lent = [name for name in unwritten(work.text(), lab.functions) if name not in lab.part(part).functions]
        vars(module).update({name: vars(key_of(lab))[name] for name in lent})
        return lab.part(part).collect(module, seed)

    monkeypatch.setattr(grading, "collected", collected)


@pytest.mark.usefixtures("in_this_process")
def test_what_is_right_with_a_finished_helper_is_told_to_mend_the_helper(tmp_path):
    said, points = messages(tmp_path, FORGETS)
    assert said.pop("log_sum") == ("`log_sum` forgets to add the largest value again",)
    assert said == dict.fromkeys(["forward", "backward", "log_likelihood", "state_probs", "transition_counts"], MEND)
    assert not any(points.values())


@pytest.mark.usefixtures("in_this_process")
def test_a_slip_beside_a_wrong_helper_is_named(tmp_path):
    said, _ = messages(tmp_path, FORGETS | FIRST_EMISSION)
    assert said["forward"] == ("with a finished `log_sum`: `forward` leaves out the emission of the first symbol",)
    assert said["backward"] == MEND


@pytest.mark.usefixtures("in_this_process")
def test_only_the_function_that_is_to_blame_is_named(tmp_path):
    """`transition_counts` calls `log_likelihood`, which is wrong only because `log_sum` is."""
    assert messages(tmp_path, FORGETS | CALLS_TOTAL)[0]["transition_counts"] == MEND


@pytest.mark.usefixtures("in_this_process")
def test_two_wrong_helpers_are_both_named(tmp_path):
    slips = FORGETS | CALLS_TOTAL | {"log_sum(alpha[-1] + np.log(stop), 0)": "log_sum(alpha[-1], 0)"}
    both = "right with finished `log_sum` and `log_likelihood`; mend `log_sum` and `log_likelihood` first"
    assert messages(tmp_path, slips)[0]["transition_counts"] == (both,)


@pytest.mark.usefixtures("in_this_process")
def test_right_helpers_and_unwritten_ones_are_not_blamed(tmp_path):
    said, _ = messages(tmp_path, FIRST_EMISSION)
    assert said.pop("forward") == ("`forward` leaves out the emission of the first symbol",)
    assert not any(said.values())


@pytest.mark.usefixtures("in_this_process")
def test_what_is_not_written_is_not_to_be_mended(tmp_path):
    body = RIGHT.partition("    largest = ")[2].partition("\n\n\n")[0]
    said, _ = messages(tmp_path, FIRST_EMISSION | {f"    largest = {body}": "    raise NotImplementedError"})
    assert said["log_sum"] == ("is not written yet",)
    assert said["forward"] == ("`forward` leaves out the emission of the first symbol",)


@pytest.mark.slow  # a grade in processes of its own
def test_processes_say_the_same(tmp_path):
    said, points = messages(tmp_path, FORGETS)
    assert said["state_probs"] == MEND
    assert points["state_probs"] == 0


def test_a_copy_without_a_function_has_it_as_the_stub(tmp_path):
    path = tmp_path / "forward_backward.py"
    path.write_text(f"log_sum = max\n{RIGHT.rstrip()}", encoding="utf-8")
    (tmp_path / "tools.py").write_text("x = 1\n")
    work = copy_of(path)
    with work.without(["log_sum"]).laid_out() as other:
        assert unwritten(other.read_text(encoding="utf-8"), LAB.functions) == ["log_sum"]
        assert (other.parent / "tools.py").is_file()
    assert work.text() == path.read_text(encoding="utf-8")


def test_names_that_a_function_uses_are_found_through_other_functions():
    assert {"forward", "log_sum"} & called_by(RIGHT, "forward") == {"log_sum"}
    chain = "def f(x):\n    return g(x)\n\nclass g:\n    def of(x):\n        return h(x)\n\nh = max\n"
    assert called_by(chain, "f") >= {"g", "h", "max"}
    assert not called_by(chain, "other")
    assert called_by("def f(x):\n    return f(x - 1)\n", "f") == {"x"}
