"""``python -m inference.list [model|method|data]``: every model, method and data set, with what it is."""

if __name__ == "__main__":
    from inference.cli.main import run_as_command
    from inference.cli.runs.help import list_main

    run_as_command(list_main, "list")
