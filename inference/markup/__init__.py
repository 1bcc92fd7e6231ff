"""The parts of a page: HTML, stylesheet, script and glossary. Independent of results.

Imports nothing of the zoo but the map of topics that it draws.
"""
