"""``python -m inference.compare model=gmm method=em,gibbs,nuts``: one table and one picture."""

if __name__ == "__main__":
    from inference.cli.main import compare_main, run_as_command

    run_as_command(compare_main)
