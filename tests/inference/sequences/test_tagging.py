"""Labels of steps that whole sequences predict, held out or not; what is said of one sequence, which has no elpd."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from naive import near
from rich.console import Console

from inference import compare, fit, learning_curve, plot_co_clustering, predict, score, stepwise
from inference.cli.comparing import compare_runs, print_comparison
from inference.cli.main import run_main
from inference.results import load
from inference.sequences.accuracy import of_sequences
from models import MODELS, ZooError, load_data
from models.data.documents import documents

TAGGER = load_data("tagger", num_sequences=40, missing=0.2)
LENGTHS = np.diff(TAGGER.starts)
WEIGHT = np.repeat(np.arange(40) % 3 / 1.0, LENGTHS)


@cache
def tagger():
    model = MODELS["hmm"](TAGGER, num_states=5, labelled=True)
    return model, fit(model, TAGGER, "em", num_starts=1, max_iter=3)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_steps_and_of_whole_sequences(weighted):
    """Counted sequence by sequence; the error of the log loss is over sequences, as if each were one row."""
    model, tree = tagger()
    data = load_data(TAGGER, weight=WEIGHT) if weighted else TAGGER
    found, read = score(model, tree, data), predict(model, tree, data)
    hits, path_hits, losses, weights = [], [], [], []
    for n, (start, length) in enumerate(zip(TAGGER.starts, LENGTHS, strict=False)):
        labels = TAGGER.labels[start : start + length]
        known = labels >= 0
        hits.append((read["assignment"].values[n, :length] == labels)[known])
        path_hits.append((read["viterbi"].values[n, :length] == labels)[known])
        losses.append(-np.log(read["probs"].values[n, :length][known, labels[known]]))
        weights.append(WEIGHT[start] if weighted else 1.0)
    sizes = np.array([len(each) for each in hits])
    whole, total = np.array(weights), np.array(weights) @ sizes
    some = sizes > 0
    wanted = {
        "accuracy": whole @ [each.sum() for each in hits] / total,
        "path_accuracy": whole @ [each.sum() for each in path_hits] / total,
        "sequence_accuracy": np.average([each.all() for each in hits], weights=whole * some),
        "path_sequence_accuracy": np.average([each.all() for each in path_hits], weights=whole * some),
        "log_loss": whole @ [each.sum() for each in losses] / total,
    }
    wanted["log_loss_se"] = np.linalg.norm([w * (x - wanted["log_loss"]).sum() for w, x in zip(whole, losses, strict=True)])
    wanted["log_loss_se"] /= total
    for name, value in wanted.items():
        assert float(found[name]) == pytest.approx(float(value), rel=1e-10), name
    assert int(found["num_rows"]) == sizes.sum()


@pytest.mark.slow
def test_the_error_of_a_single_sequence_is_unknown():
    model, tree = tagger()
    one = load_data(TAGGER)._replace(starts=np.array([0, TAGGER.num_rows]))
    assert np.isnan(float(score(model, tree, one)["log_loss_se"]))


@pytest.mark.slow
def test_labels_of_documents_are_no_states():
    text = documents([["the", "man"], ["the", "boat"]])._replace(
        labels=np.array([0, 1]), label="kind", levels=("determiner", "noun")
    )
    with pytest.raises(ZooError, match="labels of whole documents are no states"):
        score(*tagger(), text)


@pytest.mark.slow
def test_questions_about_rows_one_by_one_are_refused():
    with pytest.raises(ZooError, match="those of tagger follow each other"):
        learning_curve({"hmm": lambda data: MODELS["hmm"](data, 5, labelled=True)}, TAGGER, [20], seeds=[0], num_starts=1)
    with pytest.raises(ZooError, match="states of hmm depend on each other"):
        plot_co_clustering(*tagger(), TAGGER)


@pytest.mark.slow
def test_sequences_held_out(tmp_path, capsys):
    """A quarter of the sentences: figures are those of `score`; compared with themselves they are no different."""
    arguments = ["model=hmm", "model.num_states=5", "model.labelled=true", "method=em", "data=tagger"]
    options = [
        "data.num_sequences=24",
        "num_starts=1",
        "max_iter=3",
        "data.test_fraction=0.25",
        "progress=false",
        "pictures=false",
    ]
    assert run_main([*arguments, *options, f"out={tmp_path / 'run'}"]) in (0, 3)
    printed = " ".join(capsys.readouterr().out.split())
    tree = load(tmp_path / "run")
    assert f"6 sequences held out, {tree.attrs['held_out_labelled']} steps with a label: accuracy" in printed
    assert "path sequence accuracy" in printed
    rows = tree["held_out"].to_dataset()
    assert float(rows["loss"].mean()) == pytest.approx(tree.attrs["held_out_log_loss"], rel=1e-12)
    table = compare({"one": tree, "other": tree}).table
    assert table["log loss diff"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["data=ice_cream", "data.test_fraction=0.25"], "ice_cream is a single sequence"),
        (["data=casino", "data.test_fraction=0.25"], "casino is a single sequence"),
        (["data=casino", "data.num_sequences=3", "data.test_fraction=0.1"], "holds out none of the 3 sequences"),
        (["data=ice_cream", "impute=true"], "sums over missing cells and steps"),
        (["data=ice_cream", "method=exact"], "follow each other in time"),
    ],
)
def test_what_is_no_question_to_sequences(options, message):
    with pytest.raises(ZooError, match=message):
        run_main(["model=hmm", "method=em", "progress=false", "pictures=false", *options])


@cache
def diary():
    data = load_data("ice_cream")
    model = MODELS["hmm"](data)
    return model, data, fit(model, data, "gibbs", num_samples=30, num_warmup=5, num_chains=2)


@pytest.mark.slow
def test_one_sequence_has_no_elpd_but_over_its_steps(capsys):
    """Not a number with an error of 0; a line names what has one."""
    model, data, tree = diary()
    found = compare({"gibbs": tree})
    assert found.table[["elpd", "se", "k-hat"]].isna().all(axis=None)
    print_comparison(found, Console(width=80))
    assert "inference.stepwise(model, result, data)" in " ".join(capsys.readouterr().out.split())
    steps = compare({"gibbs": stepwise(model, tree, data)})
    assert np.isfinite(steps.table[["elpd", "se"]]).all(axis=None)
    others = stepwise(model, tree, data, given="others")
    with pytest.raises(ZooError, match="call stepwise with one given="):
        compare({"earlier": stepwise(model, tree, data), "others": others})
    refitted = tree.copy()  # the refit of a sequence is none of its first step
    refitted["refits"] = xr.DataTree(xr.Dataset({"elpd": ("row", [-999.0])}, coords={"row": [0]}))
    assert near(
        compare({"a": stepwise(model, refitted, data, given="others")}).table["elpd"],
        compare({"a": others}).table["elpd"],
        rtol=0,
    )
    assert all("Pareto k-hat" in note for note in steps.notes)  # of so few draws; nothing else is in the way


@pytest.mark.slow
def test_steps_have_the_weight_of_their_sequence():
    """Those of weight 0 are left out, as if they were not there."""
    data = load_data(TAGGER, weight=np.minimum(WEIGHT, 1.0))
    model = MODELS["hmm"](data, num_states=2)
    tree = fit(model, data, "gibbs", num_samples=15, num_warmup=5, num_chains=2)
    steps = stepwise(model, tree, data)
    kept = steps.copy()
    rows = steps["log_likelihood"].to_dataset()
    kept["log_likelihood"] = type(steps)(rows.isel(row=WEIGHT > 0))
    kept["constant_data"] = type(steps)(steps["constant_data"].to_dataset().drop_vars("weight"))
    columns = ["elpd", "se", "k-hat"]
    assert near(compare({"a": steps}).table[columns], compare({"a": kept}).table[columns], rtol=1e-12)


@pytest.mark.slow
def test_states_hold_steps(tmp_path, capsys):
    """Words of sequences: states, steps; none of components or rows. Of 6 states for 33 steps some are empty now and then."""
    options = [
        "num_states=6",
        "method=gibbs",
        "num_samples=30",
        "num_warmup=5",
        "num_chains=2",
        "progress=false",
        "pictures=false",
    ]
    arguments = ["model=hmm", "data=ice_cream", *(f"model.{name}" if "states" in name else name for name in options)]
    compare_runs([*arguments, f"out={tmp_path / 'out'}"])
    printed = capsys.readouterr().out
    assert "states that hold a step" in printed
    assert "component" not in printed


def test_a_sequence_is_right_if_all_of_its_steps_are():
    """Three sequences: all steps right, one of two right, none; the second has weight 2."""
    sequence, weight = np.array([4, 4, 7, 7, 9]), np.array([1.0, 1.0, 2.0, 2.0, 1.0])
    hit, path_hit = np.array([True, True, True, False, False]), np.array([True, False, True, True, False])
    found = of_sequences(hit, path_hit, sequence, weight)
    assert found["sequence_accuracy"] == pytest.approx(1 / 4)
    assert found["path_sequence_accuracy"] == pytest.approx(2 / 4)
    assert found["path_accuracy"] == pytest.approx((1 + 2 + 2) / 7)
