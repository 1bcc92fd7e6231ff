"""Does the model fit? Data drawn from it, compared with the data observed.

Imports `inference.topics` and what is below it.
"""
