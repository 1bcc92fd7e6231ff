"""Pictures of sequences: what their lines, arrows and cells hold, what their titles say, and what is refused."""

from functools import cache

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.image import imread
from matplotlib.patches import FancyArrowPatch

from inference import fit, plot_emissions, plot_profile, plot_states, plot_transitions, predict
from inference.cli.main import run_main
from inference.identification.relabel import OVERLAP
from inference.markup.palette import colour
from inference.plots.sequences import MOST_NODES, MOST_SYMBOLS
from inference.plots.state_diagram import HALF, RADIUS, least
from inference.plots.states_over_time import MOST_LINES, MOST_SEQUENCES, MOST_STEPS, some_sequences
from inference.results.draws import draws_of
from models import MODELS, Data, ZooError, load_data
from models.data.table import SEQUENCE_NAME
from models.datasets.sequences import TAGS, grammar

RNG = np.random.default_rng(0)
TAGGER = load_data("tagger", num_sequences=12, missing=0.3)
HIDDEN = int(np.argmax(np.add.reduceat(TAGGER.labels < 0, TAGGER.starts[:-1]) > 0))  # the first sequence with a hidden tag
SITES = dict(zip(("start_probs", "transition_probs", "emission_probs"), grammar(), strict=True))


@cache
def tagger():
    return MODELS["hmm"](TAGGER, num_states=5, labelled=True)


@cache
def drawn():
    """A result with draws."""
    return fit(tagger(), TAGGER, "gibbs", num_warmup=5, num_samples=5, num_chains=2)


@cache
def counts():
    """(model, sites, data) of 30 counts in one sequence, whose lengths are given."""
    data = Data("counts", RNG.poisson(5.0, (30, 1)).astype(float), ("count",), kinds=("count",))
    sites = {"start_probs": np.ones(2) / 2, "transition_probs": np.array([[0.9, 0.1], [0.01, 0.99]])}
    return MODELS["hmm"](data, emission="poisson", boundary=False), sites | {"rate": np.array([[3.0], [8.0]])}, data


def lines(axis):
    return np.stack([line.get_ydata() for line in axis.lines], axis=-1)


@pytest.mark.slow
def test_lines_are_the_probabilities_of_the_states(tmp_path):
    """At given sites those that `predict` has; a line a state, none of them with a band."""
    figure = plot_states(tagger(), SITES, TAGGER, tmp_path / "states.png", sequence=HIDDEN)
    found = predict(tagger(), SITES, TAGGER)
    length = np.diff(TAGGER.starts)[HIDDEN]
    np.testing.assert_allclose(lines(figure.axes[0]), found["probs"].values[HIDDEN, :length], atol=1e-12)
    assert not figure.axes[0].collections
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == list(TAGS)
    assert f"sequence {HIDDEN + 1} of 12" in figure.get_suptitle()
    assert imread(tmp_path / "states.png").std() > 0


@pytest.mark.slow
def test_several_sequences_stand_one_under_the_other_with_their_names():
    """Whatever else is drawn with it, a sequence has its own lines; the names are those that the table has."""
    names = np.repeat([f"text {number:02}" for number in range(12)], np.diff(TAGGER.starts))
    named = TAGGER._replace(kept_columns=((SEQUENCE_NAME, names),))
    chosen = some_sequences(tagger(), named)
    assert (chosen[0], chosen[-1], len(chosen)) == (0, 11, MOST_SEQUENCES)
    figure = plot_states(tagger(), SITES, named, sequence=chosen)
    found, length = predict(tagger(), SITES, TAGGER)["probs"].values, np.diff(TAGGER.starts)
    assert [part.get_suptitle() for part in figure.subfigs] == [f"sequence text {n:02} ({n + 1} of 12)" for n in chosen]
    assert "6 of 12 sequences" in figure.get_suptitle()
    for part, number in zip(figure.subfigs, chosen, strict=True):
        np.testing.assert_allclose(lines(part.get_axes()[0]), found[number, : length[number]], atol=1e-12)
    assert "sequence text 03 (4 of 12)" in plot_states(tagger(), SITES, named, sequence=3).get_suptitle()


@pytest.mark.slow
def test_draws_give_a_mean_and_a_band():
    draws = draws_of(tagger(), drawn())
    each = [
        predict(tagger(), {name: leaf[s] for name, leaf in draws.items()}, TAGGER)["probs"].values[HIDDEN] for s in range(10)
    ]
    axis = plot_states(tagger(), drawn(), TAGGER, sequence=HIDDEN).axes[0]
    shown = lines(axis)
    np.testing.assert_allclose(shown, np.mean(each, axis=0)[: len(shown)], atol=1e-10)
    assert len(axis.collections) == 5
    assert "89 %" in axis.get_ylabel()


@pytest.mark.slow
def test_the_strip_holds_states_path_and_labels():
    """Labels that are states have their colours; where one is hidden nothing is."""
    cells = np.asarray(plot_states(tagger(), SITES, TAGGER, sequence=HIDDEN).axes[1].images[0].get_array())
    found = predict(tagger(), SITES, TAGGER).isel(row=HIDDEN)
    labels = TAGGER.labels[TAGGER.starts[HIDDEN] : TAGGER.starts[HIDDEN + 1]]
    for row, codes in zip(cells, (found["assignment"].values, found["viterbi"].values, labels), strict=True):
        wanted = [(1.0, 1.0, 1.0, 1.0) if code < 0 else to_rgba(colour(code)) for code in codes[: len(labels)]]
        np.testing.assert_allclose(row, wanted)
    assert -1 in labels


@pytest.mark.slow
def test_labels_that_are_no_states_have_colours_of_their_own():
    data = load_data("casino", num_rows=20)
    sites = {"start_probs": np.ones(2) / 2, "transition_probs": np.full((2, 2), 0.5), "emission_probs": np.full((2, 6), 1 / 6)}
    axis = plot_states(MODELS["hmm"](data, boundary=False), sites, data).axes[1]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["fair", "loaded"]
    assert [label.get_text() for label in axis.get_yticklabels()][-1] == "die (label)"


@pytest.mark.slow
def test_long_sequences_are_cut_to_a_window():
    data = load_data("casino", num_rows=MOST_STEPS + 7)
    sites = {"start_probs": np.ones(2) / 2, "transition_probs": np.full((2, 2), 0.5), "emission_probs": np.full((2, 6), 1 / 6)}
    model = MODELS["hmm"](data, boundary=False)
    assert f"steps 1 to {MOST_STEPS} of {MOST_STEPS + 7}" in plot_states(model, sites, data).get_suptitle()
    figure = plot_states(model, sites, data, first=10, num_steps=4)
    assert f"steps 11 to 14 of {MOST_STEPS + 7}" in figure.get_suptitle()
    assert figure.axes[0].get_xlim() == (10.5, 14.5)
    rolls = [text.get_text() for text in figure.axes[2].texts]
    assert rolls == [data.categories[0][int(code)] for code in data.x[10:14, 0]]


@pytest.mark.slow
def test_numbers_are_points():
    model, sites, data = counts()
    figure = plot_states(model, sites, data)
    np.testing.assert_array_equal(figure.axes[2].lines[0].get_ydata(), data.x[:, 0])
    assert figure.axes[2].get_ylabel() == "count"
    assert "sequence" not in figure.get_suptitle()


@pytest.mark.slow
def test_documents_are_sequences_of_symbols():
    data = load_data(["a rose is a rose", "is it"], unit="word")
    model = MODELS["hmm"](data)
    sites = {
        "start_probs": np.ones(2) / 2,
        "transition_probs": np.full((2, 3), 1 / 3),
        "emission_probs": np.full((2, 4), 1 / 4),
    }
    figure = plot_states(model, sites, data, sequence=1)
    assert [text.get_text() for text in figure.axes[2].texts] == ["is", "it"]


@pytest.mark.slow
def test_many_states_are_a_heat_map():
    size = MOST_LINES + 1
    data = load_data("ice_cream")
    model = MODELS["hmm"](data, num_states=size, boundary=False)
    sites = {
        "start_probs": np.full(size, 1 / size),
        "transition_probs": RNG.dirichlet(np.ones(size), size),
        "emission_probs": RNG.dirichlet(np.ones(3), size),
    }
    figure = plot_states(model, sites, data)
    np.testing.assert_allclose(
        figure.axes[0].images[0].get_array(), predict(model, sites, data)["probs"].values[0].T, atol=1e-12
    )
    assert len(plot_transitions(model, sites).axes) == 1  # more than a diagram can hold
    assert size > MOST_NODES


def arrows(axis):
    return [patch for patch in axis.patches if isinstance(patch, FancyArrowPatch)]


def test_arrows_are_the_transitions(tmp_path):
    """One for every probability that is not small, of starts and stops too, with its number; a table has them all."""
    figure = plot_transitions(tagger(), SITES, tmp_path / "transitions.png")
    start, transition, _ = grammar()
    probs = np.concatenate([start, transition.reshape(-1)])
    diagram, table = figure.axes
    assert len(arrows(diagram)) == (probs >= least(5)).sum()
    numbers = sorted(text.get_text() for text in diagram.texts if text.get_text().startswith("0."))
    assert numbers == sorted(f"{prob:.2f}" for prob in probs[probs >= least(5)])
    assert {"*", *TAGS} <= {text.get_text() for text in diagram.texts}
    cells = table.images[0].get_array()
    np.testing.assert_allclose(cells[0, :5], start)
    np.testing.assert_allclose(cells[1:], transition)
    assert np.ma.getmaskarray(cells)[0, 5]  # no sequence is empty
    assert imread(tmp_path / "transitions.png").std() > 0


def test_numbers_on_arrows_can_be_read():
    """Those of the grammar cover neither each other nor a state."""
    diagram = plot_transitions(tagger(), SITES).axes[0]
    numbers = np.array([text.get_position() for text in diagram.texts if text.get_text().startswith("0.")])
    apart = np.abs(numbers[:, None] - numbers[None]) / (2 * HALF)
    assert (apart.max(-1)[~np.eye(len(numbers), dtype=bool)] >= 1).all()
    nodes = np.array([text.get_position() for text in diagram.texts if not text.get_text().startswith("0.")])
    assert (np.linalg.norm(numbers[:, None] - nodes[None], axis=-1) > RADIUS).all()


def test_zeros_and_ones_have_no_line_beyond_them():
    """Their mean says all; a number has a line of one standard deviation."""
    data = Data("two", RNG.integers(0, 2, (12, 2)).astype(float), ("a", "b"))
    model = MODELS["hmm"](data, emission="bernoulli")
    sites = {"start_probs": np.ones(2) / 2, "transition_probs": np.full((2, 3), 1 / 3)}
    figure = plot_emissions(model, sites | {"feature_probs": np.array([[0.1, 0.9], [0.5, 0.7]])})
    ends = np.concatenate([line.get_xdata() for axis in figure.axes for line in axis.lines])
    assert ends.min() >= 0
    assert ends.max() <= 1
    assert "standard deviation" not in figure.get_supxlabel()


def test_shades_without_numbers_have_a_scale():
    figure = plot_emissions(tagger(), SITES)
    assert len(figure.axes) == 2
    assert figure.axes[1].get_ylim() == (0, SITES["emission_probs"].max())


def test_without_a_boundary_there_is_a_start_and_no_stop():
    model, sites, _ = counts()
    diagram, table = plot_transitions(model, sites).axes
    assert table.images[0].get_array().shape == (3, 2)
    assert "start" in [text.get_text() for text in diagram.texts]
    assert len(arrows(diagram)) == 5  # one of six is small


@pytest.mark.slow
def test_intervals_are_written_into_the_table():
    """89 % of the draws: the numbers are their quantiles."""
    table = plot_transitions(tagger(), drawn()).axes[1]
    draws = draws_of(tagger(), drawn())["transition_probs"]
    low, high = np.quantile(draws[:, 2, 3], (0.055, 0.945))
    assert f"{draws[:, 2, 3].mean():.2f}\n{low:.2f}–{high:.2f}" in [text.get_text() for text in table.texts]


def test_emissions_of_symbols_are_a_heat_map(tmp_path):
    figure = plot_emissions(tagger(), SITES, tmp_path / "emissions.png")
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), SITES["emission_probs"])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(TAGS)
    assert imread(tmp_path / "emissions.png").std() > 0


def test_of_many_symbols_the_most_probable_are_shown():
    size = MOST_SYMBOLS + 5
    data = load_data([" ".join(f"w{i:02d}" for i in range(size))], unit="word")
    probs = RNG.dirichlet(np.ones(size), 2)
    sites = {"start_probs": np.ones(2) / 2, "transition_probs": np.full((2, 3), 1 / 3), "emission_probs": probs}
    axis = plot_emissions(MODELS["hmm"](data), sites).axes[0]
    kept = np.sort(np.argsort(-probs.max(0))[:MOST_SYMBOLS])
    np.testing.assert_allclose(axis.images[0].get_array(), probs[:, kept])
    assert f"{MOST_SYMBOLS} of {size}" in axis.get_xlabel()


@pytest.mark.slow
def test_emissions_of_several_columns_are_a_panel_each():
    data = Data(
        "two",
        RNG.integers(0, 2, (12, 2)).astype(float),
        ("sky", "wind"),
        categories=(("blue", "grey"), ("calm", "strong")),
        kinds=("category",) * 2,
    )
    model = MODELS["hmm"](data)
    tree = fit(model, data, "em", num_starts=1, max_iter=2)
    assert [axis.get_xlabel() for axis in plot_emissions(model, tree).axes] == ["level of sky", "level of wind"]
    assert len(plot_states(model, tree, data).axes) == 4  # probabilities, states, and two columns


def test_emissions_of_counts_are_dots():
    model, sites, _ = counts()
    figure = plot_emissions(model, sites)
    dots = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots, [3, 8])
    assert "emissions" in figure.get_suptitle()
    assert plot_profile(model, sites).axes[0].get_title() == "count"


@pytest.mark.slow
def test_titles_warn_where_labels_are_not_to_be_trusted():
    doubtful = drawn().copy()
    doubtful.attrs["warnings"] = f"states {OVERLAP} 8% of the draws"
    for tree, expected in ((drawn(), False), (doubtful, True)):
        figures = [plot_states(tagger(), tree, TAGGER, sequence=HIDDEN)]
        figures += [plot_transitions(tagger(), tree), plot_emissions(tagger(), tree)]
        assert all(("not to be trusted: states" in figure.get_suptitle()) == expected for figure in figures)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequence": 12}, "tagger has 12, counted from 0"),
        ({"sequence": [0, 12]}, "sequence=12: tagger has 12, counted from 0"),
        ({"sequence": []}, "name at least one sequence"),
        ({"sequence": -1}, "sequence must be a whole number of at least 0"),
        ({"first": 99}, "first=99: sequence 0 has 4 steps"),
        ({"num_steps": 0}, "num_steps must be a whole number above 0"),
        ({"num_steps": 2.0}, "num_steps must be a whole number"),
    ],
)
def test_steps_that_there_are_not_are_refused(options, words):
    with pytest.raises(ZooError, match=words):
        plot_states(tagger(), SITES, TAGGER, **options)


def test_models_without_sequences_are_refused():
    data = load_data("iris")
    model = MODELS["gmm"](data, num_components=2)
    for plot in (lambda: plot_states(model, {}, data), lambda: plot_transitions(model, {}), lambda: plot_emissions(model, {})):
        with pytest.raises(ZooError, match="gmm has no states that follow each other"):
            plot()


def test_profiles_of_symbols_are_refused():
    with pytest.raises(ZooError, match="not made of columns"):
        plot_profile(tagger(), SITES)


@pytest.mark.slow
def test_runs_draw_sequences(tmp_path):
    """Three pictures of sequences and the predictive checks, in files and on the page."""
    arguments = ["model=hmm", "method=em", "num_starts=1", "progress=false", f"out={tmp_path / 'run'}"]
    assert run_main(arguments) in (0, None)
    names = {path.name for path in (tmp_path / "run").glob("*.svg")}
    assert names == {"state_probs.svg", "transitions.svg", "emissions.svg", "checks.svg"}
    assert (tmp_path / "run" / "report.html").read_text().count("<img") == 4
