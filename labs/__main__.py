"""``python -m labs``: labs that grade themselves."""

if __name__ == "__main__":
    import sys

    from inference.cli.main import run_as_command
    from inference.cli.runs.guard import guarded
    from labs.command import lab_main, say
    from labs.hidden import hide_arguments
    from labs.usage import help_of

    if text := help_of(sys.argv[1:]):
        sys.exit(guarded(lambda nothing: say(text), []))
    if sys.argv[1:2] == ["check"]:
        hide_arguments()
    run_as_command(lab_main, "labs")
