"""Phrases that many certificates repeat, each with a code of two characters: a file has ``~ll`` for *log likelihood*.

`packing` writes the names and sentences of checks so, and a text without phrases as it is. A phrase keeps its code for good,
because files on disk have it: add lines, and change none. A file written with other phrases is an error, by its checksum.
"""

import re
from collections.abc import Callable
from typing import Any

MARK = "~"  # begins a code; as a text by itself it has a code, too
PHRASES: dict[str, str] = {  # code -> phrase
    MARK * 2: MARK,
    # checks, and the names of their figures
    "kl": "kernel law",
    "pn": "predictions",
    "ps": "posterior",
    "pp": "pipeline",
    "cl": "calibration",
    "gl": "group latent",
    "dv": "deviation",
    "rl": "relative",
    "sr": ", spread",
    "lt": ", lower tail",
    "ut": ", upper tail",
    "fr": " of fitted rows",
    "nr": " of new rows",
    "so": "share of ",
    "lu": " left unchanged",
    "ec": "400 over the effective draws of the chains",
    "eo": "2000 over the effective draws of the oracle",
    "wo": "largest weight of the oracle's draws",
    "hs": "4.5 over the deviation of draws with half the spread",
    "nf": "needed over found",
    "mu": "deviation of a mutant",
    "wl": "without the last row",
    "sn": "shared numbers",
    "fz": "frozen row",
    "cn": "correlation",
    "ba": " before and after",
    "pl": ", at the place where it changes least,",
    "od": " of the draws, difference from the oracle's",
    "fo": ", difference from the oracle's",
    "ij": "share in the 90% interval of draws with half the spread, over that of the draws: the smallest ratio",
    "oh": " in its 90% interval, in the other half",
    "fp": "from the mode given the most probable assignment",
    "rd": "reported density",
    "ng": "a Newton step would gain ",
    "wn": "what a Newton step would gain",
    "bb": "below the best of ",
    "cv": "curvature of the flattest direction, if it leads up",
    # witnesses
    "vs": "verdicts",
    "dn": "densities",
    "ss": "statistics",
    "un": "unchanged",
    "le": "log evidence",
    "fw": "fitted rows",
    "nw": "new rows",
    "pa": "parameters",
    # sentences
    "st": " statistics, the largest deviation ",
    "rp": " replicates, ",
    "df": " draws of fit",
    "pt": " tables, with one draw of each of 4 chains of fit; half the spread: ",
    "cm": " comparisons with averages at the draws; ",
    "ia": " is allowed",
    "db": " deviates by ",
    "ir": " is rejected: ",
    "ib": " is rejected (",
    "kr": "a kernel that does not see the last row",
    "on": "one random number for two rows",
    "ry": "a row that stays is rejected: ",
    "tf": "the statistics that are furthest off in half of ",
    "ih": " replicates, as the other half has them: 90% intervals hold ",
    "mo": "); means are off by ",
    "sd": " standard deviations (",
    "sb": "); the spread should be ",
    "tl": " times as large (",
    "mn": " statistics, those of which means are normal",
    "np": " nats at most, and the best optimiser is ",
    # statistics
    "ll": "log likelihood",
    "cx": "component ",
    "sx": "score ",
    "l2": "last two rows together",
    "e2": "entropy of the last two rows",
    "rt": "scatter of rows times precision",
    "rm": "product of row mean and ",
    "cr": "product of counts and rates",
    "ws": "product of word shares and probabilities",
    "pc": "product over columns",
    "mm": "mean of means",
    "sl": "sum of log ",
    "dm": "distance of the means",
    "dc": "distance of the classes",
    "de": "distance of the emissions",
    "dt": "distance of the topics",
    "dw": "distance of the word probabilities of two documents",
    "lk": "likeness of the first two documents",
    "lw": "last word",
    "ld": "log determinant",
    "oc": " of the covariance",
    "xd": ", off the diagonal",
    "sf": "strength of the factor",
    "c2": "covariance of the first two columns",
    "mr": ", of model times of rows",
    "fc": "first class",
    "ts": " times its share",
    "ol": " of labels",
    "r1": "right ratings of the first rater",
    "r2": "right ratings of the second rater",
    "ar": "agreement of ratings times right ratings",
    "px": "probability of stopping",
    "py": "probability of staying",
    "nx": "number of steps times ",
    "dy": "difference in staying",
    "fs": "first symbol",
    "sy": "share of steps that stay times its probability",
    "t1": "transition to the first token",
    "lg": "largest ",
    "ms": "mean square of ",
    "me": "mean of ",
    "lp": "log product of ",
    "ti": "log evidence by thermodynamic integration",
    "qe": "log evidence by sequential Monte Carlo",
    # sites and predictions
    "wp": "mixture_probs",
    "cp": "class_probs",
    "fe": "feature_probs",
    "op": "word_probs",
    "tp": "topic_probs",
    "sp": "start_probs",
    "ip": "initial_probs",
    "tr": "transition_probs",
    "ep": "emission_probs",
    "kp": "probs_kind",
    "pr": "precision",
    "lj": "log_joint",
    "lh": "log_likelihood",
    "im": "imputed_",
    "as": "assignment",
    "ex": "exchanges",
    "lo": "log_density",
    "re": "reconstruction",
    "vp": "most probable path",
    "po": "probability of the ",
    # mutants and slips
    "ca": " concentration ",
    "bo": " at the boundary",
    "al": " at the last word",
    "ma": "means of a standard deviation of ",
    "wa": "weights of a standard deviation of ",
    "rc": "right_concentration ",
    "tc": "transition_concentration ",
    "e1": "a plus for the minus before the squared distance (E14)",
    "e3": "a zero in place of a missing cell (E19)",
    "e4": "every token as if it came first (E4)",
    "e5": "log-odds without an intercept (E15)",
    "e6": "the probability of the class once for every ",
    "e8": "the projection of a row for its reconstruction (E8)",
    "e9": "a forward recursion that emits the symbol before (E9)",
    "ev": "Viterbi's table without the first emission and the stop (E11)",
    "et": "topics of tokens without their words (E13)",
    # pairs of rows, and products
    **{f"{one}{other}": f"component {one} = {other}" for one in range(6) for other in range(one + 1, 6)},
    "xr": " × rate",
    "xm": " × mean",
    "mx": "mean × ",
    "d6": "dof 6.6 for 6",
    "48": " of 4 × 8,000",
    "sh": "share",
    "lf": "left ",
    "10": "10,000",
    # of counts that are not Poisson
    "iv": "inverse_dispersion",
    "zb": "zero_probs",
}
CODES = {phrase: f"{MARK}{code}" for code, phrase in PHRASES.items()}
PHRASE = re.compile("|".join(re.escape(phrase) for phrase in sorted(CODES, key=len, reverse=True)))  # the longest goes first
CODE = re.compile(f"{MARK}(..)")


def shortened(value: Any) -> Any:
    """A value of JSON with codes in place of phrases, in every text and every key.

    >>> shortened({"log likelihood, spread": [1, "~"]})
    {'~ll~sr': [1, '~~~']}
    """
    return _in_texts(value, lambda text: PHRASE.sub(lambda match: CODES[match[0]], text))


def expanded(value: Any) -> Any:
    """The inverse of `shortened`; an unknown code stays.

    >>> expanded({"~ll~sr": [1, "~~~"]})
    {'log likelihood, spread': [1, '~']}
    """
    return _in_texts(value, lambda text: CODE.sub(lambda match: PHRASES.get(match[1], match[0]), text))


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_texts(each, change) for each in value]
    return {change(key): _in_texts(each, change) for key, each in value.items()} if isinstance(value, dict) else value
