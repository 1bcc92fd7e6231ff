"""Inference: `fit` runs any method on any model and returns an `xarray.DataTree` in ArviZ's schema.

>>> tree = fit(model, data, "gibbs")  # data = models.load_data("iris"); model = models.MODELS["gmm"](data)
>>> predict(model, tree, data)["probs"]

Exported functions are defined in the rooms of this package and imported on first use, so importing it loads nothing heavy. The
docstring of each room says what lives there and what it may import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inference.methods import METHODS
from inference.runtime.shadowed import require_models

require_models()
import_module("models")  # raises an error for versions below the bounds

if TYPE_CHECKING:
    from inference.comparison.refitting import refit_rows
    from inference.comparison.table import compare
    from inference.criticism.replications import predictive_checks
    from inference.evidence.bridge import bridge_evidence
    from inference.evidence.estimate import log_evidence
    from inference.fitting.fit import identify
    from inference.fitting.foreign import as_result
    from inference.fitting.modes import look_for_modes, modes
    from inference.fitting.overloads import fit
    from inference.identification.rotation import rotate
    from inference.plots.co_clustering import plot_co_clustering
    from inference.plots.components import plot_loadings, plot_profile
    from inference.plots.forest import plot_forest
    from inference.plots.pairs import plot_pairs
    from inference.plots.plate_diagram import show
    from inference.plots.predictive_checks import plot_predictive_checks
    from inference.plots.sequences import plot_emissions, plot_transitions
    from inference.plots.states_over_time import plot_states
    from inference.plots.topics import plot_topic_map, plot_topics
    from inference.predictions.clustering import co_clustering, uncertain_rows
    from inference.predictions.exact_predictive import posterior_predictive
    from inference.predictions.imputation import completed_table, impute, pooled
    from inference.predictions.learning_curve import learning_curve
    from inference.predictions.log_odds import discriminant
    from inference.predictions.new_rows import perplexity
    from inference.predictions.predict import log_likelihood, predict
    from inference.predictions.score import score
    from inference.programs.model import program_model
    from inference.results.triangles import full_matrices
    from inference.samplers.certification import certify
    from inference.samplers.draws import check_draws
    from inference.samplers.kernels import blackjax_kernel, numpyro_kernel
    from inference.samplers.posteriordb import export_posteriordb
    from inference.samplers.target import target
    from inference.sequences.decoding import decode
    from inference.sequences.factors import forecast
    from inference.sequences.steps import stepwise
    from inference.streaming.in_blocks import in_blocks
    from inference.streaming.source.processes import join_processes
    from inference.streaming.source.read_stream import read_stream
    from inference.topics.coherence import coherence, similar_documents, top_words, topic_diagnostics, word_topics
    from inference.topics.posterior_check import topic_check
    from inference.topics.stability import topic_stability

EXPORTS = {  # name -> the module that defines it
    "as_result": "inference.fitting.foreign",
    "blackjax_kernel": "inference.samplers.kernels",
    "bridge_evidence": "inference.evidence.bridge",
    "certify": "inference.samplers.certification",
    "check_draws": "inference.samplers.draws",
    "co_clustering": "inference.predictions.clustering",
    "coherence": "inference.topics.coherence",
    "compare": "inference.comparison.table",
    "completed_table": "inference.predictions.imputation",
    "decode": "inference.sequences.decoding",
    "discriminant": "inference.predictions.log_odds",
    "export_posteriordb": "inference.samplers.posteriordb",
    "fit": "inference.fitting.fit",
    "forecast": "inference.sequences.factors",
    "in_blocks": "inference.streaming.in_blocks",
    "full_matrices": "inference.results.triangles",
    "identify": "inference.fitting.fit",
    "impute": "inference.predictions.imputation",
    "join_processes": "inference.streaming.source.processes",
    "learning_curve": "inference.predictions.learning_curve",
    "log_evidence": "inference.evidence.estimate",
    "log_likelihood": "inference.predictions.predict",
    "look_for_modes": "inference.fitting.modes",
    "modes": "inference.fitting.modes",
    "numpyro_kernel": "inference.samplers.kernels",
    "perplexity": "inference.predictions.new_rows",
    "plot_co_clustering": "inference.plots.co_clustering",
    "plot_emissions": "inference.plots.sequences",
    "plot_forest": "inference.plots.forest",
    "plot_loadings": "inference.plots.components",
    "plot_pairs": "inference.plots.pairs",
    "plot_predictive_checks": "inference.plots.predictive_checks",
    "plot_profile": "inference.plots.components",
    "plot_states": "inference.plots.states_over_time",
    "plot_topic_map": "inference.plots.topics",
    "plot_topics": "inference.plots.topics",
    "plot_transitions": "inference.plots.sequences",
    "pooled": "inference.predictions.imputation",
    "posterior_predictive": "inference.predictions.exact_predictive",
    "predict": "inference.predictions.predict",
    "predictive_checks": "inference.criticism.replications",
    "program_model": "inference.programs.model",
    "read_stream": "inference.streaming.source.read_stream",
    "refit_rows": "inference.comparison.refitting",
    "rotate": "inference.identification.rotation",
    "score": "inference.predictions.score",
    "show": "inference.plots.plate_diagram",
    "similar_documents": "inference.topics.coherence",
    "stepwise": "inference.sequences.steps",
    "top_words": "inference.topics.coherence",
    "target": "inference.samplers.target",
    "topic_check": "inference.topics.posterior_check",
    "topic_diagnostics": "inference.topics.coherence",
    "topic_stability": "inference.topics.stability",
    "uncertain_rows": "inference.predictions.clustering",
    "word_topics": "inference.topics.coherence",
}

__all__ = [
    "METHODS",
    "as_result",
    "blackjax_kernel",
    "bridge_evidence",
    "certify",
    "check_draws",
    "co_clustering",
    "coherence",
    "compare",
    "completed_table",
    "decode",
    "discriminant",
    "export_posteriordb",
    "fit",
    "forecast",
    "full_matrices",
    "identify",
    "impute",
    "in_blocks",
    "join_processes",
    "learning_curve",
    "log_evidence",
    "log_likelihood",
    "look_for_modes",
    "modes",
    "numpyro_kernel",
    "perplexity",
    "plot_co_clustering",
    "plot_emissions",
    "plot_forest",
    "plot_loadings",
    "plot_pairs",
    "plot_predictive_checks",
    "plot_profile",
    "plot_states",
    "plot_topic_map",
    "plot_topics",
    "plot_transitions",
    "pooled",
    "posterior_predictive",
    "predict",
    "predictive_checks",
    "program_model",
    "read_stream",
    "refit_rows",
    "rotate",
    "score",
    "show",
    "similar_documents",
    "stepwise",
    "target",
    "top_words",
    "topic_check",
    "topic_diagnostics",
    "topic_stability",
    "uncertain_rows",
    "word_topics",
]


def __getattr__(name: str) -> Any:
    """An exported function, imported on first use (PEP 562)."""
    if name not in EXPORTS:
        raise AttributeError(f"module 'inference' has no attribute {name!r}")
    return getattr(import_module(EXPORTS[name]), name)


def __dir__() -> list[str]:
    return __all__
