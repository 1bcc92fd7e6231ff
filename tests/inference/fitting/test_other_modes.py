"""Modes that no chain has visited: what a result says before and after somebody has looked for them."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from naive import table
from scipy.special import gammaln
from two_modes import LEFT_AND_RIGHT, LOWER_LEFT, ROWS, TOP_AND_BOTTOM, UPPER_LEFT, probability_together

from inference import fit, look_for_modes
from inference.diagnostics.checks import diagnose, other_modes, stored
from inference.diagnostics.modes import NOWHERE
from inference.diagnostics.verdicts import judge
from inference.engine.task import Kind
from inference.fitting import modes as looks
from inference.fitting.modes import NEGLIGIBLE, NOT_LOOKED, ROUGHLY, Mass, Optima, with_remark
from inference.fitting.prepare import make_task, x64
from inference.runtime.progress import Silent
from models import MODELS, load_data
from models.base import ZooError

TASK = None  # of what is not weighed


@cache
def model():
    return MODELS["gmm_simple"](table(ROWS), num_components=2)


@cache
def sampled(method, seed=0, start=None):
    starts = {} if start is None else {"start": {"top": TOP_AND_BOTTOM, "left": LEFT_AND_RIGHT}[start]}
    return fit(model(), table(ROWS), method, seed=seed, **starts)


def finished(method="gibbs", exit_status=0):
    attrs = {"method": method, "exit_status": exit_status, "verdicts": "[]", "draws": "chains", "problems": ""}
    tree = xr.DataTree.from_dict({"/posterior": xr.Dataset({"mean": (("chain", "draw"), np.zeros((2, 4)))})})
    tree.attrs = attrs
    return tree


@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_a_result_says_that_nobody_has_looked(method):
    """A remark, with what to do; it changes neither exit code nor problems."""
    tree = with_remark(model(), finished(method))
    (said,) = stored(tree)
    assert said.sentence.startswith(NOT_LOOKED)
    assert "inference.look_for_modes(model, result, data), or use method=tempered_gibbs or collapsed_gibbs" in said.sentence
    assert (said.exit, tree.attrs["exit_status"], tree.attrs["problems"]) == (0, 0, "")


def test_others_have_no_such_remark():
    """Methods that cross, results of which a diagnostic has failed, and models without exchangeable components."""
    for method in ("tempered_gibbs", "collapsed_gibbs", "exact"):
        assert not stored(with_remark(model(), finished(method)))
    assert not stored(with_remark(model(), finished(exit_status=3)))
    labelled = MODELS["naive_bayes"](load_data(ROWS, labels=list("ab" * 4)), emission="gaussian")
    assert not stored(with_remark(labelled, finished()))
    tree = finished()
    assert look_for_modes(labelled, tree, table(ROWS)) is tree


def looked(monkeypatch, start, climbs=lambda points: points):
    """The result of a look, with EM that ends where ``climbs`` says, all at one height; ``start`` is that of all starts."""
    rng = np.random.default_rng(0)
    mean = LEFT_AND_RIGHT["mean"] + 0.3 * rng.normal(size=(2, 40, 2, 2))
    tree = with_remark(model(), finished())
    tree["posterior_raw"] = tree["posterior"] = xr.DataTree(xr.Dataset({"mean": (("chain", "draw", "k", "d"), mean)}))
    tree.attrs["seed"] = 0

    def ends(_task, points, _max_iter):
        optima = {name: climbs(np.asarray(value)) for name, value in points.items()}
        return optima, np.zeros(len(optima["mean"]))

    monkeypatch.setattr(looks, "_starts", lambda _task, number, _: {"mean": np.repeat(start["mean"][None], number, 0)})
    monkeypatch.setattr(looks, "_climbed", ends)
    monkeypatch.setattr(looks, "problems_of", lambda tree: judge(Kind.CHAINS, {"other modes": other_modes(tree)}))
    return look_for_modes(model(), tree, table(ROWS))


def of_left(points):
    """Everything near left and right ends there."""
    near = np.abs(points - LEFT_AND_RIGHT["mean"]).max((1, 2)) < 2
    return np.where(near[:, None, None], LEFT_AND_RIGHT["mean"], points)


def test_a_look_that_found_nothing_leaves_a_trace(monkeypatch):
    """Which is no remark: from how many points EM came to a mode."""
    found = looked(monkeypatch, LEFT_AND_RIGHT, of_left)
    assert found.attrs["modes_looked"] == (
        "modes that no chain has visited were looked for: EM came to a mode from 8 of 8 further starts and from 8 of 8 "
        "draws, and found none"
    )
    assert (stored(found), found.attrs["problems"]) == ([], "")
    assert "3 of 4 further starts and from 1 of 2 draws" in looks._trace(np.array([0, -1, 2, -np.inf, 3, -np.inf]), 4, "one")


@pytest.mark.parametrize(("mass", "outcome", "said"), [(-1.0, "one", 1), (-1.1 * ROUGHLY, "none that matters", 0)])
def test_a_look_without_a_result_does_not_advise_to_look(monkeypatch, mass, outcome, said):
    """The mass of another mode is known roughly: it would be known no better the next time."""
    monkeypatch.setattr(
        looks, "_mass", lambda _task, sites: Mass(np.nan, 0.0 if of_left(sites["mean"][None])[0, 0, 0] < -2 else mass)
    )
    found = looked(monkeypatch, TOP_AND_BOTTOM, of_left)
    assert found.attrs["modes_looked"].endswith(f", and found {outcome}")
    assert len(stored(found)) == said
    for problem in stored(found):
        assert "look_for_modes" not in problem.sentence
        assert "agree. Use method=tempered_gibbs or collapsed_gibbs" in problem.sentence


def test_an_interrupted_look_may_be_taken_again(monkeypatch):
    def interrupted(_points):
        raise KeyboardInterrupt

    found = looked(monkeypatch, LEFT_AND_RIGHT, interrupted)
    assert "modes_looked" not in found.attrs
    (said,) = stored(found)
    assert "the look was interrupted" in said.sentence
    assert "agree. Look with inference.look_for_modes(model, result, data), or use method=" in said.sentence


def test_a_look_that_cannot_start_leaves_the_result_whole(monkeypatch):
    """A run that has sampled for an hour does not end with an error because a look afterwards did."""

    def refused(*_):
        raise ZooError("no start")

    monkeypatch.setattr(looks, "_starts", refused)
    monkeypatch.setattr(looks, "problems_of", lambda _tree: [])
    tree = with_remark(model(), finished())
    tree["posterior_raw"] = tree["posterior"]
    tree.attrs["seed"] = 0
    found = look_for_modes(model(), tree, table(ROWS))
    assert found.attrs["modes_unknown"] == f"{NOT_LOOKED}, as EM cannot start (no start)"
    xr.testing.assert_identical(found["posterior"].to_dataset(), tree["posterior"].to_dataset())


def test_modes_count_as_unvisited_where_starts_lead_and_no_draw_does():
    """Against sets by hand, over random outcomes of EM; modes that are far below those of the draws do not matter."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        height = -np.sort(rng.exponential(8.0, 5))
        mode = rng.integers(NOWHERE, 5, 24)
        found = looks._unvisited(Optima(mode, height, {}), 8, 4)
        led = {m for m in mode[8:].tolist() if m != NOWHERE}
        other = {m for m in mode[:8].tolist() if m != NOWHERE and m not in led}
        top = max((height[m] for m in led), default=np.inf)
        assert found == sorted(m for m in other if height[m] >= top - NEGLIGIBLE)


def test_the_share_of_a_mode_is_that_of_its_mass(monkeypatch):
    """Draws are at two visited modes; a third has the mass of half of what the more visited one has."""
    masses = {place: Mass(np.log(mass), np.nan) for place, mass in enumerate((6.0, 3.0, 2.0))}
    monkeypatch.setattr(looks, "_mass", lambda task, sites: masses[int(sites["number"])])
    starts, draws = np.array([2, 2, 0, NOWHERE]), np.repeat([0, 1], [60, 20])  # 6 : 2, so that all visited mass is 8
    found = Optima(np.append(starts, draws), np.array([-1.0, -2.0, -3.5]), {"number": np.arange(3)})
    said = looks._weighed(TASK, found, 4, [2])
    assert said["unvisited_share"] == pytest.approx(2 / (2 + 8))
    assert said["unvisited_mode"] == "log joint -3.50, 2.50 nats lower than at the mode of the chains"
    masses[3] = masses[2]
    two = Optima(np.append([2, 3], draws), np.array([-1.0, -2.0, -3.5, -4.0]), {"number": np.arange(4)})
    assert looks._weighed(TASK, two, 2, [2, 3])["unvisited_share"] == pytest.approx(4 / (4 + 8))  # of both together
    for place in (2, 0):  # of either of them the mass is not known
        masses[place] = Mass(np.nan, np.nan)
        assert "of unknown mass" in looks._weighed(TASK, found, 4, [2])["modes_unknown"]
    masses[0] = Mass(np.nan, 0.0)
    masses[2] = Mass(np.nan, -3.0)
    assert "of roughly e^-3 times the mass of theirs" in looks._weighed(TASK, found, 4, [2])["modes_unknown"]
    masses[2] = Mass(np.nan, -1.1 * ROUGHLY)  # a mode that is narrow and low is not worth a remark
    assert looks._weighed(TASK, found, 4, [2]) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "start"), [("gibbs", "left"), ("gibbs", "top"), ("nuts", "left")])
def test_the_mode_that_chains_have_missed_is_found_with_its_mass(method, start):
    """All chains at one of two modes of known mass. A thousand weights with a standard deviation of about 1 have a mean that is
    known to 3 %, so that a share is known to 0.02 and 0.1 is five times as much."""
    tree = sampled(method, start=start)
    assert tree.attrs["exit_status"] == 0
    found = look_for_modes(model(), tree, table(ROWS))
    left = probability_together(LOWER_LEFT, UPPER_LEFT)
    assert found.attrs["unvisited_share"] == pytest.approx(1 - left if start == "left" else left, abs=0.1)
    assert (found.attrs["exit_status"], diagnose(found).failed) == (3, ("unvisited mode",))
    assert NOT_LOOKED not in "".join(diagnose(found).remarks)
    xr.testing.assert_identical(found["posterior"].to_dataset(), tree["posterior"].to_dataset())


@pytest.mark.slow
def test_no_seed_is_sure_of_one_of_two_modes():
    """Chains with starts of their own: R-hat says that they disagree, or the look finds the mode where none is."""
    for seed in range(10):
        found = look_for_modes(model(), sampled("gibbs", seed), table(ROWS))
        assert found.attrs["exit_status"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_one_mode_accuses_nothing(seed):
    """Groups ten standard deviations apart, in random places: nothing is found, and the remark is gone."""
    rng = np.random.default_rng(seed)
    places = np.array([[0.0, 0.0], [10.0, 3.0]])[rng.integers(0, 2, 40)]
    data = table(places + rng.normal(size=(40, 2)))
    apart = MODELS["gmm"](data, num_components=2)
    found = look_for_modes(apart, fit(apart, data, "gibbs", seed=seed), data)
    assert (found.attrs["verdicts"], found.attrs["exit_status"]) == ("[]", 0)


@pytest.mark.slow
@pytest.mark.parametrize("components", [1, 2, 3])
def test_a_mode_of_equal_components_has_one_image(components):
    """Two rows near the origin have one mode, at which all components are equal: its mass is the evidence, not K! times it.

    A thousand weights that are nearly equal have a mean that is known to some percent, and log 2 is 0.7.
    """
    data = table(np.array([[0.1], [-0.1]]))
    alike = MODELS["gmm_simple"](data, num_components=components)
    with x64(64):
        task = make_task(alike, data, 0, None, Silent())
        found = looks._mass(task, {"mean": np.zeros((components, 1))})
    assert found.sampled + gammaln(components + 1) == pytest.approx(fit(alike, data, "exact").attrs["log_evidence"], abs=0.1)


@pytest.mark.slow
def test_a_mode_with_other_pairs_of_the_same_coordinates_is_another():
    """Four pairs of rows on a cross: right goes with top or with bottom, by symmetry with half of the mass each."""
    cross = 4.0 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])
    data = table(np.repeat(cross, 2, axis=0) + np.tile([[-0.1, 0.1], [0.1, -0.1]], (4, 1)))
    two = MODELS["gmm_simple"](data, num_components=2)
    tree = fit(two, data, "gibbs", start={"mean": np.array([[2.0, 2.0], [-2.0, -2.0]])})
    assert look_for_modes(two, tree, data).attrs["unvisited_share"] == pytest.approx(0.5, abs=0.1)
