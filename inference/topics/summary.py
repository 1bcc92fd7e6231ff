"""Topics in print: one line per topic with its most probable words, instead of thousands of probabilities."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from inference.topics.access import OF_DOCUMENTS, OF_WORDS, most_probable
from inference.topics.stability import agreement_of_chains, topic_site

WIDTH = 80  # columns of a terminal
LISTED = 20  # words per topic in report.html
TITLE = "topics, largest first: share of documents, most probable words"


class Summary(NamedTuple):
    """The topics of a result, the largest first."""

    names: list[str]  # K
    share: np.ndarray | None  # (K,): mean share of a document
    words: list[list[str]]  # K lists, the most probable word first
    probs: np.ndarray  # (K, n)


def sites_of_topics(tree: xr.DataTree) -> list[str]:
    """The sites of a result that `topic_lines` replaces in print: words by topic and topics by document."""
    if topic_site(tree) is None:
        return []
    variables = _sites(tree).data_vars.items()
    return [str(name) for name, variable in variables if variable.dims[-2:] in (OF_WORDS, OF_DOCUMENTS)]


def _sites(tree: xr.DataTree) -> xr.Dataset:
    return tree["posterior" if "posterior" in tree else "point_estimate"].to_dataset()


def summary_of(tree: xr.DataTree, num_words: int = LISTED) -> Summary | None:
    """The most probable words of every topic, by the mean over the draws; None for a result without topics."""
    site = topic_site(tree)
    if site is None:
        return None
    sites = _sites(tree)
    word = sites[site]
    mean = np.asarray(word.mean(word.dims[:-2]))
    places = most_probable(mean, num_words)
    words = np.asarray(sites.coords["word"]).astype(str)
    shares = [variable.mean(variable.dims[:-1]) for variable in sites.data_vars.values() if variable.dims[-2:] == OF_DOCUMENTS]
    share = np.asarray(shares[0]) if shares else None
    order = np.arange(len(mean)) if share is None else np.argsort(-share, kind="stable")
    return Summary(
        [str(name) for name in np.asarray(sites.coords["topic"])[order]],
        None if share is None else share[order],
        [[words[v] for v in row] for row in places[order]],
        np.take_along_axis(mean, places, 1)[order],
    )


def topic_lines(tree: xr.DataTree, width: int = WIDTH) -> list[str]:
    """One line per topic, at most ``width`` columns: name, share, and as many words as fit; [] without topics."""
    summary = summary_of(tree)
    if summary is None:
        return []
    longest = min(max(map(len, summary.names)), width // 4)
    lines = []
    for k, name in enumerate(summary.names):
        share = "" if summary.share is None else f" {summary.share[k]:4.0%}"
        line = f"{name[:longest]:>{longest}}{share}  "
        for place, (word, probability) in enumerate(zip(summary.words[k], summary.probs[k], strict=True)):
            more = f"{', ' if place else ''}{word} {probability:.3f}".replace(" 0.", " .")
            if len(line) + len(more) > width:
                break
            line += more
        lines.append(line[:width].rstrip())
    return lines


def topic_table(tree: xr.DataTree) -> pd.DataFrame:
    """``share`` of a document and ``words`` of each topic, the largest first; empty without topics."""
    summary = summary_of(tree)
    if summary is None:
        return pd.DataFrame()
    pairs = (zip(words, probs, strict=True) for words, probs in zip(summary.words, summary.probs, strict=True))
    columns: dict[str, Any] = {} if summary.share is None else {"share": summary.share}
    columns["words"] = [", ".join(f"{word} {probability:.3f}" for word, probability in row) for row in pairs]
    return pd.DataFrame(columns, index=pd.Index(summary.names, name="topic"))


def topics_agree(tree: xr.DataTree) -> str:
    """One line on whether the chains of a result have the same topics; "" if it has no chains or topics to compare."""
    agreement = agreement_of_chains(tree)
    return "" if agreement is None else str(agreement.attrs["summary"])
