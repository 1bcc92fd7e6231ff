"""Wrong solutions as students write them: the key with a slip in its text, and the messages that it must get."""

import ast
import doctest
from types import SimpleNamespace

import pytest

from labs.labs import LABS, lab_of
from labs.parts.values import Values
from labs.stub import solution_text

WORDS = "(ones + a - 1) / (n[:, None] + a + b - 2)"
LOG_JOINT = "np.log(class_probs) + x @ np.log(feature_probs).T + (1 - x) @ np.log(1 - feature_probs).T"
AS_PRODUCT = "np.log(class_probs * np.where(x[:, None, :] == 1, feature_probs, 1 - feature_probs).prod(2))"
EXCHANGED = "np.log(class_probs) + (1 - x) @ np.log(feature_probs).T + x @ np.log(1 - feature_probs).T"
AWAY = "np.where(there[:, None, :], (filled[:, None, :] - means) ** 2, 0.0)"
OF_ROW, OF_ALL = "log_p.max(1, keepdims=True)", "log_p.max()"
STEP = "log_sum(log_step + log_emit[:, symbol] + beta[-1], 1)"
COUNTED = "range(len(x) - 1)"
WRONG = {  # (lab, function) -> [(what the key has, what the student writes, how each message begins)]
    ("map_naive_bayes", "estimate"): [
        (WORDS, "(ones + a - 1) / (n[:, None] + a + b - 1)", "feature_probs of `estimate` are divided by n + a + b − 1"),
        (WORDS, "(ones + a - 1) / n[:, None]", "feature_probs of `estimate` are divided by n alone"),
        (WORDS, "(ones + a - 1) / (n.sum() + a + b - 2)", "feature_probs of `estimate` count the mails of all classes"),
        (
            WORDS,
            "(ones + a - 1) / (ones.sum(1, keepdims=True) + a + b - 2)",
            "feature_probs of `estimate` are divided by a number of words",
        ),
        (WORDS, "(ones + a - 1) / (n[:, None] + 2 * a - 2)", "feature_probs of `estimate` are divided by n + 2a − 2"),
        (WORDS, "(ones + 1) / (n[:, None] + 2)", "feature_probs of `estimate` are Laplace's rule"),
    ],
    ("map_naive_bayes", "log_joint"): [
        (LOG_JOINT, AS_PRODUCT, "`log_joint` is −infinity for long mails"),
        ("np.log(class_probs) + x", "class_probs + x", "`log_joint` adds class_probs; add their logarithms"),
        (LOG_JOINT, EXCHANGED, "`log_joint` exchanges p and 1 − p"),
        (
            f"return {LOG_JOINT}",
            f"found = {LOG_JOINT}; return found - np.logaddexp.reduce(found, 1, keepdims=True)",
            "`log_joint` makes the probabilities of every row sum to 1",
        ),
    ],
    ("map_naive_bayes", "posterior"): [
        (OF_ROW, OF_ALL, "`posterior` is 0 / 0 where a row is far below others"),
        ("scaled.sum(1, keepdims=True)", "scaled.sum(0)", "`posterior` divides every column by its sum"),
    ],
    ("em_gmm", "responsibilities"): [
        (OF_ROW, OF_ALL, "`responsibilities` is 0 / 0 in rows far below others"),
    ],
    ("gibbs_gmm", "assignment_probs"): [
        (OF_ROW, OF_ALL, "`assignment_probs` is 0 / 0 in rows far below others"),
    ],
    ("metropolis_to_nuts", "is_turning"): [("right - left", "right + left", "`is_turning` adds left and right")],
    ("em_missing", "log_joint"): [
        ("np.log(2 * np.pi * variances) + (x", "(x", "`log_joint` leaves out −½ log(2π variance) of the cells that are there"),
        ("** 2 / variances", "** 2 / variances**2", "`log_joint` squares the variances below the squares"),
        ("np.pi * variances)", "np.pi * variances**2)", "`log_joint` squares the variances inside the logarithm"),
    ],
    ("em_missing", "m_step"): [
        (
            "(counts + 2 * a - 2)",
            "(counts + 2 * a - 1)",
            "the variances of `m_step` are divided by N_kd + 2a − 1: it is N_kd + 2a − 2",
        ),
        ("(counts + 2 * a - 2)", "(counts + 2 * a)", "the variances of `m_step` are divided by N_kd + 2a: it is N_kd + 2a − 2"),
        (
            "(counts + 2 * a - 2)",
            "(counts + 2 * a + 2)",
            "the variances of `m_step` are divided by N_kd + 2a + 2: it is N_kd + 2a − 2",
        ),
        (
            "(counts + 2 * a - 2)",
            "(counts + a - 1)",
            "the variances of `m_step` are divided by N_kd + a − 1: it is N_kd + 2a − 2",
        ),
        ("(counts + 2 * a - 2)", "counts", "the variances of `m_step` are divided by N_kd alone: it is N_kd + 2a − 2"),
        (
            "counts = r.T @ there",
            "counts = np.tile(r.sum(0)[:, None], (1, x.shape[1]))",
            "the means of `m_step` divide by one N_k",
            "the variances of `m_step` divide by one N_k for all columns, as the means",
        ),
        (AWAY, "(filled[:, None, :] - means) ** 2", "the squares of `m_step` have zeros in the holes"),
        (
            "there = ~np.isnan(x)\n",
            "x = np.where(np.isnan(x), np.nanmean(x, 0), x)\n    there = ~np.isnan(x)\n",
            "the means of `m_step` have column means in the holes",
            "the variances of `m_step` have column means in the holes",
        ),
    ],
    ("forward_backward", "log_sum"): [
        ("values.max(axis, keep", "values.max(keep", "`log_sum` is −infinity for values far below"),
        (" + largest.squeeze(axis)", "", "`log_sum` forgets to add the largest value again"),
        ("np.log(np.exp(", "(np.exp(", "`log_sum` adds the largest value to the sum"),
    ],
    ("forward_backward", "forward"): [
        (
            "log_sum(alpha[-1][:, None] + log_step, 0)",
            "(alpha[-1][:, None] + log_step).max(0)",
            "`forward` takes the best state before, as Viterbi's algorithm does",
        ),
    ],
    ("forward_backward", "backward"): [
        (STEP, "log_sum(log_step + log_emit[:, symbol] + beta[-1], 0)", "`backward` sums over the old state i"),
        (
            STEP,
            "log_sum(log_step + (log_emit[:, symbol] + beta[-1])[:, None], 1)",
            "`backward` takes the emission and β_{t+1} of the old state i",
        ),
        (STEP, "log_sum(log_step + beta[-1], 1)", "`backward` leaves out the emission of x_{t+1}"),
        (STEP, "log_sum(log_step + log_emit[:, symbol] + beta[-1], 1) + np.log(stop)", "`backward` stops at every step"),
    ],
    ("forward_backward", "transition_counts"): [
        ("emit[:, x[t + 1]]", "emit[:, x[t]]", "`transition_counts` emits x_t;"),
        (COUNTED, "range(1, len(x) - 1)", "`transition_counts` leaves out the first step"),
        ("    return counts\n", "    return counts.T\n", "the counts are the transpose of what is asked for"),
    ],
}


def names_of(tree):
    names = {}
    exec(compile(tree, "solution", "exec"), names)
    return names


def result_of(lab, function, names, seed=0):
    part = lab_of(lab).part(function)
    return part.judge(part.collect(SimpleNamespace(**names), seed), seed)


def with_slip(lab, function, right, wrong):
    """The functions of the key, where one has a slip in its text."""
    head, mark, rest = solution_text(lab_of(lab)).partition(f"\ndef {function}(")
    body, end, tail = rest.partition("\n\n\ndef ")
    assert f"{body}\n".count(right) == 1
    return names_of(ast.parse(head + mark + f"{body}\n".replace(right, wrong) + end + tail))


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize(("lab", "function", "slip"), [(*which, slip) for which, slips in WRONG.items() for slip in slips])
def test_a_wrong_solution_is_told_its_slip(lab, function, slip, seed):
    right, wrong, *said = slip
    result = result_of(lab, function, with_slip(lab, function, right, wrong), seed)
    assert result.points < result.out_of
    assert [message[: len(text)] for message, text in zip(result.messages, said, strict=True)] == said


def test_a_probability_above_one_is_named():
    """Where no slip is known: the prior of absence is forgotten above and below."""
    names = with_slip("map_naive_bayes", "estimate", WORDS, "(ones + 2 * a) / n[:, None]")
    (message,) = result_of("map_naive_bayes", "estimate", names).messages
    assert message.startswith("feature_probs are wrong: entry [")
    assert message.endswith(" and no probability is above 1 (case: three classes)")


class Slip(ast.NodeTransformer):
    """The slip number ``place``: the largest of all for the largest along an axis, plus for minus, minus for plus."""

    def __init__(self, place):
        self.place, self.seen = place, 0

    def _is_here(self):
        self.seen += 1
        return self.seen - 1 == self.place

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "max" and node.args and self._is_here():
            node.args = []
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub) and self._is_here():
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return node


def slips_of(lab, function):
    """The functions of the key with one slip in one of them: what runs, and whether the examples of its docstring still do."""
    place = 0
    while True:
        tree = ast.parse(solution_text(lab_of(lab)))
        node = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function)
        slip = Slip(place)
        slip.visit(node)
        if slip.seen <= place:
            return
        yield names_of(ast.fix_missing_locations(tree)), ast.unparse(node)
        place += 1


def examples_run(names, function):
    test = doctest.DocTestParser().get_doctest(names[function].__doc__, dict(names), function, None, None)
    return not doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed


OF_ONE = [(lab, part.name) for lab in LABS for part in lab_of(lab).parts if isinstance(part, Values)]


@pytest.mark.parametrize(("lab", "function"), OF_ONE)
def test_what_fails_the_example_of_its_docstring_never_wins_all_points(lab, function):
    for names, text in slips_of(lab, function):
        if not examples_run(names, function):
            assert not result_of(lab, function, names).is_full, text
