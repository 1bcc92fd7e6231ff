"""The documentation: pages, and in `docs.site` what builds the site of them. ``python -m docs`` builds it."""
