"""Results for people to read: printed tables, tables in files, and the HTML report.

Imports everything but `inference.cli`.
"""
