"""Packed tables that are cut short are refused in one line, whoever reads them."""

import bz2
import gzip
import io
import lzma
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


def test_a_damaged_packed_file_is_one_line_or_the_table(tmp_path):
    path, whole, random = tmp_path / "table.csv.gz", gzip.compress(TABLE), np.random.default_rng(0)
    for place in random.integers(0, len(whole), 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << random.integers(8)]) + whole[place + 1 :])
        try:
            found = load_data(path)
        except ZooError:
            continue
        assert found.num_rows == 900
