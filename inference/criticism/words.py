"""Do words within a topic depend on the document more than under the model? `topic_check`, as statistics of the page.

They are the mutual information of words and documents of every topic, and the instantaneous one of the words that deviate most,
in the corpus and in replicated ones, whose words are drawn from the model given the same topics (Mimno and Blei 2011).
"""

from typing import Any

import numpy as np
import xarray as xr

from inference.criticism.replications import DRAWS, Compared
from inference.topics.access import has_topics
from inference.topics.posterior_check import information_of_draws, mean_there, most_deviant
from models.base import Data, Model, Sites
from models.data.documents import Sequences
from models.data.table import is_sparse

MOST_WORK = 120_000  # up to which a corpus is checked by default; `bars`, of 100,000 tokens, takes three seconds
WORDS = 8  # of every topic
ALL = "all words"


def has_word_checks(model: Model, data: Any) -> bool:
    """Whether the model has topics, and the corpus is small enough: tokens, and a quarter of words and documents by topic."""
    if not has_topics(model) or not isinstance(data, Data):
        return False
    tokens, topics = number_of_tokens(data), len(model.naming.coords["topic"])
    return tokens > 0 and tokens + topics * (len(data.columns) + data.num_rows) / 4 <= MOST_WORK


def number_of_tokens(data: Data) -> int:
    """Tokens of all documents, whether they are given one by one or counted."""
    if isinstance(data.x, Sequences):
        return int((data.x.tokens >= 0).sum())
    return int(np.nansum(data.x.data if is_sparse(data.x) else data.x))


def word_checks(model: Model, source: xr.DataTree | Sites, data: Any, num_draws: int = DRAWS, seed: int = 0) -> list[Compared]:
    """One statistic for each topic that has tokens: its information in all, and that of its words that deviate most, in nats.

    The p-value is that of the information in all: the share of the replicated corpora and the observed one in which it is at
    least that observed. Draws in which a topic, or a word in it, has no tokens do not count.
    """
    looked = information_of_draws(model, source, data, seed, num_draws)
    checks = []
    for k, name in enumerate(looked.topics.names):
        seen, again = looked.seen.topic[:, k], looked.again.topic[:, k]
        there = np.isfinite(seen) & np.isfinite(again)
        if not there.any():
            continue
        places = most_deviant(looked, k, WORDS)
        observed = mean_there(np.column_stack([seen, looked.seen.word[:, k, places]]))
        replicated = np.column_stack([again, looked.again.word[:, k, places]])
        names = (ALL, *(looked.topics.words[looked.among[k, place]] for place in places))
        p_value = (1 + (again >= seen)[there].sum()) / (1 + there.sum())
        checks.append(Compared(f"topic {name}", observed, replicated, names, None, float(p_value), unit="information (nats)"))
    return checks
