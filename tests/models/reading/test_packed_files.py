"""Packed tables that are cut short are refused in one line, whoever reads them."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pytest

from inference import read_stream
from models import ZooError, inspect_table, load_data

TABLE = ("a,b\n" + "\n".join(f"{value:.5f},{number % 7}" for number, value in enumerate(np.sqrt(np.arange(900.0))))).encode()


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", content)
    return file.getvalue()


@pytest.mark.parametrize("reads", [load_data, read_stream, inspect_table])
@pytest.mark.parametrize(
    ("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zip", zipped)]
)
def test_a_packed_file_cut_short_is_one_line(tmp_path, reads, ending, pack):
    path, whole = tmp_path / f"table.csv.{ending}", pack(TABLE)
    for share in range(15):
        path.write_bytes(whole[: len(whole) * share // 15])
        with pytest.raises(ZooError, match=r"table\.csv") as caught:
            reads(path)
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    assert load_data(path).num_rows == 900


def tarred(content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("table.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("reads", [load_data, read_stream, inspect_table])
def test_an_archive_that_cannot_be_opened_is_one_line(tmp_path, reads):
    """A tar cut short, one of zip with a password, one packed in an unknown way; the ending may be written in capitals."""
    encrypted, unknown = bytearray(zipped(TABLE)), bytearray(zipped(TABLE))
    for content, place, value in ((encrypted, 6, 1), (unknown, 8, 97)):
        central = content.index(b"PK\x01\x02")
        content[place], content[central + place + 2] = value, value
    cases = {"cut.csv.tar": tarred(TABLE)[:700], "locked.csv.zip": bytes(encrypted), "unknown.csv.ZIP": bytes(unknown)}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ZooError) as caught:
            reads(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_damaged_packed_file_is_one_line_or_the_table(tmp_path):
    path, whole, random = tmp_path / "table.csv.gz", gzip.compress(TABLE), np.random.default_rng(0)
    for place in random.integers(0, len(whole), 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << random.integers(8)]) + whole[place + 1 :])
        try:
            found = load_data(path)
        except ZooError:
            continue
        assert found.num_rows == 900
