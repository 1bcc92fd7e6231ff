"""Results of topic models: words, documents, stability, coherence, posterior checks.

Imports `inference.predictions` and what is below it.
"""
