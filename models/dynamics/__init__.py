"""Parts of `models.state_space`: summaries, missing cells and simulation of sequences that factors drive.

Imports `models.chains` and `models.factors`, and what is below them.
"""
