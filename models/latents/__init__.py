"""Local latent variables: categorical, Gaussian, and the missing cells of Gaussian rows.

Imports `models.families` and what is below it. Latents of a single model live with it: `models.chains`, `models.topics`.
"""
