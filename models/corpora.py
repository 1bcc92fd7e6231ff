"""Named corpora, as counts of words by document, and texts as such."""

import importlib.util
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from models.data import Data, ZooError

SIDE = 5  # pixels of a side of `bars`


def bags_of_texts(texts: Sequence[str], name: str = "texts", min_documents: int = 1, stop_words: bool = False) -> Data:
    """Counts of the lower-case words (N, V) of texts, of letters alone and three or more of them, by scikit-learn.

    `models.documents.tokenise`, by which a list of texts is read, finds these words too, and also shorter ones, numbers and
    punctuation marks: to a model of these words they are unknown.

    Words of fewer than ``min_documents`` texts are left out, and with ``stop_words`` those of scikit-learn's English list.
    Raises `ZooError` where no word is left.
    """
    if isinstance(min_documents, bool) or not isinstance(min_documents, int) or min_documents < 1:
        raise ZooError(f"min_documents must be a whole number above 0, got {min_documents!r}")
    if not isinstance(stop_words, bool):
        raise ZooError(f"stop_words must be true or false, true being scikit-learn's English list, got {stop_words!r}")
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(
        token_pattern=r"(?u)\b[^\W\d_]{3,}\b",
        min_df=min_documents,
        stop_words="english" if stop_words else None,
        dtype=np.float64,
    )
    try:
        counts = words.fit_transform(texts)
    except ValueError as error:  # an empty vocabulary, or fewer texts than min_documents: the options are checked above
        raise ZooError(f"{name}: no word is left of these texts ({error})") from error
    return Data(name, sparse.csr_array(counts), tuple(map(str, words.get_feature_names_out())))


def python_topics(min_documents: int = 2) -> Data:
    """The language reference that ships with Python, a document a topic of ``help()``: its words without English stop words.

    The text follows the version of Python: 79 documents of some 30,000 tokens in 3.12.
    """
    from pydoc_data.topics import topics

    return bags_of_texts([topics[name] for name in sorted(topics)], "python_topics", min_documents, stop_words=True)


def bar_pictures() -> np.ndarray:
    """(10, 25): the topics of `bars`, the five rows and the five columns of a square, each a distribution over its pixels."""
    rows = np.repeat(np.eye(SIDE), SIDE, axis=1)
    return np.vstack([rows, np.tile(np.eye(SIDE), SIDE)]) / SIDE


def bars(num_rows: int = 1000, length: int = 100, concentration: float = 1.0, seed: int = 0) -> Data:
    """Pictures of 5 × 5 pixels as documents (Griffiths and Steyvers 2004): ``length`` tokens each, ten topics, `bar_pictures`.

    Every document has proportions of its own from Dirichlet(``concentration``).
    """
    for option, value in {"num_rows": num_rows, "length": length}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ZooError(f"{option} must be a whole number above 0, got {value!r}")
    if not np.isfinite(concentration) or concentration <= 0:
        raise ZooError(f"concentration must be finite and above 0, got {concentration!r}")
    rng, topics = np.random.default_rng(seed), bar_pictures()
    proportions = rng.dirichlet(np.full(len(topics), concentration), num_rows)
    counts = rng.multinomial(length, proportions @ topics).astype(np.float64)
    return Data("bars", counts, tuple(f"{row + 1},{column + 1}" for row in range(SIDE) for column in range(SIDE)))


def reuters() -> Data:
    """395 news stories with 4,258 words, as the ``lda`` package ships them; raises `ZooError` where it is not installed."""
    if importlib.util.find_spec("lda") is None:
        raise ZooError("data=reuters is read from the package lda, which is not installed: pip install lda")
    from lda import datasets

    return Data("reuters", sparse.csr_array(datasets.load_reuters().astype(np.float64)), tuple(datasets.load_reuters_vocab()))
