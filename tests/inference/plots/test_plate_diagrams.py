"""Plate diagrams against the trace of the program: sites, plates and shading; arrows against NumPyro's dependencies."""

import xml.etree.ElementTree as ET
from functools import partial
from itertools import combinations

import jax
import numpy as np
import numpyro
import pandas as pd
import pytest
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.infer.inspect import get_dependencies
from numpyro.primitives import Messenger

from inference import program_model, show
from inference.plots.plate_diagram import RADIUS, draw, places_of
from models import MODELS, ZooError, load_data
from models.data.documents import documents

RNG = np.random.default_rng(0)
LABELS = list("abcabcabcabc")
NUMBERS = RNG.normal(size=(12, 4))
WORDS = RNG.poisson(2.0, (12, 5)).tolist()
DATA = {
    "mixed_mixture": lambda: load_data(pd.DataFrame({"size": NUMBERS[:, 0], "kind": list("xyzx" * 3)})),
    "markov_naive_bayes": lambda: load_data(documents(RNG.integers(0, 3, (12, 5)).tolist()), labels=LABELS),
    "annotators": lambda: load_data(pd.DataFrame({"anna": list("yyn" * 4), "ben": list("ynn" * 4)})),
    "hmm": lambda: load_data(documents(RNG.integers(0, 3, (12, 5)).tolist())),
    "latent_dirichlet": lambda: load_data(documents(WORDS)),
}
LABELLED = ("naive_bayes", "poisson_naive_bayes", "linear_discriminant", "logistic_regression")


def data_for(name):
    if name in DATA:
        return DATA[name]()
    cells = (NUMBERS > 0) * 1.0 if "bayes" in name else NUMBERS
    return load_data(cells, labels=LABELS if name in LABELLED else None)


QUICK = ("gmm", "hmm")  # the others take as long to build, and run in the slow tier
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


class Unscaled(Messenger):
    """A program without the weights of its rows: NumPyro makes them a key of JAX's cache, and arrays cannot be compared."""

    def process_message(self, site):
        site["scale"] = None


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """(model, diagram, trace of its program with latent variables, prior dependencies as NumPyro finds them)."""
    data = data_for(request.param)
    model = MODELS[request.param](data, **({"num_factors": 1} if request.param in ("factor_analysis", "ppca") else {}))
    found = {}

    def visit(hyper, rows):
        def program():
            return model.spec(hyper, rows, marginal=False)

        seeded = handlers.substitute(handlers.seed(program, 0), substitute_fn=numpyro.infer.init_to_sample)
        trace = handlers.trace(seeded).get_trace()
        found["sites"] = {
            name: (site["is_observed"], np.shape(site["value"]), {f.name: f.size for f in site["cond_indep_stack"]})
            for name, site in trace.items()
            if site["type"] == "sample"
        }
        found["needs"] = get_dependencies(Unscaled(program))["prior_dependencies"]

    with jax.enable_x64(True):
        jax.eval_shape(visit, dict(model.hyper), model.rows(data))
    return model, show(model, data), found["sites"], found["needs"]


def test_nodes_plates_and_shading_are_those_of_the_trace(case):
    model, diagram, sites, _ = case
    assert list(diagram.nodes) == list(sites)
    for name, (observed, shape, plates) in sites.items():
        node = diagram.nodes[name]
        assert node.observed == observed
        if plates:
            assert {plate: diagram.plates[plate] for plate in node.plates} == plates
        elif name in model.algebra.structure.local:
            assert [diagram.plates[plate] for plate in node.plates] == [shape[0]]
        else:  # a parameter: its plate and its own dimensions are those that the model names, in order
            assert (*node.plates, *node.dims) == tuple(model.naming.dims[name])
            assert tuple(diagram.plates[plate] for plate in node.plates) == shape[: len(node.plates)]


def test_arrows_are_the_dependencies_of_the_program(case):
    _, diagram, _, needs = case
    assert {name: set(node.parents) for name, node in diagram.nodes.items()} == {
        name: set(found) - {name} for name, found in needs.items()
    }


def test_nodes_lie_apart_and_below_their_parents(case):
    _, diagram, _, _ = case
    places = places_of(diagram)
    assert set(places) == set(diagram.nodes)
    assert all(places[parent][1] > places[name][1] for name, node in diagram.nodes.items() for parent in node.parents)
    points = np.array(list(places.values()))
    apart = np.linalg.norm(points[:, None] - points, axis=-1) + 10 * np.eye(len(points))
    assert apart.min() > 3 * RADIUS


def test_frames_do_not_overlap(case):
    _, diagram, _, _ = case
    frames = [patch.get_bbox() for patch in draw(diagram).axes[0].patches if type(patch).__name__ == "Rectangle"]
    assert len(frames) == len({node.plates for node in diagram.nodes.values() if node.plates})
    assert not [1 for one, other in combinations(frames, 2) if one.overlaps(other)]


def test_pictures_name_every_node_and_shade_what_is_observed(tmp_path):
    diagram = show(MODELS["gmm"](data_for("gmm")), data_for("gmm"))
    ET.fromstring(diagram._repr_svg_())
    circles = [patch for patch in draw(diagram).axes[0].patches if type(patch).__name__ == "Circle"]
    shaded = [patch.get_facecolor()[:3] != (1, 1, 1) for patch in circles]
    assert shaded == [node.observed for node in diagram.nodes.values()]
    said = {text.get_text().split("\n")[0] for text in draw(diagram).axes[0].texts}
    assert set(diagram.nodes) <= said
    diagram.save(tmp_path / "diagram.png")
    assert (tmp_path / "diagram.png").read_bytes()[1:4] == b"PNG"


def program(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("group", 3):
        effect = numpyro.sample("effect", dist.Normal(slope, 1.0))
        with numpyro.plate("item", len(x)):
            numpyro.sample("y", dist.Normal(effect * x[:, None], 1.0), obs=y)


def test_a_program_of_ones_own():
    data = (np.arange(4.0), np.zeros((4, 3)))
    diagram = show(program, data)
    assert {name: set(node.plates) for name, node in diagram.nodes.items()} == {
        "slope": set(),
        "effect": {"group"},
        "y": {"group", "item"},
    }
    assert diagram.plates == {"group": 3, "item": 4}


@pytest.mark.slow  # a model of a program runs it once
def test_the_model_of_a_program_is_shown_as_the_program():
    data = (np.arange(4.0), np.zeros((4, 3)))
    assert show(program_model(program, data), data).nodes == show(program, data).nodes


def test_without_data_sizes_of_the_data_are_open():
    diagram = show(MODELS["gmm"](data_for("gmm"), num_components=3))
    assert diagram.plates == {"row": None, "component": 3}


@pytest.mark.parametrize("name", MODELS)
def test_without_data_every_model_has_its_diagram(name):
    """Rows without labels: the same parameters as with data."""
    data = data_for(name)
    model = MODELS[name](data, **({"num_factors": 1} if name in ("factor_analysis", "ppca") else {}))
    with_data, without = (set(show(model, rows).nodes) for rows in (data, None))
    assert without >= with_data - {"label"}


def test_what_cannot_be_shown_is_one_message():
    with pytest.raises(ZooError, match="program, whose sites are known with its data only"):
        show(program)
    with pytest.raises(ZooError, match="does not run on this data"):
        show(program, np.zeros(3))
    with pytest.raises(ZooError, match="not int"):
        show(3)


def with_number(x, number):
    loc = numpyro.sample("loc", dist.Normal(0, 1))
    if number > 3:
        loc = loc + numpyro.sample("shift", dist.Normal(0, 1))
    with numpyro.plate("row", number):
        numpyro.sample("x", dist.Normal(loc, 1), obs=x)


@pytest.mark.parametrize("number", [3, 5])
def test_arguments_that_are_no_arrays_are_as_they_are(number):
    """A size of a plate and a branch: the program runs as it does in a fit."""
    x = np.zeros(number)
    for diagram in (show(with_number, (x, number)), show(partial(with_number, number=number), x)):
        assert set(diagram.nodes) == ({"loc", "x"} if number == 3 else {"loc", "shift", "x"})
        assert diagram.plates == {"row": number}


def test_a_program_that_fails_has_one_message():
    with pytest.raises(ZooError, match="with_number does not run on this data: TypeError") as raised:
        show(with_number, np.zeros(3))
    assert "\n" not in str(raised.value)
