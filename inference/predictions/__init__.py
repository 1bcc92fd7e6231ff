"""Predictions of a result for fitted and new rows: probabilities, scores, missing cells, clusters; `views` lists them by kind.

Imports `inference.fitting` and what is below it.
"""
