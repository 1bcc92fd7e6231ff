"""Sphinx's configuration of the site. `python -m docs` builds it; `docs.site.build` calls Sphinx with this file."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "Bayes Model Zoo"
author = copyright = "the maintainers of the Bayes Model Zoo"  # Sphinx's name
version = release = installed_version("bayes-model-zoo")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon", "sphinx_design"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "Bayes Model Zoo"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}

# Pages are in Markdown; `$…$` is mathematics, and headings have GitHub's anchors.
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_timeout = 1800
nb_execution_raise_on_error = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # they would come from the network

mathjax_path = "mathjax/tex-chtml-full.js"
mathjax3_config: dict[str, object] = {"options": {"enableMenu": False}}

# Docstrings say `name` for code, and types are in the signatures.
default_role = "py:obj"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"


def setup(app: Sphinx) -> None:
    """Tables in CSV have no colours."""
    app.add_lexer("csv", TextLexer)
