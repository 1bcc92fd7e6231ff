"""How models are inferred: `fit` runs any method on any model and returns one `xarray.DataTree`.

Importing this package loads nothing heavy; the first call does. The functions live in modules of other names, because a
submodule of the same name would take their place in the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from inference.comparison import Comparison
    from inference.imputation import Pooled
    from inference.topic_checking import Check
    from models.base import Model, Sites

# name -> module with Options (its options and their defaults) and run(task, options)
METHODS: dict[str, str] = {
    "em": "inference.em",
    "hard_em": "inference.hard_em",
    "stochastic_em": "inference.stochastic_em",
    "cavi": "inference.cavi",
    "exact": "inference.exact",
    "gibbs": "inference.gibbs",
    "collapsed_gibbs": "inference.collapsed_gibbs",
    "map": "inference.map",
    "laplace": "inference.laplace",
    "nuts": "inference.nuts",
}


def fit(model: Model | Any, data: Any, method: str = "nuts", **options: Any) -> xr.DataTree:
    """Infer ``model`` on ``data`` by ``method``; see `inference.fitting.fit` for the options and the result."""
    from inference import fitting

    return fitting.fit(model, data, method, **options)


def compare(trees: Mapping[str, xr.DataTree], reference: str | None = None) -> Comparison:
    """Several results of one model on the same data in one table and one picture; see `inference.comparison.compare`."""
    from inference import comparison

    return comparison.compare(trees, reference)


def identify(tree: xr.DataTree, model: Model, data: Any, criterion: str = "varimax") -> xr.DataTree:
    """A result with its draws relabelled, or its factors rotated, again from the raw ones; see `inference.fitting.identify`."""
    from inference import fitting

    return fitting.identify(tree, model, data, criterion)


def rotate(loading: Any, criterion: str = "varimax") -> np.ndarray:
    """Loadings in the rotation that is simplest to read: varimax, quartimax or promax; see `inference.rotation.rotate`."""
    from inference import rotation

    return rotation.rotate(loading, criterion)


def predict(model: Model, source: xr.DataTree | Sites, data: Any, **options: Any) -> xr.Dataset:
    """Component probabilities and log density of new rows, averaged over draws; see `inference.prediction.predict`."""
    from inference import prediction

    return prediction.predict(model, source, data, **options)


def decode(model: Model, source: xr.DataTree | Sites, data: Any, how: str = "viterbi", **options: Any) -> xr.Dataset:
    """Paths of states through sequences: the most probable, the k best, or drawn; see `inference.decoding.decode`."""
    from inference import decoding

    return decoding.decode(model, source, data, how, **options)


def stepwise(model: Model, tree: xr.DataTree, data: Any) -> xr.DataTree:
    """A result with the log density of every step given those before it, for `arviz.loo`; see `inference.decoding.stepwise`."""
    from inference import decoding

    return decoding.stepwise(model, tree, data)


def impute(model: Model, source: xr.DataTree | Sites, data: Any, **options: Any) -> xr.Dataset:
    """Missing cells under the posterior, with draws and probabilities; see `inference.imputation.impute`."""
    from inference import imputation

    return imputation.impute(model, source, data, **options)


def completed_table(model: Model, imputed: xr.Dataset, data: Any, draw: int | None = None) -> pd.DataFrame:
    """The table with its missing cells filled in, as a DataFrame; see `inference.imputation.completed_table`."""
    from inference import imputation

    return imputation.completed_table(model, imputed, data, draw)


def pooled(estimates: Any, variances: Any) -> Pooled:
    """An estimate over several completed tables, by Rubin's rules; see `inference.imputation.pooled`."""
    from inference import imputation

    return imputation.pooled(estimates, variances)


def co_clustering(model: Model, source: xr.DataTree | Sites, data: Any, **options: Any) -> xr.DataArray:
    """P(two rows share a component | x), whatever the labels; see `inference.clustering.co_clustering`."""
    from inference import clustering

    return clustering.co_clustering(model, source, data, **options)


def uncertain_rows(tree: xr.DataTree, below: float = 0.9) -> pd.DataFrame:
    """Rows that are not sure of their component, the least certain first; see `inference.clustering.uncertain_rows`."""
    from inference import clustering

    return clustering.uncertain_rows(tree, below)


def plot_loadings(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> Figure:
    """Loadings of every column on every factor, with their intervals; see `inference.pictures.plot_loadings`."""
    from inference import pictures

    return pictures.plot_loadings(model, source, path)


def plot_profile(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> Figure:
    """What the components look like, column by column; see `inference.pictures.plot_profile`."""
    from inference import pictures

    return pictures.plot_profile(model, source, path)


def plot_co_clustering(
    model: Model, source: xr.DataTree | Sites, data: Any, path: str | Path | None = None, **options: Any
) -> Figure:
    """`co_clustering` as a heat map, rows that belong together as neighbours; see `inference.pictures.plot_co_clustering`."""
    from inference import pictures

    return pictures.plot_co_clustering(model, source, data, path, **options)


def plot_states(model: Model, source: xr.DataTree | Sites, data: Any, path: str | Path | None = None, **options: Any) -> Figure:
    """States of one sequence over time, with what was observed; see `inference.sequence_pictures.plot_states`."""
    from inference import sequence_pictures

    return sequence_pictures.plot_states(model, source, data, path, **options)


def plot_transitions(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> Figure:
    """How states follow each other, as a diagram and a table; see `inference.sequence_pictures.plot_transitions`."""
    from inference import sequence_pictures

    return sequence_pictures.plot_transitions(model, source, path)


def plot_emissions(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> Figure:
    """What every state emits; see `inference.sequence_pictures.plot_emissions`."""
    from inference import sequence_pictures

    return sequence_pictures.plot_emissions(model, source, path)


def perplexity(model: Model, source: xr.DataTree | Sites, data: Any, how: str = "left_to_right", **options: Any) -> xr.Dataset:
    """How well words of new documents are foretold: left to right, or by completion; see `inference.own_rows.perplexity`."""
    from inference.own_rows import perplexity as of_rows

    return of_rows(model, source, data, how, **options)


def top_words(model: Model, source: xr.DataTree | Sites, num_words: int = 10) -> pd.DataFrame:
    """The most probable words of every topic, with their probabilities; see `inference.topic_quality.top_words`."""
    from inference import topic_quality

    return topic_quality.top_words(model, source, num_words)


def coherence(
    model: Model, source: xr.DataTree | Sites, data: Any, measure: str = "u_mass", num_words: int = 10, reference: Any = None
) -> pd.DataFrame:
    """How often the words of a topic stand in the same documents; see `inference.topic_quality.coherence`."""
    from inference import topic_quality

    return topic_quality.coherence(model, source, data, measure, num_words, reference)


def topic_diagnostics(model: Model, source: xr.DataTree | Sites, data: Any, num_words: int = 10) -> pd.DataFrame:
    """Size, breadth, exclusivity and coherence of every topic; see `inference.topic_quality.topic_diagnostics`."""
    from inference import topic_quality

    return topic_quality.topic_diagnostics(model, source, data, num_words)


def topic_stability(model: Model, source: xr.DataTree | Mapping[str, xr.DataTree], threshold: float = 0.7) -> pd.DataFrame:
    """Which topics all chains, or several results, find again; see `inference.topic_agreement.topic_stability`."""
    from inference import topic_agreement

    return topic_agreement.topic_stability(model, source, threshold)


def topic_check(model: Model, source: xr.DataTree | Sites, data: Any, **options: Any) -> Check:
    """Whether words of a topic depend on the document, against the model; see `inference.topic_checking.topic_check`."""
    from inference import topic_checking

    return topic_checking.topic_check(model, source, data, **options)


def similar_documents(
    model: Model, source: xr.DataTree | Sites, data: Any, document: int, num: int = 10, new: Any = None, seed: int = 0
) -> pd.DataFrame:
    """The documents whose topics are most like those of one; see `inference.topic_quality.similar_documents`."""
    from inference import topic_quality

    return topic_quality.similar_documents(model, source, data, document, num, new, seed)


def word_topics(model: Model, source: xr.DataTree | Sites, data: Any, words: str | Sequence[str]) -> pd.DataFrame:
    """The topics of a word, the most probable first; see `inference.topic_quality.word_topics`."""
    from inference import topic_quality

    return topic_quality.word_topics(model, source, data, words)


def plot_topics(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None, num_words: int = 10) -> Figure:
    """The most probable words of every topic with their intervals; see `inference.topic_pictures.plot_topics`."""
    from inference import topic_pictures

    return topic_pictures.plot_topics(model, source, path, num_words)


def plot_topic_map(model: Model, source: xr.DataTree | Sites, path: str | Path | None = None) -> Figure:
    """How far topics are from each other, in two dimensions; see `inference.topic_pictures.plot_topic_map`."""
    from inference import topic_pictures

    return topic_pictures.plot_topic_map(model, source, path)


def posterior_predictive(model: Model, data: Any, new_data: Any, **options: Any) -> xr.Dataset:
    """Predictions with the parameters integrated out exactly; see `inference.predictive.posterior_predictive`."""
    from inference import predictive

    return predictive.posterior_predictive(model, data, new_data, **options)


def score(model: Model, source: xr.DataTree | Sites, data: Any, **options: Any) -> xr.Dataset:
    """Accuracy, log loss and calibration on labelled rows; see `inference.prediction.score`."""
    from inference import prediction

    return prediction.score(model, source, data, **options)


def discriminant(model: Model, source: xr.DataTree | Sites, **options: Any) -> xr.Dataset:
    """Bias and weights of the classes' log-odds, with their uncertainty; see `inference.discriminants.discriminant`."""
    from inference import discriminants

    return discriminants.discriminant(model, source, **options)


def learning_curve(models: Mapping[str, Any], data: Any, sizes: Any, **options: Any) -> xr.Dataset:
    """Held-out scores against the number of rows to learn from; see `inference.learning.learning_curve`."""
    from inference import learning

    return learning.learning_curve(models, data, sizes, **options)


def log_likelihood(model: Model, sites: Sites, data: Any, **options: Any) -> np.ndarray:
    """Log-likelihood of every row at ``sites``, latents summed out; see `inference.prediction.log_likelihood`."""
    from inference import prediction

    return prediction.log_likelihood(model, sites, data, **options)


def program_model(function: Any, data: Any, **options: Any) -> Model:
    """A NumPyro function of ``data`` as a `Model`, for ``fit``, ``predict`` and ``identify``; see `inference.program`."""
    from inference import program

    return program.program_model(function, data, **options)


__all__ = [
    "METHODS",
    "co_clustering",
    "coherence",
    "compare",
    "completed_table",
    "decode",
    "discriminant",
    "fit",
    "identify",
    "impute",
    "learning_curve",
    "log_likelihood",
    "perplexity",
    "plot_co_clustering",
    "plot_emissions",
    "plot_loadings",
    "plot_profile",
    "plot_states",
    "plot_topic_map",
    "plot_topics",
    "plot_transitions",
    "pooled",
    "posterior_predictive",
    "predict",
    "program_model",
    "rotate",
    "score",
    "similar_documents",
    "stepwise",
    "top_words",
    "topic_check",
    "topic_diagnostics",
    "topic_stability",
    "uncertain_rows",
    "word_topics",
]
