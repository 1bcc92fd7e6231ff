"""Named sequences: generators against their truth, what is a sequence and what a label, and options that are refused."""

from string import ascii_lowercase

import numpy as np
import pytest
from two_stage import assert_standard_normal, of_counts

from inference import fit
from inference.report.groups import adjusted_rand_index
from inference.report.remarks import remarks
from models import MODELS, ZooError, load_data
from models.datasets.sequences import (
    CASINO_ROLLS,
    CASINO_STARTS,
    CASINO_TRANSITIONS,
    LEXICON,
    SYMBOLS,
    TAGS,
    VOWELS,
    casino,
    grammar,
    letters,
    tagger,
)


def follows(data):
    """(S, S + 1): how often a label followed each in a sequence, and ended it."""
    size = len(data.levels)
    count = np.zeros((size, size + 1))
    for first, last in zip(data.starts[:-1], data.starts[1:], strict=True):
        steps = [*data.labels[first:last], size]
        np.add.at(count, (steps[:-1], steps[1:]), 1)
    return count


def away(count, probs):
    """Every count (…, K) against its probability, row by row."""
    return np.ravel(of_counts(count, count.sum(-1, keepdims=True), probs))


def seen(data, size):
    """(S, V): how often a label had each symbol."""
    count = np.zeros((len(data.levels), size))
    np.add.at(count, (data.labels, data.x[:, 0].astype(int)), 1)
    return count


def test_the_casino_is_that_of_the_book():
    """Sequences of 5 rolls: 18 shares."""

    def deviations(seed, times):
        data = casino(num_rows=50_000 * times, num_sequences=10_000 * times, seed=seed)
        starts = away(np.bincount(data.labels[data.starts[:-1]], minlength=2), CASINO_STARTS)
        return np.concatenate([starts, away(follows(data)[:, :2], CASINO_TRANSITIONS), away(seen(data, 6), CASINO_ROLLS)])

    assert_standard_normal(deviations)
    for probs in (CASINO_STARTS, CASINO_TRANSITIONS, CASINO_ROLLS):
        np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-15)
    np.testing.assert_allclose(CASINO_STARTS @ CASINO_TRANSITIONS, CASINO_STARTS, atol=1e-15)  # stationary


def test_sequences_of_the_casino_are_as_equal_as_they_can_be():
    data = casino(num_rows=10, num_sequences=3)
    assert sorted(np.diff(data.starts)) == [3, 3, 4]
    assert list(casino(num_rows=10).starts) == [0, 10]
    np.testing.assert_array_equal(data.x, casino(num_rows=10, num_sequences=3).x)
    assert not np.array_equal(casino(seed=1).x, casino(seed=2).x)


def test_sentences_follow_the_grammar():
    """Starts, transitions and words of sentences. What cannot be never is."""
    start, transition, emission = grammar()
    for probs in (start, transition, emission):
        np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-14)

    def deviations(seed, times):
        data = tagger(num_sequences=4000 * times, seed=seed)
        assert data.categories == (tuple(LEXICON),)
        assert data.levels == TAGS
        starts = away(np.bincount(data.labels[data.starts[:-1]], minlength=5), start)
        return np.concatenate([starts, away(follows(data), transition), away(seen(data, len(LEXICON)), emission)])

    assert_standard_normal(deviations)


def test_hidden_tags_change_nothing_else():
    """A share of 0.3 of all tags."""

    def deviations(seed, times):
        whole, some = (tagger(num_sequences=1500 * times, seed=seed, **options) for options in ({}, {"missing": 0.3}))
        np.testing.assert_array_equal(whole.x, some.x)
        hidden = some.labels < 0
        np.testing.assert_array_equal(whole.labels[~hidden], some.labels[~hidden])
        return of_counts(hidden.sum(), len(hidden), 0.3)

    assert_standard_normal(deviations)
    assert (tagger(num_sequences=3, missing=1).labels == -1).all()


def naive_text(texts):
    """Letters one by one, and one space for whatever stands between two of them."""
    out = ""
    for character in " ".join(texts).lower():
        if character in ascii_lowercase:
            out += character
        elif out and out[-1] != " ":
            out += " "
    return out.removesuffix(" ")


def in_symbols(data):
    return "".join(" " if SYMBOLS[int(code)] == "space" else SYMBOLS[int(code)] for code in data.x[:, 0])


def test_letters_are_those_of_the_texts():
    from pydoc_data.topics import topics

    names = sorted(topics)[:3]
    one, apart = letters(num_letters=3000), letters(num_letters=9000, by_topic=True)
    assert in_symbols(one) == naive_text([topics[name] for name in names])[:3000]
    text = in_symbols(apart)
    for name, first, last in zip(names[:2], apart.starts[:-1], apart.starts[1:], strict=False):
        assert text[first:last] == naive_text([topics[name]])[: last - first]
    assert apart.starts[1] == len(naive_text([topics[names[0]]]))
    assert apart.starts[-1] == 9000
    assert list(one.starts) == [0, 3000]


def test_letters_that_are_neither_vowel_nor_consonant_have_no_label():
    data = letters(num_letters=4000)
    for symbol, label in zip(in_symbols(data), data.labels, strict=True):
        assert label == (-1 if symbol in " y" else 0 if symbol in VOWELS else 1)
    assert data.levels == ("vowel", "consonant")


@pytest.mark.slow
def test_two_states_find_vowels_and_consonants():
    """From the starts that every fit makes, of which none knows them (Cave and Neuwirth 1980)."""
    data = load_data("letters")
    tree = fit(MODELS["hmm"](data, num_states=2, boundary=False), data, "em")
    known = data.labels >= 0
    score = adjusted_rand_index(data.labels[known], tree["latent"]["decode"].values.ravel()[known])
    assert score > 0.5  # 1 is agreement, 0 is chance
    said = [line for line in remarks(tree) if "adjusted Rand index" in line]
    assert len(said) == 1  # steps without a label do not count
    assert f"{score:.3f}" in said[0]


@pytest.mark.slow
def test_labels_of_sequences_compare_with_their_states():
    """Sequences of several lengths: what is beyond their ends is no state."""
    data = tagger(num_sequences=30, missing=0.2)
    tree = fit(MODELS["hmm"](data, num_states=2), data, "em", num_starts=1, max_iter=2)
    decode = tree["latent"]["decode"].values
    steps = np.concatenate([row[:length] for row, length in zip(decode, np.diff(data.starts), strict=True)])
    known = data.labels >= 0
    assert any(f"{adjusted_rand_index(data.labels[known], steps[known]):.3f}" in line for line in remarks(tree))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("casino", {"num_rows": 0}, "num_rows must be a whole number above 0"),
        ("casino", {"num_rows": 2.5}, "num_rows must be a whole number"),
        ("casino", {"num_sequences": True}, "num_sequences must be a whole number"),
        ("casino", {"num_rows": 3, "num_sequences": 4}, "num_sequences=4 is more than num_rows=3"),
        ("letters", {"num_letters": -1}, "num_letters must be a whole number"),
        ("letters", {"num_letters": 10**9}, "more than the"),
        ("letters", {"by_topic": "yes"}, "by_topic must be true or false"),
        ("tagger", {"num_sequences": "many"}, "num_sequences must be a whole number"),
        ("tagger", {"missing": 1.5}, "missing must be a share from 0 to 1"),
        ("tagger", {"missing": "some"}, "missing must be a number, such as 0.0"),
        ("tagger", {"num_rows": 3}, "unknown option 'num_rows' of data set tagger"),
    ],
)
def test_options_are_checked(name, options, words):
    with pytest.raises(ZooError, match=words):
        load_data(name, **options)


@pytest.mark.slow
def test_a_state_a_tag_is_learnt_from_its_labels():
    """All tags known: transitions are those that were counted, with the prior's concentration − 1 = 0.1 added."""
    data = tagger(num_sequences=60)
    model = MODELS["hmm"](data, num_states=5, labelled=True)
    tree = fit(model, data, "em", num_starts=1, max_iter=3)
    count = follows(data) + 0.1
    found = tree["point_estimate"]["transition_probs"].values
    np.testing.assert_allclose(found, count / count.sum(1, keepdims=True), rtol=1e-12)
