"""What a kept program is told by, and what its file holds beside it: digests of static arguments, and values as text.

Imports nothing of the zoo.
"""
