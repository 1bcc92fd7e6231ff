"""``python -m inference.lab``: labs that grade themselves."""

if __name__ == "__main__":
    import sys

    from inference.cli.main import run_as_command
    from inference.cli.runs.guard import guarded
    from inference.lab.command import lab_main, say
    from inference.lab.usage import help_of

    if text := help_of(sys.argv[1:]):
        sys.exit(guarded(lambda nothing: say(text), []))
    run_as_command(lab_main, "lab")
