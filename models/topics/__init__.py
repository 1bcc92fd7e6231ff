"""Parts of `models.latent_dirichlet`: latents, documents, collapsed and variational inference, held-out likelihood.

Imports `models.topics.sampling`, `models.rows`, `models.families` and what is below them.
"""
