"""The error that the user can correct, and the parts of its messages.

Imports the standard library alone: an error in an argument is reported before NumPy has loaded.
"""

import shlex
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

LISTED = 20  # names that a message lists
MOST = 2**53  # largest count: a larger whole number is not exact as a float

# The name of an option, a model or a method in other libraries -> its names here
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "n_components": ("num_components", "num_factors", "num_states", "num_topics"),
    "num_components": ("num_factors", "num_states", "num_topics"),
    "n_clusters": ("num_components",),
    "k": ("num_components", "num_factors", "num_states", "num_topics"),
    "n_factors": ("num_factors",),
    "n_states": ("num_states",),
    "n_topics": ("num_topics",),
    "num_clusters": ("num_components",),
    "covariance_type": ("covariance",),
    "n_init": ("num_starts",),
    "restarts": ("num_starts",),
    "n_iter": ("max_iter", "num_samples"),
    "iter": ("num_samples", "max_iter"),
    "num_iter": ("max_iter", "num_samples"),
    "maxiter": ("max_iter",),
    "iterations": ("max_iter", "num_samples"),
    "tolerance": ("tol",),
    "draws": ("num_samples",),
    "n_samples": ("num_samples", "num_rows"),
    "n_features": ("num_features",),
    "centers": ("num_groups",),
    "iter_sampling": ("num_samples",),
    "tune": ("num_warmup",),
    "warmup": ("num_warmup",),
    "burn_in": ("num_warmup",),
    "iter_warmup": ("num_warmup",),
    "chains": ("num_chains",),
    "n_chains": ("num_chains",),
    "target_accept_prob": ("target_accept",),
    "adapt_delta": ("target_accept",),
    "max_treedepth": ("max_tree_depth",),
    "random_state": ("seed",),
    "random_seed": ("seed",),
    "rng_key": ("seed",),
    "init": ("start",),
    "initial": ("start",),
    "init_params": ("start",),
    "initvals": ("start",),
    "progress_bar": ("progress",),
    "progressbar": ("progress",),
    "verbose": ("progress",),
    # names of models
    "lda": ("latent_dirichlet", "linear_discriminant"),
    "latentdirichletallocation": ("latent_dirichlet",),
    "topic_model": ("latent_dirichlet",),
    "topics": ("latent_dirichlet",),
    "mixture": ("gmm",),
    "gaussian_mixture": ("gmm",),
    "gaussianmixture": ("gmm",),
    "kmeans": ("gmm",),
    "k_means": ("gmm",),
    "clustering": ("gmm", "mixed_mixture"),
    "latent_class": ("mixed_mixture",),
    "lca": ("mixed_mixture",),
    "qda": ("linear_discriminant",),
    "discriminant_analysis": ("linear_discriminant",),
    "nb": ("naive_bayes",),
    "gaussiannb": ("naive_bayes",),
    "multinomialnb": ("naive_bayes",),
    "bernoullinb": ("naive_bayes",),
    "categoricalnb": ("naive_bayes",),
    "logit": ("logistic_regression",),
    "logistic": ("logistic_regression",),
    "softmax_regression": ("logistic_regression",),
    "dawid_skene": ("annotators",),
    "raters": ("annotators",),
    "fa": ("factor_analysis",),
    "efa": ("factor_analysis",),
    "pca": ("ppca",),
    "hidden_markov": ("hmm",),
    "hidden_markov_model": ("hmm",),
    "markov_switching": ("hmm",),
    # names of methods
    "mcmc": ("nuts", "gibbs"),
    "hmc": ("nuts",),
    "vi": ("cavi", "advi"),
    "variational": ("cavi", "advi"),
    "vb": ("cavi",),
    "svi": ("advi",),
    "mle": ("em", "map"),
    "viterbi_training": ("hard_em",),
    "parallel_tempering": ("tempered_gibbs",),
    "sequential_monte_carlo": ("smc",),
}


class ZooError(ValueError):
    """An error that the user can correct: the message has the mistake, its place, and the remedy. The shell exits with 2.

    >>> from models import load_data
    >>> load_data([[1.0], [float("inf")]])
    Traceback (most recent call last):
        ...
    models.errors.ZooError: array: column 'x0', row 2: the value is infinite; correct or remove it
    """


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """`` (did you mean <the nearest known words>?)``, or nothing where no word is near.

    A word of another library comes first (``SYNONYMS``), then words of similar spelling.

    >>> did_you_mean("n_components", ["num_components", "covariance"])
    ' (did you mean num_components?)'
    >>> did_you_mean("covariances", ["num_components", "covariance"])
    ' (did you mean covariance?)'
    >>> did_you_mean("LDA", ["gmm", "latent_dirichlet", "linear_discriminant"])
    ' (did you mean latent_dirichlet or linear_discriminant?)'
    """
    spelt = {name.lower(): name for name in known}
    near = also_called(word, spelt) or [spelt[name] for name in get_close_matches(word.lower(), list(spelt), n=1)]
    return f" (did you mean {' or '.join(prefix + name for name in near)}?)" if near else ""


def also_called(word: str, known: Iterable[str]) -> list[str]:
    """The known words for which other libraries use ``word``.

    >>> also_called("n_clusters", ["num_components", "covariance"])
    ['num_components']
    """
    names = SYNONYMS.get(word.lower().replace("-", "_").replace(" ", "_"), ())
    return [name for name in names if name in set(known)]


def some_of(names: Iterable[object]) -> str:
    """The names in a message: all of them, or the first twenty and how many more there are.

    >>> some_of(["height", "weight"]), some_of(range(1000))[-19:]
    ('height, weight', '18, 19 and 980 more')
    """
    known = list(names)
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return ", ".join(map(str, islice(known, LISTED))) + more


def in_shell(argument: str) -> str:
    """An argument that a message proposes, as it is typed: in quotes where the shell would take it apart.

    >>> in_shell("data.types.year=category"), in_shell("data.types.body mass=number")
    ('data.types.year=category', "'data.types.body mass=number'")
    """
    return shlex.quote(argument)


def exists(path: str | Path) -> bool:
    """Whether the file or folder exists; False for text that cannot be a path, such as a very long one."""
    try:
        return Path(path).exists()
    except OSError:
        return False
