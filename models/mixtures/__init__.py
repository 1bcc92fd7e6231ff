"""What the models of one categorical latent per row share: mixture, its weights, classifier, the cells of their tables.

Imports `models.emissions` and what is below it.
"""
