"""The words of a page and what they mean."""

import re

WORDS = {
    "89 % interval": "The middle 89 % of the draws: 5.5 % lie below it, and 5.5 % above.",
    "adjusted Rand index": "How far two ways of putting rows into groups agree: 1 if they are equal, about 0 by chance.",
    "co-clustering": "The probability that two rows are in the same group. It does not depend on the numbers of the groups.",
    "co_clustering": (
        "The probability that two rows share a component. A few pairs of rows, evenly spread over the table, stand for all."
    ),
    "component": "One of the distributions that a mixture is made of; the rows that it explains are a group.",
    "divergences": "Steps at which the sampler failed to follow the density. They can hide a part of the posterior.",
    "entropy": "How unsure the latent variables are, in nats: 0 if every row is certain of its group.",
    "ESS": "Effective sample size: as many independent draws would be as precise as these are.",
    "expectation": "The mean of a column under the model.",
    "factor": "A direction along which several columns vary together.",
    "functionals": "Quantities that mean the same under any labels of the groups, so that runs and methods can be compared.",
    "log joint": "The logarithm of prior times likelihood at a draw, or at the optimum.",
    "log_joint": "The logarithm of prior times likelihood at a draw, or at the optimum.",
    "log_likelihood": "The logarithm of the density of the data, given the parameters.",
    "posterior predictive": "Data drawn from the fitted model. A model that fits draws data like those observed.",
    "R-hat": (
        "Compares the variation between chains with that within: 1 if they agree. The limit is 1.01 for one quantity, and "
        "higher for the largest of many, because each estimate is noisy."
    ),
    "responsibilities": "The probabilities of the groups for a row.",
    "sd": "Standard deviation.",
    "sorted": (
        "The entries of a parameter over all components, in ascending order: number 1 is the smallest, whichever component it "
        "belongs to."
    ),
    "sorted_probs": "The sizes of the components in the posterior, in descending order.",
    "start": "An optimiser begins at several points, of which the best result is used.",
    "state": "What a sequence is in at a step; the states follow each other as a Markov chain.",
    "topic": "A distribution over words. A document mixes several.",
    "uncertainty": "1 less the probability of a row's most probable group.",
}


def used(text: str) -> dict[str, str]:
    """The words of the glossary that a text uses, in alphabetical order.

    >>> list(used("R-hat of 2 components"))
    ['component', 'R-hat']
    """
    return {word: meaning for word, meaning in WORDS.items() if re.search(rf"(?<![\w-]){re.escape(word)}(s\b|\b)", text)}
