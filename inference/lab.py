"""``python -m inference.lab`` is ``python -m labs``. Folders that it wrote have ``from inference.lab import assert_right``."""

from labs import assert_right

__all__ = ["assert_right"]

if __name__ == "__main__":
    from runpy import run_module

    run_module("labs", run_name="__main__")
