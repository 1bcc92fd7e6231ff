"""Corpora in files: what is read is what was written, whatever the format, and slips are named with their line."""

import gzip
from functools import partial

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from inference.cli.main import run_main
from inference.cli.runs.execute import read_data
from models import MODELS, ZooError, load_data
from models.data.documents import tokenise
from models.datasets.corpora import bags_of_texts
from models.topics.latent import Bags

WORDS = ("apple", "pear", "plum", "fig")
COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 3, 0, 1], [1, 1, 1, 1]])
TEXTS = ["the apple and the pear", "a plum is a fig", "pear apple pear"]


def written(path, text, packed=False):
    if packed:
        path = path.with_name(path.name + ".gz")
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        path.write_text(text, encoding="utf-8")
    return path


def lda_c(counts=COUNTS):
    rows = ([(v, n) for v, n in enumerate(row) if n] for row in counts)
    return "".join(" ".join([str(len(row)), *(f"{v}:{n}" for v, n in row)]) + "\n" for row in rows)


def uci(counts=COUNTS):
    cells = [f"{d + 1} {v + 1} {counts[d, v]}" for d, v in np.argwhere(counts)]
    return "\n".join([*map(str, counts.shape), str(len(cells)), *cells]) + "\n"


FORMATS = {"lda_c": (lda_c, "corpus.dat"), "uci": (uci, "docword.corpus.txt")}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_read_is_what_was_written(tmp_path, form, packed):
    """Also a document without a word; the vocabulary is named, or found beside the file."""
    write, name = FORMATS[form]
    words = written(tmp_path / "words", "\n".join(WORDS) + "\n\n")
    file = written(tmp_path / name, write(), packed)
    data = load_data(str(file), format=form, vocabulary=str(words))
    np.testing.assert_array_equal(data.x.toarray(), COUNTS)
    assert data.columns == WORDS
    with pytest.raises(ZooError, match="no vocabulary file next to"):
        load_data(file, format=form)
    words.rename(tmp_path / "vocab.txt")
    np.testing.assert_array_equal(load_data(file, format=form).x.toarray(), COUNTS)


def test_words_of_texts_are_words_of_documents():
    """Both tokenisers find the same words of three letters or more, so that a list of texts can be asked about."""
    texts = ["Don't re-read foo_bar, abc1 or 42 cafés!", "Straße ÜBER naïve x² ab\u0301c", "well-known… “quoted” (words)"]
    found = bags_of_texts(texts)
    wanted = [[w for w in tokenise(text, "word") if len(w) >= 3 and w.isalpha()] for text in texts]
    assert found.columns == tuple(sorted({word for row in wanted for word in row}))
    np.testing.assert_array_equal(found.x.toarray(), [[row.count(word) for word in found.columns] for row in wanted])


def test_uci_names_its_vocabulary_after_itself(tmp_path):
    written(tmp_path / "vocab.corpus.txt", "\n".join(WORDS))
    written(tmp_path / "vocab.txt", "other")
    assert load_data(written(tmp_path / "docword.corpus.txt", uci()), format="uci").columns == WORDS


def test_a_corpus_without_a_word_is_one(tmp_path):
    words = written(tmp_path / "vocab.txt", "\n".join(WORDS))
    empty = np.zeros((2, 4), int)
    for form, (write, name) in FORMATS.items():
        found = load_data(written(tmp_path / name, write(empty)), format=form, vocabulary=words)
        np.testing.assert_array_equal(found.x.toarray(), empty)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0:1\n\n1 1:1\n", "line 2: the line is empty; write 0 for a document without words"),
        ("1 0:1\n2 1:1\n", "line 2: it announces 2 words, but has 1"),
        ("1 0:1\n1 1\n", "line 2: expected N term:count"),
        ("2 0:1\n0 1:2\n", "line 1: it announces 2 words, but has 1"),
        ("1 x:1\n", "line 1: expected N term:count"),
        ("1 0:1.5\n", "line 1: expected N term:count"),
        ("1 0:-1\n", "line 1: expected N term:count"),
        ("1 0:1\n1 4:1\n", "line 2: the vocabulary of 4 words has no word number 4"),
        ("2 0:1 0:2\n", "line 1: the word 'apple' is counted twice"),
        ("2 1:2:3 3\n", "line 1: expected N term:count"),
        ("1 0:1\n2:1 2 3:1\n", "line 2: expected N term:count"),
        ("1 99999999999999999999:1\n", "line 1: a number in it is too large"),
        ("", "is empty"),
    ],
)
def test_slips_in_lda_c(tmp_path, text, message):
    words = written(tmp_path / "vocab.txt", "\n".join(WORDS))
    with pytest.raises(ZooError, match=message) as caught:
        load_data(written(tmp_path / "corpus.dat", text), format="lda_c", vocabulary=words)
    assert "corpus.dat" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n4\n", "begin with the three lines D, W, NNZ"),
        ("2\nfour\n1\n1 1 1\n", "line 2: expected W, the number of words"),
        ("2\n4\n2\n1 1 1\n3 1 1\n", "line 5: the document is 3; it must be at least 1 and at most 2"),
        ("2\n4\n2\n1 1 1\n1 5 1\n", "line 5: the word is 5; it must be at least 1 and at most 4"),
        ("2\n4\n2\n0 1 1\n1 2 1\n", "line 4: the document is 0"),
        ("2\n4\n2\n1 1 1\n1 2 -1\n", "line 5: "),
        ("2\n4\n2\n1 1 1\n1 2\n", "line 5: expected document word count"),
        ("2\n4\n2\n1 1 1 1\n1 2 1 1\n", "line 4: expected document word count"),
        ("2\n4\n2\n1 1 1\n1 2 x\n", "line 5: expected document word count"),
        ("2\n4\n2\n1 1 1\n\n1 2 1\n", "line 5: expected document word count"),
        ("2\n4\n3\n1 1 1\n1 2 1\n", "announces 3 lines of counts on line 3, but has 2"),
        ("2\n4\n2\n1 1 1\n1 1 2\n", "line 5: the word 'apple' is counted twice"),
        ("10000000000000\n4\n1\n1 1 1\n", "line 1: nearly all of the 10000000000000 documents would be empty"),
        (f"{'9' * 5000}\n4\n1\n1 1 1\n", "line 1: expected D, .* a whole number of at most 18 digits"),
        ("2\n5\n1\n1 1 1\n", "has 5 words .its second line., but the vocabulary 4"),
    ],
)
def test_slips_in_uci(tmp_path, text, message):
    words = written(tmp_path / "vocab.txt", "\n".join(WORDS))
    with pytest.raises(ZooError, match=message) as caught:
        load_data(written(tmp_path / "docword.txt", text), format="uci", vocabulary=words)
    assert "docword.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("apple\n\nplum\nfig", "line 2: the line has no word"),
        ("apple\npear\napple\nfig", "line 3: the word 'apple' is already on line 1"),
        ("", "has no words"),
    ],
)
def test_slips_in_a_vocabulary(tmp_path, words, message):
    file = written(tmp_path / "corpus.dat", lda_c())
    with pytest.raises(ZooError, match=message):
        load_data(file, format="lda_c", vocabulary=written(tmp_path / "vocab.txt", words))
    with pytest.raises(ZooError, match="there is no file"):
        load_data(file, format="lda_c", vocabulary=tmp_path / "none.txt")


def test_texts_are_those_of_a_list(tmp_path):
    """A file with a text a line, and a folder with a text a file, subfolders too; hidden files are none."""
    wanted = bags_of_texts(TEXTS)
    lines = written(tmp_path / "texts.txt", "\n".join([TEXTS[0], "", *TEXTS[1:]]))
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    for path, text in zip((folder / "a.txt", folder / "b", folder / "more" / "a.txt"), TEXTS, strict=True):
        written(path, text)
    written(folder / ".hidden", "secret")
    for source in (lines, folder):
        found = load_data(source, format="texts")
        assert found.columns == wanted.columns
        np.testing.assert_array_equal(found.x.toarray(), wanted.x.toarray())
    stop = load_data(folder, format="texts", stop_words=True, min_documents=2)
    assert stop.columns == bags_of_texts(TEXTS, min_documents=2, stop_words=True).columns


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "bow"}, "is not one of lda_c, uci, texts"),
        ({"format": "texts", "vocabulary": "v"}, "vocabulary does not go with format=texts"),
        ({"format": "uci", "stop_words": True}, "stop_words does not go with format=uci"),
        ({"format": "texts", "label": "kind"}, "label does not go with format=texts"),
        ({"format": "texts", "unit": "character"}, "unit=character does not go with format=texts"),
        ({"format": "uci", "unit": "word"}, "unit=word does not go with format=uci"),
        ({"format": "lda_c", "kind": "covariance", "num_rows": 9}, "kind=covariance cannot be combined with format=lda_c"),
        ({"vocabulary": "v"}, "vocabulary needs format=lda_c"),
        ({}, "is a folder: data.format=texts reads each of its files"),
        ({"format": "uci"}, "is a folder: format=uci reads one file"),
        ({"format": "texts"}, "holds no files"),
    ],
)
def test_what_does_not_go_together(tmp_path, options, message):
    with pytest.raises(ZooError, match=message):
        load_data(tmp_path, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop_words": "german"}, "stop_words must be true or false, .*English list, got 'german'"),
        ({"min_documents": 0.5}, "min_documents must be a whole number above 0, got 0.5"),
        ({"min_documents": True}, "min_documents must be a whole number above 0, got True"),
        ({"min_documents": 0}, "min_documents must be a whole number above 0, got 0"),
        ({"min_documents": 4}, "no words are left"),
    ],
)
def test_options_of_texts(tmp_path, options, message):
    """What scikit-learn would take for something else, or refuse in words of its own."""
    with pytest.raises(ZooError, match=message):
        load_data(written(tmp_path / "texts.txt", "\n".join(TEXTS)), format="texts", **options)


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "texts.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ZooError, match="cannot be read as text in UTF-8"):
        load_data(tmp_path / "texts.txt", format="texts")
    (tmp_path / "texts.gz").write_bytes(b"no gzip")
    with pytest.raises(ZooError, match="cannot be read as text"):
        load_data(tmp_path / "texts.gz", format="texts")
    with pytest.raises(ZooError, match="there is no file or folder"):
        load_data(tmp_path / "none", format="texts")


@pytest.mark.slow
def test_the_shell_reads_them(tmp_path, capsys):
    """``data=<file> data.format=…``: a run, with the size of the corpus before it; a slip exits with 2."""
    written(tmp_path / "vocab.txt", "\n".join(WORDS))
    file = written(tmp_path / "corpus.dat", lda_c())
    run = [
        "model=latent_dirichlet",
        "model.num_topics=2",
        "method=em",
        f"data={file}",
        "progress=false",
        "pictures=false",
        "max_iter=2000",
    ]
    assert run_main([*run, "data.format=lda_c", f"out={tmp_path / 'run'}"]) in (0, 3)
    said = capsys.readouterr()
    assert "4 documents, 4 words, 11 tokens" in " ".join(said.err.split())
    assert (tmp_path / "run" / "report.html").exists()
    with pytest.raises(ZooError, match="line 1"):
        run_main([*run, "data.format=uci"])


def test_the_configuration_asks_for_nothing():
    """Options of a corpus that are not given do not matter to a table."""
    options = {"name": "file", "path": None, "format": None, "vocabulary": None}
    with pytest.raises(ZooError, match=r"needs data\.path"):
        read_data(options)


def cells(model, data) -> Bags:
    return jax.jit(partial(model.algebra.features, dict(model.hyper)))(model.rows(data)).bags


def test_frames_arrays_and_matrices_with_names_are_one_corpus():
    """A DataFrame, a sparse matrix whose columns are named, in any order of columns, and the file: the same cells."""
    frame = pd.DataFrame(COUNTS, columns=list(WORDS))
    other = load_data(sparse.csr_array(COUNTS), columns=list(WORDS), name="matrix")
    model = MODELS["latent_dirichlet"](load_data(frame), num_topics=2)
    assert model.naming.coords["word"] == list(WORDS)
    wanted = cells(model, load_data(frame))
    for data in (other, load_data(frame[list(WORDS[::-1])]), frame):
        found = cells(model, data)
        for left, right in zip(wanted.words, found.words, strict=True):
            np.testing.assert_array_equal(left, right)
    matrix = MODELS["latent_dirichlet"](sparse.csc_matrix(COUNTS), num_topics=2)
    assert matrix.naming.coords["word"] == ["x0", "x1", "x2", "x3"]


def test_counts_that_no_memory_holds(tmp_path):
    """A line may ask for any number of words: refused by its number, and from a table before anything is made of it."""
    written(tmp_path / "vocab.txt", "apple\n")
    for name, format, text, line in (("a", "uci", "1\n1\n1\n1 1 3000000000\n", 4), ("b", "lda_c", "1 0:3000000000\n", 1)):
        with pytest.raises(ZooError, match=f"line {line}: a word is counted 3000000000 times"):
            load_data(written(tmp_path / f"{name}.txt", text), format=format, vocabulary=tmp_path / "vocab.txt")
    table = load_data(pd.DataFrame({"apple": [3_000_000_000, 1], "pear": [1, 2]}), types={"apple": "count", "pear": "count"})
    with pytest.raises(ZooError, match="3000000000 times"):
        MODELS["latent_dirichlet"](table, num_topics=2).rows(table)
    bags = load_data(sparse.csr_array(np.eye(3000)))
    with pytest.raises(ZooError, match=r"would need .* GiB of memory"):  # 3,000 padded rows of a thousand million
        MODELS["latent_dirichlet"](bags, num_topics=2).rows(bags._replace(x=bags.x * 1e9))
