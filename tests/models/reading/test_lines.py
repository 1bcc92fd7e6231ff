"""Titles, lines of names, totals and encodings: a file is read as by hand, along every path, or not at all."""

import io

import numpy as np
import pandas as pd
import pytest
from pasted import pasted, require_cells

from inference.streaming.source.files import Known, cut, style_at, table_of
from models import ZooError, load_data
from models.inspection.table import inspect_table
from models.reading.blocks import read_blocks
from models.reading.lines.below import WithoutEnd
from models.reading.lines.encodings import likely_encoding

NAMES = ["x0", "x1", "x2"]
BODY = "61.5,1.70,north\n72,1.81,south\n58.25,1.66,north\n80,1.92,south\n66,1.75,north\n70.5,1.69,south\n"
TABLE = "mass,size,side\n" + BODY
SEMICOLONS = TABLE.replace(",", ";").replace(".", ",")
EUROPEAN = {"sep": ";", "decimal": ","}
TWICE = ["first mass", "first size", "second mass", "second size"]
PAIRS = "60,1.7,61,1.7\n70,1.8,72,1.8\n80,1.9,79,1.9\n65,1.6,66,1.6\n"
SURVEY = (
    '"{""ImportId"":""a""}","{""ImportId"":""b""}","{""ImportId"":""c""}"\n' + "4,2.5,no\n3,1.5,yes\n5,2.5,yes\n1,0.5,no\n" * 2
)

# The text of a file; how pandas reads it, chosen by hand; the options that must be proposed.
FILES = {
    "no names": (BODY, {"header": None, "names": NAMES}, {"header": "none"}),
    "no names but ;": (BODY.replace(",", ";"), {"header": None, "names": NAMES, "sep": ";"}, {"header": "none"}),
    "no names, counts": ("4,17,3\n2,15,9\n8,11,5\n5,19,7\n3,12,4\n", {"header": None, "names": NAMES}, {"header": "none"}),
    "no names, one column": ("4.5\n2\n8.25\n5\n", {"header": None, "names": ["x0"]}, {"header": "none"}),
    "no names, levels": ("a,u\nb,v\na,v\nb,u\na,u\nb,v\n", {"header": None, "names": NAMES[:2]}, {"header": "none"}),
    "no names, a hole": ("4.5,,1\n2.5,3,2\n8,4,1\n1,5,2\n", {"header": None, "names": NAMES}, {"header": "none"}),
    "units below the names": ("mass,size,side\nkg,m,\n" + BODY, {"skiprows": [1]}, {"header": 2}),
    "units in brackets": ("mass,size,side\n(kg),(m),\n" + BODY, {"skiprows": [1]}, {"header": 2}),
    "names in two lines": ("first,,second,\nmass,size,mass,size\n" + PAIRS, {"skiprows": 2, "names": TWICE}, {"header": 2}),
    "labels of a survey": ("Q1,Q2,Q3\nHow many?,How much?,Is it so?\n" + SURVEY, {"skiprows": [1, 2]}, {"header": 3}),
    "a title": ("Survey of the harbour\n" + TABLE, {"skiprows": 1}, {"skip": 1}),
    "a title and a blank line": ("Survey of the harbour\n\n" + TABLE, {"skiprows": 2}, {"skip": 2}),
    "a title with empty cells": ("Survey of the harbour,,\n" + TABLE, {"skiprows": 1}, {"skip": 1}),
    "two titles": ("Survey of the harbour\nexported by hand\n\n" + TABLE, {"skiprows": 3}, {"skip": 3}),
    "a title above semicolons": (
        "Harbour\n" + SEMICOLONS, {"skiprows": 1} | EUROPEAN, {"skip": 1, "separator": "semicolon"}),
    "a remark": ("# made by a logger, version 2\n" + TABLE, {"skiprows": 1}, {"skip": 1}),
    "a title over no names": ("Harbour\nmass,size,side\nkg,m,\n" + BODY, {"skiprows": [0, 2]}, {"skip": 1, "header": 2}),
    "sep=": ("sep=;\n" + SEMICOLONS, {"skiprows": 1} | EUROPEAN, {"skip": 1, "separator": "semicolon"}),
    "sep= of commas": ("sep=,\n" + TABLE, {"skiprows": 1}, {"skip": 1}),
    "sep= in quotes": ('"sep=|"\n' + TABLE.replace(",", "|"), {"skiprows": 1, "sep": "|"}, {"skip": 1, "separator": "bar"}),
    "a total": ("side,n,m\na,5,6.5\nb,7,9\na,3,2\nb,4,8\nTotal,19,25.5\n", {"skipfooter": 1}, {"skip_end": 1}),
    "a sum, a mean": ("side;n\na;5\nb;7\na;3\nb;5\nSumme;20\nMittelwert;5\n", {"skipfooter": 2, "sep": ";"}, {"skip_end": 2}),
    "a sum without a name": ("n,m\n5,6\n7,9\n3,2\n4,4\n6,8\n25,29\n", {"skipfooter": 1}, {"skip_end": 1}),
    "a source": (TABLE + "Source: the harbour of Bergen\n", {"skipfooter": 1}, {"skip_end": 1}),
    "a title and a total": ("Towns\nside,n\na,5\nb,7\na,4\nb,5\nTotal,21\n",
                            {"skiprows": 1, "skipfooter": 1}, {"skip": 1, "skip_end": 1}),
}  # fmt: skip


def by_hand(text, options):
    return pd.read_csv(io.StringIO(text), engine="python", **options)


@pytest.mark.parametrize("name", FILES)
def test_the_printed_command_reads_a_file_as_by_hand(tmp_path, name):
    """The options are proposed and read the file; a run without them refuses it, in one sentence that names them."""
    text, options, proposed = FILES[name]
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    found, data, pasted_options = pasted(path)
    assert proposed.items() <= found.options.items()
    wanted = by_hand(text, options)
    require_cells(data, wanted)
    assert not inspect_table(str(path), **found.options).problems
    with pytest.raises(ZooError) as refused:
        load_data(str(path), **{name: value for name, value in found.options.items() if name not in proposed})
    assert f"data.{next(iter(proposed))}=" in str(refused.value)
    if name != "a sum without a name":  # which needs the whole table
        without = {option: value for option, value in pasted_options.items() if option not in (*proposed, "types")}
        with pytest.raises(ZooError, match=f"data.{next(iter(proposed))}="):
            list(cut(path, without, block_rows=2))
        with pytest.raises(ZooError):  # of the lines, or of the first cell that is not of the model
            list(read_blocks(str(path), data, None, without, size=2))
    kept = {name: value for name, value in pasted_options.items() if name != "types"}
    frames = [table_of(frame, "t", kept, style_at(path, kept), Known()) for frame in cut(path, kept, block_rows=2)]
    np.testing.assert_array_equal(sum(frame.num_rows for frame in frames), len(wanted))
    blocks = [block.data for block in read_blocks(str(path), data, None, kept, size=2)]
    np.testing.assert_array_equal(np.concatenate([block.x for block in blocks]), data.x)
    if not data.categories:
        np.testing.assert_array_equal(np.concatenate([frame.x for frame in frames]), data.x)


ORDINARY = {
    "years": "country,2019,2020,2021\nA,3.1,3.2,3.3\nB,4.1,4.2,4.6\nA,1,2,3.5\n",
    "years near the values": "who,2019,2020\nA,2100,1990\nB,1850,2050\nA,2000,1900\nB,2010,2011\n",
    "running names": "0,1,2\n1.5,0.5,2.5\n0.5,1.5,0\n1,2,1\n",
    "names with an index": ",0,1\n0,1.5,2.5\n1,0.5,1.5\n2,2,1\n",
    "wavelengths": "400,410,420,430\n0.1,0.2,0.4,0.1\n0.2,0.1,0.3,0.3\n",
    "ordinals": "1st,2nd,3rd\n1,2,3\n4,5,6\n7,8,9\n",
    "a blank name": ",value\n0,1.5\n1,2.5\n",
    "one row": "a,b\n1,2\n",
    "a first row of holes": "a,b,c\nNA,?,\n1,2,3\n4,5,6\n7,8,8\n",
    "a first row unlike others": "a,side,place\n1,rare,odd\n2,x,u\n3,y,v\n4,x,u\n5,y,v\n6,x,v\n",
    "a level called total": "side,n\nTotal,5\na,4\nTotal,7\na,6\n",
    "a last row that is large": "n,m\n5,6\n7,9\n3,2\n4,4\n6,8\n26,30\n",
    "zeros and ones": "n,m\n0,0\n0,1\n1,0\n0,0\n0,0\n0,0\n1,1\n",
    "a last row with holes": "who,n,m\nanna,5,6\nbob,7,9\ncid,,\n",
    "texts": "words\nthe sea is calm today\nthe wind was strong\nSource: nobody knows it\n",
    "names like marks": "#id,name\n1,ann\n2,bob\n3,ann\n",
    "sep as a name": "sep,n\n1.5,2\n2.5,3\n",
    "blank lines": "\n\na,b\n1,2\n3,4\n",
    "quotes over lines": '"a\nb",c\n1,2\n3,4\n',
    "no name above the first": "mass,size\n1,2,3\n4,5,6\n",
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_files_are_read_as_ever(tmp_path, name):
    """No title, name or total is seen where there is none; what is refused is refused for another reason."""
    path = tmp_path / "table.csv"
    path.write_text(ORDINARY[name], encoding="utf-8")
    if name == "no name above the first":
        with pytest.raises(ZooError, match="rows have more cells than the header has names"):
            load_data(str(path))
        return
    wanted = by_hand(ORDINARY[name], {}) if name != "a first row of holes" else by_hand(ORDINARY[name], {"na_values": ["?"]})
    require_cells(load_data(str(path)), wanted)
    assert not {"header", "skip", "skip_end"} & set(inspect_table(str(path)).options)


@pytest.mark.parametrize("option", ["header", "skip", "skip_end"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "two", [1]])
def test_a_wrong_number_of_lines_is_refused(tmp_path, option, value):
    (tmp_path / "table.csv").write_text(TABLE, encoding="utf-8")
    with pytest.raises(ZooError, match=f"{option}="):
        load_data(str(tmp_path / "table.csv"), **{option: value})


@pytest.mark.parametrize("option", [{"header": "none"}, {"skip": 1}, {"skip_end": 0}])
def test_lines_are_of_text_files(tmp_path, option):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "table.parquet")
    for source in (frame, str(tmp_path / "table.parquet")):
        with pytest.raises(ZooError, match="text files"):
            load_data(source, **option)


@pytest.mark.parametrize(
    ("option", "text"),
    [({"header": 1}, BODY), ({"header": 1}, "mass,size\nkg,m\n1,2\n3,4\n5,6\n"), ({"skip_end": 0}, FILES["a total"][0])],
)
def test_a_file_is_read_as_it_stands_if_the_user_says_so(tmp_path, option, text):
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    assert (
        load_data(
            str(tmp_path / "table.csv"), **option, types=dict.fromkeys(text.split("\n")[0].split(",")[:2], "category")
        ).num_rows
        == text.count("\n") - 1
    )


WORDS = ["Zürich", "Genève", "Malmö", "Besançon", "Århus", "España", "Königsberg", "São Paulo", "Tromsø", "Straße"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252", "mac_roman", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize("seed", range(3))
def test_the_encoding_is_the_one_it_was_written_in(tmp_path, encoding, seed):
    """Towns with letters beyond ASCII: proposed, and read back letter by letter."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"town": rng.choice(WORDS, 40), "n": rng.normal(size=40).round(2)})
    path = tmp_path / "table.csv"
    path.write_bytes(frame.to_csv(index=False).encode(encoding))
    found, data, _ = pasted(path)
    require_cells(data, frame)
    assert found.options == ({} if encoding.startswith("utf-8") else {"encoding": encoding})
    if found.options:
        assert any(town in found.problems[0].advice for town in WORDS)
        with pytest.raises(ZooError, match=f"data.encoding={encoding}"):
            load_data(str(path))


def test_signs_alone_are_of_windows():
    """Quotation marks, degrees and the euro are in other encodings letters or other signs."""
    for text in ("it’s 20 °C", "„so“ – €5", "a\nnaïve\ncafé"):
        assert likely_encoding(text.encode("cp1252")) == "cp1252"
    assert likely_encoding(bytes(range(256)) * 20) == ""


@pytest.mark.parametrize("lines", [1, 2, 5])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_without_its_end_a_text_is_its_other_lines(lines, end, size):
    """However it is read, and whatever follows the last line; blank lines do not count."""
    text = [f"row {number}" for number in range(12)]
    for tail in ("", end, end * 3, f"{end}  {end}"):
        file, parts = WithoutEnd(io.StringIO(end.join(text) + tail, newline=""), lines), []
        while part := file.read(size):
            parts.append(part)
        assert "".join(parts).split() == " ".join(text[:-lines]).split()
        whole = WithoutEnd(io.StringIO(end.join(text) + tail, newline=""), lines)
        assert whole.read() == "".join(parts)
