"""The documentation site: `build` puts all sources in one folder and calls Sphinx.

`collect` copies pages, notebooks and MathJax, and `links` keeps their links right. `generate` replaces the markers of pages by
what `model_facts`, `method_facts`, `verdicts` and `reference` take from the code, and adds the trees of `contents`.
"""
