"""Keys and values of stored programs: digests of static arguments, and structures of values as text.

Imports nothing of the zoo.
"""
