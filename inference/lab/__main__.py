"""``python -m inference.lab``: labs that grade themselves."""

if __name__ == "__main__":
    import sys

    from inference.cli.main import guarded
    from inference.lab.command import lab_main

    sys.exit(guarded(lab_main, ["help" if argument in ("--help", "-h") else argument for argument in sys.argv[1:]]))
