"""One run: its configuration, its folder, its execution, how it goes on, and its last message.

Imports every room of `inference` below it; the commands of `inference.cli` import it.
"""
