"""Files in pieces: whole, or not at all."""

import pytest

from inference.runtime.files import NotWrittenError
from inference.runtime.pieces import in_pieces


def test_all_pieces_are_written(tmp_path):
    with in_pieces(tmp_path / "table.csv") as write_piece:
        for piece in (b"a\n", b"", b"b\n"):
            write_piece(piece)
            assert not (tmp_path / "table.csv").exists()
    assert (tmp_path / "table.csv").read_bytes() == b"a\nb\n"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_stops_leaves_the_old_file(tmp_path, error):
    (tmp_path / "table.csv").write_bytes(b"old")

    def stopped():
        with in_pieces(tmp_path / "table.csv") as write_piece:
            write_piece(b"new")
            raise error

    with pytest.raises(error):
        stopped()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("table.csv", b"old")]


def test_nothing_written_is_no_file(tmp_path):
    with in_pieces(tmp_path / "table.csv"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"pathlib.Path.{call}" if call == "replace" else f"os.{call}", full)
    with pytest.raises(NotWrittenError, match="No space left"), in_pieces(tmp_path / "table.csv") as write_piece:
        write_piece(b"a")
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
