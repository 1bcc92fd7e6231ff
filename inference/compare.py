"""``python -m inference.compare model=gmm method=em,gibbs,nuts``: one table and one picture."""

if __name__ == "__main__":
    from inference.cli.main import command, compare_main

    command(compare_main)
