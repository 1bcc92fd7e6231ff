"""Topics over blocks that are killed, interrupted or shared out to processes go on to the same draws."""

import signal

import numpy as np
import pandas as pd
import pytest
from cut_documents import SMALL, assert_same_draws, cut
from fit_blocks import fit_blocks
from joined_processes import ended, started

from inference import read_stream
from inference.results.tree import load
from inference.runtime.checkpoints import store
from inference.streaming.topics import TopicChains
from models import MODELS, load_data
from models.base import ZooError


class KilledError(Exception):
    pass


@pytest.fixture
def always_due(monkeypatch):
    """A checkpoint after every chunk of sweeps, with checkpoint_seconds=0."""
    monkeypatch.setattr("inference.streaming.topic_chains.SHARE", np.inf)


@pytest.fixture(scope="module")
def corpus():
    data = load_data("bars", num_rows=30, length=12)
    return MODELS["latent_dirichlet"](data, num_topics=3, topic_concentration=0.7), data


@pytest.mark.parametrize("before", [False, True], ids=["after the main file", "before the main file"])
@pytest.mark.parametrize("kill", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_killed_run_goes_on_to_the_same_draws(corpus, tmp_path, monkeypatch, always_due, kill, before):
    """A kill in the warm-up or among the draws, before or after the main file is written."""
    model, data = corpus
    tables = cut(data, 13, 20)
    whole = fit_blocks(model, tables, "collapsed_gibbs", **SMALL)
    written = []

    def dying(*arguments):
        written.append(arguments[1])
        if before and len(written) == kill:
            raise KilledError
        store(*arguments)
        if len(written) == kill:
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("inference.streaming.topic_chains.store", dying)
        with pytest.raises(KilledError):
            fit_blocks(model, tables, "collapsed_gibbs", folder=tmp_path, checkpoint_seconds=0, **SMALL)
    tree = fit_blocks(model, tables, "collapsed_gibbs", folder=tmp_path, checkpoint_seconds=0, **SMALL)
    assert_same_draws(tree, whole)
    assert len(list(tmp_path.glob("topics-*"))) == 3  # of the last sweep alone
    more = fit_blocks(model, tables, "collapsed_gibbs", folder=tmp_path, **SMALL | {"num_samples": 6})
    assert_same_draws(more, fit_blocks(model, tables, "collapsed_gibbs", **SMALL | {"num_samples": 6}))


def test_ctrl_c_leaves_a_checkpoint(corpus, tmp_path, monkeypatch):
    model, data = corpus
    advance, calls = TopicChains.advance, []

    def interrupted(self, sweeps):
        calls.append(sweeps)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        advance(self, sweeps)

    with monkeypatch.context() as patch:
        patch.setattr(TopicChains, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt, match="after 4 sweeps of the draws; fit with the same arguments"):
            fit_blocks(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **SMALL)
    assert_same_draws(
        fit_blocks(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **SMALL),
        fit_blocks(model, cut(data, 13), "collapsed_gibbs", **SMALL),
    )


def test_files_of_topics_that_are_lost_or_of_others(corpus, tmp_path):
    model, data = corpus
    fit_blocks(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **SMALL)
    more = SMALL | {"num_samples": 6}
    path = next(tmp_path.glob("topics-*-1.npy"))
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"x" + content[51:])
    with pytest.raises(ZooError, match="does not match its checksum; remove the checkpoints of this run"):
        fit_blocks(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **more)
    path.write_bytes(next(tmp_path.glob("topics-*-0.npy")).read_bytes())
    with pytest.raises(ZooError, match="has topics of other documents"):
        fit_blocks(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **more)
    path.unlink()
    with pytest.raises(ZooError, match="cannot be read"):
        fit_blocks(model, cut(data, 13), "collapsed_gibbs", folder=tmp_path, **more)


# ---------------------------------------------------------------------------------------------------------------------
# Processes

OF_FILES = {"sizes": {"block_rows": 40, "sample_rows": 30}, "model": ("latent_dirichlet", {"num_topics": 3})}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of two tables of counts, 150 documents in all."""
    folder = tmp_path_factory.mktemp("documents") / "rows"
    folder.mkdir()
    data = load_data("bars", num_rows=150, length=12)
    table = pd.DataFrame(np.asarray(data.x), columns=[f"w{v}" for v in range(len(data.columns))])
    for place, part in enumerate(np.array_split(np.arange(150), [100])):
        table.iloc[part].to_parquet(folder / f"part{place}.parquet")
    return folder


def run(number, rows, folder, **options):
    folder.mkdir(exist_ok=True)
    given = OF_FILES | SMALL | {"rows": str(rows), "folder": str(folder)} | options
    for code, _, errors in ended(started(number, "collapsed_gibbs", folder / "results.nc", **given)):
        assert code == 0, errors
    return load(folder)


@pytest.mark.slow
def test_processes_draw_what_one_draws(files, tmp_path):
    """Bit for bit: counts are whole numbers, and random numbers belong to blocks."""
    one, two = (run(number, files, tmp_path / str(number)) for number in (1, 2))
    assert_same_draws(one, two)
    assert one.attrs["total_weight"] == two.attrs["total_weight"] == 150
    assert one["posterior"].sizes["document"] >= 30


@pytest.mark.slow
def test_two_processes_go_on_where_one_was_killed(files, tmp_path, monkeypatch, always_due):
    whole, folder = run(1, files, tmp_path / "whole"), tmp_path / "killed"
    folder.mkdir()
    written = []

    def dying(*arguments):
        store(*arguments)
        written.append(arguments[1])
        if len(written) == 4:
            raise KilledError

    source = read_stream(files, folder=folder, **OF_FILES["sizes"])
    name, given = OF_FILES["model"]
    model, options = MODELS[name](source.sample, **given), SMALL | {"folder": folder, "checkpoint_seconds": 0}
    with monkeypatch.context() as patch:
        patch.setattr("inference.streaming.topic_chains.store", dying)
        with pytest.raises(KilledError):
            fit_blocks(model, source, "collapsed_gibbs", **options)
    assert written[-1] == 4  # sweeps of the draws
    assert len(list(folder.glob("topics-*"))) == 2 * source.num_blocks  # those before are still there
    assert_same_draws(run(2, files, folder, checkpoint_seconds=0), whole)
    assert len(list(folder.glob("topics-*"))) == source.num_blocks
