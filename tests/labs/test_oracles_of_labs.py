"""The oracles that labs share: two computations of each agree, and no lab takes its oracle from another lab."""

import ast
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from labs.labs import LABS, lab_of, viterbi
from labs.parts import chains

LAB_FILES = Path(viterbi.__file__).parent
WORDS = 4
ORACLES = {
    "forward": (chains, "SHORT", lambda x, m: chains.forward(x, m["start"], m["step"], m["emit"])),
    "backward": (chains, "SHORT", lambda x, m: chains.backward(x, m["step"], m["stop"], m["emit"])),
    "best_scores": (viterbi, "LISTED", lambda x, m: viterbi.best_scores(x, m["start"], m["step"], m["emit"])),
    "best_path": (viterbi, "LISTED", lambda x, m: viterbi.best_path(x, *m.values())),
}


def sequence_of(length):
    rng = np.random.default_rng(length)
    return rng.integers(WORDS, size=length), chains.model(rng, 3, WORDS)


@pytest.mark.parametrize("length", [1, 2, 6])
@pytest.mark.parametrize("name", ORACLES)
def test_listing_all_paths_gives_what_the_recursion_of_long_sequences_gives(name, length, monkeypatch):
    """Two computations: one goes over all paths, the other from step to step."""
    where, limit, oracle = ORACLES[name]
    x, model = sequence_of(length)
    listed = oracle(x, model)
    monkeypatch.setattr(where, limit, 0)
    np.testing.assert_allclose(oracle(x, model), listed, rtol=1e-9)


@pytest.mark.parametrize("broken", ["_best_by_state", "_path_with"])
def test_the_scores_of_short_sequences_use_no_recursion(broken, monkeypatch):
    """A slip that key and oracle share would be right: short sequences need an oracle of another kind."""
    monkeypatch.setattr(viterbi, broken, None)
    x, model = sequence_of(5)
    scores, pointers = viterbi.best_scores(x, model["start"], model["step"], model["emit"])
    paths = list(product(range(3), repeat=5))
    whole = [viterbi.log_joint(path, x, model["start"], model["step"], np.ones(3), model["emit"]) for path in paths]
    best = paths[int(np.argmax(whole))]
    assert scores[-1].max() == pytest.approx(max(whole))
    assert [pointers[t, best[t]] for t in range(1, 5)] == list(best[:-1])
    assert tuple(viterbi.best_path(x, *model.values())) in paths


def test_alpha_and_beta_sum_to_the_same_probability_at_every_time():
    x, model = sequence_of(6)
    alpha = chains.forward(x, model["start"], model["step"], model["emit"])
    beta = chains.backward(x, model["step"], model["stop"], model["emit"])
    paths = product(range(3), repeat=6)
    total = sum(
        chains.probability(path, x, model["start"], model["step"], model["emit"]) * model["stop"][path[-1]] for path in paths
    )
    np.testing.assert_allclose(np.exp(alpha + beta).sum(1), total)


@pytest.mark.parametrize("name", LABS)
def test_labs_do_not_import_one_another(name):
    """What two labs share is in `labs.parts`."""
    tree = ast.parse((LAB_FILES / f"{name}.py").read_text(encoding="utf-8"))
    found = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert not [module for module in found if module.startswith("labs.labs")]


FEWEST = 60  # characters of a body: shorter ones may be the same by chance


def bodies_of(path):
    """Functions of a file with their bodies, without docstrings; arguments may have other names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            names = {argument.arg: f"argument{place}" for place, argument in enumerate(node.args.args)}
            renamed = [each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in names]
            for each in renamed:
                each.id = names[each.id]
            body = "\n".join(ast.unparse(each) for each in (node.body[1:] if ast.get_docstring(node) else node.body))
            if len(body) >= FEWEST:
                yield body, f"{path.stem}.{node.name}"


def repeated(paths):
    found = {}
    for path in paths:
        for body, name in bodies_of(path):
            found.setdefault(body, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def test_no_function_of_the_labs_stands_twice():
    """A second copy is mended in one place only. What is shared is in `labs.parts`."""
    files = [*LAB_FILES.glob("*.py"), *LAB_FILES.with_name("parts").glob("*.py")]
    assert len(files) > 20
    assert not repeated(files)


def test_a_copy_with_other_names_is_seen(tmp_path):
    for name, argument in (("one", "x"), ("other", "values")):
        (tmp_path / f"{name}.py").write_text(
            f"def f({argument}):\n    return [each + 1000 for each in {argument} if each > 1000 or each < -1000]\n"
        )
    assert repeated(sorted(tmp_path.glob("*.py"))) == [["one.f", "other.f"]]


def test_the_diary_has_as_many_days_as_the_iterations():
    assert len(chains.diary()["x"]) == chains.DAYS


@pytest.mark.parametrize("name", LABS)
def test_data_are_made_once_and_stay_as_they_are(name):
    """A student's step that writes into its arguments must not change what the next iteration sees."""
    data = lab_of(name).data()
    assert lab_of(name).data() is data
    assert data
    for value in data.values():
        with pytest.raises(ValueError, match="read-only"):
            value[...] = value
    with pytest.raises(TypeError):
        data["more"] = 1
