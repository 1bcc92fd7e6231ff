"""Parts of `models.hmm`: the chain of states, forward-backward recursions, the prior, sequences, summaries.

Imports `models.emissions`, `models.latents`, `models.rows` and what is below them.
"""
