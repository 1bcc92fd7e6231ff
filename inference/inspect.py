"""``python -m inference.inspect table.csv``: what a table holds, every problem with its remedy, and a command that runs."""

if __name__ == "__main__":
    from inference.cli.inspecting import inspect_main
    from inference.cli.main import run_as_command

    run_as_command(inspect_main, "inspect")
