"""``python -m inference.certify model=gmm method=gibbs``: is this cell right?"""

if __name__ == "__main__":
    from inference.certificates.command import certify_main
    from inference.cli.main import run_as_command

    run_as_command(certify_main, "certify")
