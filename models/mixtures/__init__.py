"""Parts of the models of one categorical latent per row: mixture, its weights, classifier, the cells of their tables.

Imports `models.emissions` and what is below it.
"""
