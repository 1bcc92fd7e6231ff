"""What is run from a folder: the folder is this user's alone."""

import os

import numba
import pytest

from models.compilation import compiled
from models.private import is_own, private_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no owners and modes")


@pytest.mark.parametrize(("mode", "own"), [(0o700, True), (0o755, True), (0o757, False), (0o777, False), (0o1777, False)])
def test_only_its_owner_writes_into_a_folder(tmp_path, mode, own):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert is_own(folder) is own
    assert (private_folder(folder) == folder.resolve()) is own


@pytest.mark.parametrize(("mode", "own"), [(0o755, True), (0o777, False), (0o1777, True)])
def test_nobody_exchanges_what_is_above(tmp_path, mode, own):
    """With the sticky bit, as of /tmp, only the owner renames what lies there."""
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(mode)
    assert is_own(folder) is own


def test_a_link_is_followed(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared)
    assert private_folder(tmp_path / "link") is None
    assert private_folder(tmp_path / "missing" / "folder") is not None
    (tmp_path / "file").touch()
    assert private_folder(tmp_path / "file") is None


def test_a_folder_of_another_user_is_not_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_own(tmp_path)


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_machine_code_is_kept_in_a_folder_of_ones_own_alone(tmp_path, monkeypatch, mode):
    """Numba unpickles what it finds there."""
    folder = tmp_path / "numba"
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))

    def doubled(x: float) -> float:
        return 2 * x

    found = compiled(doubled)
    assert found(1.5) == 3.0
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert bool(kept) is (mode == 0o755)
