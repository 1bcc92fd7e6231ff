"""Named corpora as word counts, and counting the words of texts."""

import importlib.util
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from models.data.arguments import require_whole
from models.data.table import Data, ZooError

SIDE = 5  # side of the pictures of `bars`, in pixels


def bags_of_texts(texts: Sequence[str], name: str = "texts", min_documents: int = 1, stop_words: bool = False) -> Data:
    """Count words (N, V) with scikit-learn: lower case, three or more letters, no digits.

    Words in fewer than ``min_documents`` texts are dropped, and with ``stop_words`` also the words of scikit-learn's English
    list. Raises `ZooError` if no word is left. A list of texts is read differently (`models.data.documents.tokenise`): shorter
    words, numbers and punctuation marks are tokens too, which are unknown to a model of these words.
    """
    require_whole("min_documents", min_documents)
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
    except ValueError as error:  # an empty vocabulary, or fewer texts than min_documents
        raise ZooError(f"{name}: no words are left in these texts ({error})") from error
    return Data(name, sparse.csr_array(counts), tuple(map(str, words.get_feature_names_out())))


def python_topics(min_documents: int = 2) -> Data:
    """The Python language reference, one document per topic of ``help()``, without English stop words.

    The text depends on the version of Python: 79 documents with about 30,000 tokens in 3.12.
    """
    from pydoc_data.topics import topics

    return bags_of_texts([topics[name] for name in sorted(topics)], "python_topics", min_documents, stop_words=True)


def bar_pictures() -> np.ndarray:
    """(10, 25): the topics of `bars`, each uniform over one row or one column of the 5 × 5 pixels."""
    rows = np.repeat(np.eye(SIDE), SIDE, axis=1)
    return np.vstack([rows, np.tile(np.eye(SIDE), SIDE)]) / SIDE


def bars(num_rows: int = 1000, length: int = 100, concentration: float = 1.0, seed: int = 0) -> Data:
    """Pictures of 5 × 5 pixels as documents of ``length`` tokens (Griffiths and Steyvers 2004); the topics are `bar_pictures`.

    The topic proportions of each document are drawn from Dirichlet(``concentration``).
    """
    for option, value in {"num_rows": num_rows, "length": length}.items():
        require_whole(option, value)
    if not np.isfinite(concentration) or concentration <= 0:
        raise ZooError(f"concentration must be finite and above 0, got {concentration!r}")
    rng, topics = np.random.default_rng(seed), bar_pictures()
    proportions = rng.dirichlet(np.full(len(topics), concentration), num_rows)
    counts = rng.multinomial(length, proportions @ topics).astype(np.float64)
    return Data("bars", counts, tuple(f"{row + 1},{column + 1}" for row in range(SIDE) for column in range(SIDE)))


def reuters() -> Data:
    """395 news stories with 4,258 distinct words, from the ``lda`` package; raises `ZooError` if it is not installed."""
    if importlib.util.find_spec("lda") is None:
        raise ZooError("data=reuters is read from the package lda, which is not installed: pip install lda")
    from lda import datasets

    return Data("reuters", sparse.csr_array(datasets.load_reuters().astype(np.float64)), tuple(datasets.load_reuters_vocab()))
