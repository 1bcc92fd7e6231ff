"""What a method's page takes from the code: what it approximates, its updates, its options, the models it takes."""

import inspect
from importlib import import_module

from docs.site.model_facts import as_markdown, in_short, without_examples
from docs.site.support import cells, column_of, tables, updates_of, with_link
from docs.site.tables import options_table, table
from inference import METHODS
from inference.methods.method import method_named
from models import MODELS


def method_facts(name: str) -> str:
    """The sections of a method's page that come from the code."""
    module = import_module(METHODS[name])
    options = method_named(name).options
    parameters, latents = updates_of(name)
    return "\n\n".join(
        [
            f"## What it does\n\n{as_markdown(inspect.getdoc(module) or '')}",
            f"In the [table of methods](index.md#what-runs-with-what): parameters *{parameters}*, latents *{latents}*.",
            f"## Options\n\n{as_markdown(without_examples(inspect.getdoc(options) or ''))}\n\n{options_table('method', name)}",
            f"## Models\n\n{models_table(name)}",
        ]
    )


def method_index() -> str:
    """All methods, with what each is."""
    return table(["method", "is"], [[f"[`{name}`]({name}.md)", in_short("method", name)] for name in METHODS])


def support_tables() -> str:
    """Updates of the methods, and which methods run on which models."""
    linked = [["model", *(f"[`{method}`]({method}.md)" for method in METHODS)]]
    rows = [[f"[`{model}`](../models/{model}.md)", *linked_cells(model)] for model in MODELS]
    return "\n\n".join([tables()[0], table(linked[0], rows)])


def linked_cells(model: str) -> list[str]:
    """The entries of a model for all methods; verdicts lead to their certificates."""
    return [with_link(model, method, cells()[model, method]) for method in METHODS]


def models_table(name: str) -> str:
    """Which models the method takes, or what their certificates say."""
    found = column_of(name)
    rows = [[f"[`{model}`](../models/{model}.md)", with_link(model, name, found[model])] for model in MODELS]
    return table(["model", "runs, or the verdict of its certificate"], [*rows, ["your own program", found["your own program"]]])
