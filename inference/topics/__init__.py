"""Results of topic models: words, documents, stability, coherence, relevance, posterior checks.

Imports `inference.predictions` and what is below it.
"""
