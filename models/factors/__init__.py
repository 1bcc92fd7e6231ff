"""Parts of `models.factor_analysis` (and ppca): prior, checks, summaries, linear regression, sufficient rows.

Imports `models.latents`, `models.families`, `models.rows` and what is below them.
"""
