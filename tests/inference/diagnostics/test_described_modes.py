"""Sentences and tables of modes and labellings, from what draws have visited."""

import numpy as np

from inference.diagnostics.modes import NOWHERE, described_modes
from inference.engine.task import Kind

HEIGHTS = np.array([-312.4, -326.4])
ORDER, SWAPPED = [0, 1], [1, 0]


def test_one_mode_accuses_nothing():
    found = described_modes(np.zeros((2, 5), int), HEIGHTS[:1], None, remedy="use method=tempered_gibbs")
    assert found.sentences == (
        "One mode: all 10 draws that lead up to one reach log joint -312.40. A mode that no chain has visited is not seen.",
    )
    assert found.labellings is None
    assert found.crossings == (0, 0)


def test_chains_that_stay_apart_say_nothing_of_weights():
    mode = np.array([[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    found = described_modes(mode, HEIGHTS, None, remedy="use method=tempered_gibbs")
    assert found.sentences == (
        "2 modes, and no chain crosses between them: mode 1 (log joint -312.40) has chains 0 and 2, mode 2 (14.00 nats lower) "
        "has chain 1. The weights of the modes cannot be read off these chains: use method=tempered_gibbs.",
    )
    np.testing.assert_allclose(found.modes["share"], [2 / 3, 1 / 3])
    assert found.modes["chain 1"].tolist() == [0.0, 1.0]
    assert found.modes["below"].tolist() == [0.0, 14.0]
    assert "mode" in str(found)


def test_few_crossings_are_no_weights_and_many_are():
    few = np.array([[0, 1, 0, 0], [0, 0, 0, 0]])
    assert "cross 2 times" in described_modes(few, HEIGHTS, None).sentences[0]
    assert "cannot be read off" in described_modes(few, HEIGHTS, None).sentences[0]
    many = np.tile([[0, 1, 0, 0]], (2, 8))
    found = described_modes(many, HEIGHTS, None)
    assert found.crossings == (16, 16)
    shares = "mode 1 (log joint -312.40) has 75% of the draws, mode 2 (14.00 nats lower) has 25% of the draws."
    assert found.sentences[0].endswith(shares)
    one_stays = np.vstack([np.tile([0, 1], 16), np.zeros(32, int)])
    assert "cannot be read off" in described_modes(one_stays, HEIGHTS, None).sentences[0]
    independent = described_modes(few, HEIGHTS, None, kind=Kind.INDEPENDENT).sentences[0]
    assert independent.startswith("2 modes among independent draws: mode 1 (log joint -312.40) has 88%")


def test_draws_that_lead_nowhere_are_counted_apart():
    found = described_modes(np.array([[0, NOWHERE, 0, 0]]), HEIGHTS[:1], None)
    assert found.modes["share"].tolist() == [0.75]
    assert found.sentences[1] == "From 25% of the draws EM climbs to no mode in the iterations that it has."
    assert described_modes(np.full((1, 2), NOWHERE), np.zeros(0), None).sentences[0].startswith("None of the 2 draws")


def test_labellings_are_counted_by_chain():
    moves = np.array([[ORDER, SWAPPED, SWAPPED, ORDER], [ORDER] * 4])
    found = described_modes(np.zeros((2, 4), int), HEIGHTS[:1], moves)
    assert found.labellings is not None
    assert found.labellings["visited"].tolist() == [2, 1]
    assert found.labellings["switches"].tolist() == [2, 0]
    assert found.sentences[1].startswith("Every chain visits 1 to 2 of the 2 labellings, and labels switch 2 times.")
