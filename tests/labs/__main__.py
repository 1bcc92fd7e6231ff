"""`python -m tests.labs`: the tests of labs, unless they have passed. See `tests/passed.py`."""

import sys

from tests.passed import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
