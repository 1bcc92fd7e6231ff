"""What is run from a folder: the folder is this user's alone."""

import os
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from models.host import private
from models.host.compilation import compiled
from models.host.private import is_private, private_folder


@pytest.mark.parametrize(("mode", "own"), [(0o700, True), (0o755, True), (0o757, False), (0o777, False), (0o1777, False)])
def test_only_its_owner_writes_into_a_folder(tmp_path, mode, own):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert is_private(folder) is own
    assert (private_folder(folder) == folder.resolve()) is own


@pytest.mark.parametrize(("mode", "own"), [(0o755, True), (0o777, False), (0o1777, True)])
def test_nobody_exchanges_what_is_above(tmp_path, mode, own):
    """With the sticky bit, as of /tmp, only the owner renames what lies there."""
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(mode)
    assert is_private(folder) is own


@pytest.mark.parametrize("mode", [0o770, 0o775])
@pytest.mark.parametrize(
    ("members", "attributes", "group", "own"),
    [
        ([], [], 0, True),
        (["anna"], [], 0, False),
        ([], [private.ACCESS], 0, False),
        ([], [], 1, False),
    ],
)
def test_a_group_may_write_that_nobody_else_is_in(tmp_path, monkeypatch, mode, members, attributes, group, own):
    """The folder has the group of its user, with members or a list of users, or another group."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    found = os.stat_result([*folder.stat()[:5], folder.stat().st_uid + group, *folder.stat()[6:]])
    monkeypatch.setattr(private.grp, "getgrgid", lambda number: SimpleNamespace(gr_mem=members))
    monkeypatch.setattr(os, "listxattr", lambda path: attributes)
    assert private._is_closed(folder, found) is own


def test_a_folder_above_belongs_to_this_user_or_to_root(tmp_path, monkeypatch):
    (tmp_path / "above" / "folder").mkdir(parents=True)
    monkeypatch.setattr(private, "_is_closed", lambda *_: True)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    above = tmp_path / "above"
    stats = {above: os.stat_result([0o40700, 0, 0, 0, 54321, 0, 0, 0, 0, 0])}
    monkeypatch.setattr(Path, "stat", lambda path, **_: stats[path])
    assert not private._is_safe(above)
    for owner in (0, 12345):
        stats[above] = os.stat_result([0o40700, 0, 0, 0, owner, 0, 0, 0, 0, 0])
        assert private._is_safe(above)


def test_a_folder_of_a_disk_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)

    def refused(*_):
        raise OSError("Read-only file system")

    monkeypatch.setattr(Path, "chmod", refused)
    assert private_folder(folder) == folder.resolve()


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
    assert not is_private(tmp_path)


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
