"""Sentences of pages, notebooks and docstrings: those that were false stay away, and those with figures follow from them."""

import json
import math
import re
import warnings
from pathlib import Path

import arviz as az
import numpy as np
import pytest

from inference.comparison.table import ELPD_DIFFERENCE, Score

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEVER = {  # a false sentence -> what finds it and its like
    "so that a quasi-Newton method finishes the work": r"finishes the work",  # one optimiser takes all steps
    "inference.stepwise does leave-one-out over its steps": r"leave-one-out over (its steps|time)",  # later steps see the step
    "longer than any run, which R-hat of the functionals shows": r"which R-hat of the functionals shows",  # docs/modes.md
    "divergences, R-hat and ESS of the functionals say when they are not": r"functionals say when they are not",
    "covariances that shrink together": r"covariances that shrink together",  # hard EM is k-means at any fixed variance
    "Pareto k-hat says how well the approximation fits": r"k-hat (of [^.]{0,80})?says (whether|how well)",
    "k-hat says whether it fits": r"k-hat says whether",
    "the same as the evidence, roughly, for many rows": r"the same as the evidence, roughly",  # not of singular models
    "Where methods disagree, believe the one whose diagnostics pass": r"believe the one whose diagnostics pass",
    "R-hat is above 1.01 or that there are less than 400": r"R-hat is above 1\.01 or",  # limits depend on the quantities
    "exact in the limit, without a step size to tune": r"exact in the limit",  # a guarantee has a name
    "prints the same beside log joint and R-hat": r"prints the same beside log joint",  # as az.compare
}


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell):
    return "".join(cell["source"])


def printed(path):
    """What the cells of a notebook print."""
    outputs = [output for cell in cells(path) for output in cell.get("outputs", [])]
    return "\n".join("".join(output.get("text", [])) for output in outputs)


def code(path):
    """A file of Python, its texts of several lines in one piece."""
    return re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))


def words(text):
    return " ".join(text.split())


def texts():
    for page in PAGES:
        yield page, page.read_text(encoding="utf-8")
    for notebook in NOTEBOOKS:
        yield notebook, "\n".join(source(cell) for cell in cells(notebook) if cell["cell_type"] == "markdown")
    for configured in sorted((ROOT / "inference" / "conf").rglob("*.yaml")):
        yield configured, configured.read_text(encoding="utf-8")
    for folder in ("inference", "models", "labs", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__):
                yield path, code(path)


def test_false_sentences_stay_away():
    found = re.compile("|".join(f"(?:{pattern})" for pattern in NEVER.values()))
    assert not [(path.relative_to(ROOT).as_posix(), hit[0]) for path, text in texts() if (hit := found.search(words(text)))]


def page(name):
    return words((ROOT / name).read_text(encoding="utf-8"))


def test_how_narrow_cavi_is_beside_its_k_hat():
    notebook = printed(ROOT / "notebooks" / "choosing_a_method.ipynb")
    found = re.search(r"standard deviation: truth ([\d.]+), cavi ([\d.]+); Pareto k-hat ([\d.]+)", notebook)
    assert found is not None
    truth, narrow, khat = map(float, found.groups())
    assert f"k-hat is {khat:.2f}, and the standard deviation is {100 * (1 - narrow / truth):.0f} % too small" in page(
        "docs/methods/cavi.md"
    )


def test_how_much_higher_the_best_of_thirty_starts_is():
    text = page("docs/course/04_mixtures.md")
    best = [float(re.search(rf"{number} starts: (-[\d.]+) ", text)[1]) for number in (10, 30)]
    assert f"thirty starts find one that is {best[1] - best[0]:.1f} nats higher" in text


def test_copies_of_a_mode_are_as_many_as_orders_of_its_components():
    text = "\n".join(source(cell) for cell in cells(ROOT / "notebooks" / "mixed_mixture.ipynb"))
    number, copies = map(int, re.search(r"every mode has \$(\d)! = (\d+)\$ copies", text).groups())
    assert copies == math.factorial(number)
    assert f"num_components={number}" in text


def test_sizes_beyond_the_error_of_the_evidence():
    text = page("docs/missing_cells.md")
    found = np.array(re.findall(r"num_components=\d (-[\d.]+) ([\d.]+)", text), dtype=float)
    apart = abs(np.diff(found[:, 0]))[0]
    assert apart > 4 * np.hypot(*found[:, 1])
    odds = re.findall(r"by three nats, a factor of (\d+)", text)
    assert float(odds[0]) == pytest.approx(np.exp(apart), rel=0.1)


def test_the_time_of_the_default_tier_is_the_same_everywhere():
    times = [
        re.findall(r"`uv run pytest`.*?\b\d+:\d\d minutes|\b\d+:\d\d minutes.*?`uv run pytest`", page(name))
        for name in ("CONTRIBUTING.md", "docs/project/tests.md")
    ]
    assert all(times)
    assert len({re.findall(r"\d+:\d\d", line)[0] for lines in times for line in lines}) == 1


def test_what_compare_lacks_of_the_comparison_of_arviz():
    text = (ROOT / "docs" / "how_to" / "arviz.md").read_text(encoding="utf-8")
    listed = {name for line in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)}
    rows = np.random.default_rng(0).normal(size=(4, 100, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = az.compare(
            {
                name: az.from_dict({"posterior": {"m": rows[:, :, 0]}, "log_likelihood": {"x": rows + by}})
                for name, by in (("a", 0), ("b", 0.1))
            }
        )
    ours = {*Score().figures(), *ELPD_DIFFERENCE}
    assert listed == set(theirs) - {"elpd", "se", "elpd_diff", "dse"}
    assert {"elpd", "se", "elpd diff", "elpd diff se"} <= ours
    assert not listed & ours
