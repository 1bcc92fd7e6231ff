"""What a page is made of: its parts as HTML, stylesheet, script and glossary. It knows of no result.

Imports nothing of the house but the map of topics that it draws.
"""
