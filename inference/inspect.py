"""``python -m inference.inspect table.csv``: what a table holds, every problem with its remedy, and a command that runs."""

if __name__ == "__main__":
    from inference.cli.main import run_as_command
    from inference.cli.runs.inspecting import inspect_main

    run_as_command(inspect_main, "inspect")
