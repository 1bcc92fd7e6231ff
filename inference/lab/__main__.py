"""``python -m inference.lab``: labs that grade themselves."""

if __name__ == "__main__":
    from inference.cli.main import run_as_command
    from inference.lab.command import lab_main

    run_as_command(lab_main, "lab")
