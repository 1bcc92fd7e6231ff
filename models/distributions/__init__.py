"""NumPyro distributions that NumPyro lacks: rows with missing cells, words of documents, columns of several kinds.

Imports `models.data` and `models.families`. Those of hidden Markov models are in `models.chains.distributions`.
"""
