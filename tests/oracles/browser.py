"""The browser in which tests look at pages. Continuous integration must have one; elsewhere tests that need it are skipped."""

import os
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr", "--dump-dom")

OF_THEME = "/_static/scripts/pydata-sphinx-theme.js"  # it tells at the first visit that it has chosen light or dark

in_browser = pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="no Chromium: pages are not looked at")


def shown(path, user, *options):
    """The document of a page after its scripts have run; an AssertionError where the console has a message."""
    assert CHROMIUM is not None, "continuous integration looks at pages: apt-get install chromium"
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={user}", *options, f"file://{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and OF_THEME not in line]
    assert not said, said
    return done.stdout
