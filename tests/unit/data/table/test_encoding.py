"""Files in several encodings are each read in their own, so that a person is the same one in all of them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table
from pate.data.table.dealing import Dealing
from pate.data.table.encoding import encoding_of
from pate.data.table.table_file import TableFile
from pate.validation import InvalidValue
from tests.refusals import ANY, Refusal, refused_parameter
from tests.unit.data.split_paths import SplitPaths

pytest.importorskip("pyarrow")

# The encoding cp1252 has the letter Š and the euro sign, and latin-1 has not.
NAMES = ["José", "Zoë", "Šárka €", "Jürgen"]
WARDS = ["Pädiatrie", "Gynäkologie"]


def write_people(
    folder: Path,
    *,
    private_encoding: str = "utf-8",
    public_encoding: str = "utf-8",
    test_encoding: str = "utf-8",
    splits_share_people: bool = False,
) -> Table:
    """Writes a file of four persons for each split, and returns their reader.

    Args:
        folder: the folder of the files.
        private_encoding: the encoding of the private file.
        public_encoding: the encoding of the public file.
        test_encoding: the encoding of the test file.
        splits_share_people: whether all files have the same persons.
    """
    encoding_of_split = {
        "private": private_encoding,
        "public": public_encoding,
        "test": test_encoding,
    }
    for split, encoding in encoding_of_split.items():
        suffix = "" if splits_share_people else f" {split}"
        rows = []
        for number, name in enumerate(NAMES):
            flu = number % 2
            rows.append(f"{name}{suffix},{30 + number},{WARDS[flu]},{flu}")
        text = "\n".join(["person,age,ward,flu", *rows, ""])
        (folder / f"{split}.csv").write_bytes(text.encode(encoding))
    table = SplitPaths.in_folder(folder=folder, ending=".csv").table_with_labels("flu")
    return replace(table, group="person")


@pytest.mark.parametrize("named", ["latin-1", "cp1252", "windows-1252", {"private": "iso-8859-1"}])
def test_person_in_two_splits_is_found_across_encodings(tmp_path: Path, named: Any) -> None:
    """Persons in two splits are found and refused although the private file is in cp1252 and the others in UTF-8."""
    table = write_people(folder=tmp_path, private_encoding="cp1252", splits_share_people=True)
    with refused_parameter("data.group", value="person", rule_words="split, 4 are"):
        replace(table, encoding=named).load()


@pytest.mark.parametrize(
    ("encodings", "named", "remark"),
    [
        (
            ("cp1252", "utf-8", "utf-8"),
            "cp1252",
            "data.private: read in cp1252, as it is not in UTF-8",
        ),
        (("utf-8", "cp1252", "utf-8"), "latin-1", "data.private: read in UTF-8, which it is in"),
        (
            ("cp1252", "cp1252", "cp1252"),
            "latin-1",
            "data.public: read in cp1252, as it is not in UTF-8",
        ),
        (
            ("cp1252", "utf-8", "utf-16"),
            {"private": "cp1252"},
            "data.test: read in utf-16, as it is not in UTF-8",
        ),
        (
            ("cp1252", "utf-8", "cp1250"),
            {"private": "cp1252", "test": "cp1250"},
            "data.test: read in cp1250",
        ),
        (("utf-16-le", "utf-8", "utf-8-sig"), "utf-16-le", "data.private: read in utf-16-le"),
    ],
)
def test_each_file_is_read_in_its_own_encoding(
    tmp_path: Path, encodings: tuple[str, str, str], named: Any, remark: str
) -> None:
    """Three files, at least one of them not in UTF-8, give the inputs, owners and schema of UTF-8 files.

    A remark names the encoding of a file.
    """
    expected = write_people(folder=tmp_path).load()
    private, public, test = encodings
    table = write_people(
        folder=tmp_path, private_encoding=private, public_encoding=public, test_encoding=test
    )
    dataset = replace(table, encoding=named).load()
    for split in ("private", "public", "test"):
        assert np.array_equal(getattr(dataset, split).inputs, getattr(expected, split).inputs)
    assert dataset.owners == expected.owners
    assert dataset.preprocessing == expected.preprocessing
    assert any(note.startswith(remark) for note in dataset.notes)
    assert not any("read in" in note for note in expected.notes)


def test_prediction_file_is_read_in_its_own_encoding(tmp_path: Path) -> None:
    """A schema gives equal inputs for files in three encodings, even if another encoding is named for them."""
    schema = write_people(
        folder=tmp_path, private_encoding="cp1252", test_encoding="utf-16"
    ).public_schema()
    public = schema.inputs(
        TableFile(tmp_path / "public.csv", setting="data", encoding="cp1252").read()
    )
    private = schema.inputs(
        TableFile(tmp_path / "private.csv", setting="data", encoding="latin-1").read()
    )
    test = schema.inputs(TableFile(tmp_path / "test.csv", setting="data", encoding="utf-8").read())
    assert np.array_equal(private, public)
    assert np.array_equal(test, public)


def test_split_files_keep_the_encoding(tmp_path: Path) -> None:
    """The splits of a file in cp1252 are in cp1252, with the names of wards unchanged."""
    write_people(folder=tmp_path, private_encoding="cp1252")
    (tmp_path / "parts").mkdir()
    file = TableFile(tmp_path / "private.csv", setting="data", encoding="latin-1")
    dealing = Dealing(table_file=file, group=None, public_share=0.25, test_share=0.25)
    parts = dealing.write(tmp_path / "parts").values()
    lines = [line for path in parts for line in path.read_text(encoding="cp1252").splitlines()[1:]]
    wards = [line.split(",")[2] for line in lines]
    assert sorted(wards) == sorted(2 * WARDS)


@pytest.mark.parametrize(
    ("content", "named", "encoding"),
    [
        (b"a,b\n", "cp1252", "cp1252"),
        ("ä".encode(), "latin-1", "utf-8"),
        ("ä".encode("latin-1"), "latin-1", "cp1252"),
        ("ä".encode("latin-1"), "iso-8859-15", "iso-8859-15"),
        (b"\xef\xbb\xbfa", "cp1252", "utf-8"),
        ("ä".encode("utf-16"), "utf-8", "utf-16"),
        ("ä".encode("utf-32"), "utf-8", "utf-32"),
        (b"a,b\n", "utf-16", "utf-8"),
        ("a,b\n".encode("utf-16-le"), "utf-16-le", "utf-16-le"),
        ("日本\n".encode("iso2022_jp"), "iso2022_jp", "iso2022_jp"),
        ("日本語\n".encode("shift_jis"), "shift_jis", "shift_jis"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_bytes_of_a_file_override_the_encoding_setting(
    tmp_path: Path, content: bytes, named: str, encoding: str, ending: str
) -> None:
    """A file that begins with a byte-order mark, or is in UTF-8 with letters beyond ASCII, is read in its own encoding.

    Otherwise the named encoding holds, with cp1252 for latin-1. A file of ASCII is read as UTF-8 if UTF-16 is named.
    """
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(content) if ending == "csv.gz" else content)
    assert encoding_of(path, named_encoding=named) == encoding


def test_character_across_two_blocks_is_decoded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is read byte by byte is found to be in UTF-8, or in cp1252 if its last character is cut off."""
    monkeypatch.setattr("pate.data.table.encoding._BLOCK_BYTES", 1)
    (tmp_path / "a.csv").write_bytes("é€".encode())
    (tmp_path / "b.csv").write_bytes("é€".encode()[:-1])
    assert encoding_of(tmp_path / "a.csv", named_encoding="latin-1") == "utf-8"
    assert encoding_of(tmp_path / "b.csv", named_encoding="latin-1") == "cp1252"


@pytest.mark.parametrize("named", ["utf-8", "latin-1"])
def test_refusal_of_mixed_encodings_names_the_line(tmp_path: Path, named: str) -> None:
    """The refusal of a UTF-8 file with one line in latin-1 has the number of this line, and not its text."""
    table = write_people(folder=tmp_path)
    path = tmp_path / "private.csv"
    path.write_bytes(path.read_bytes() + "Secret-René,40,Pädiatrie,1\n".encode("latin-1"))
    rule_on_line_6 = (
        "text in one encoding, 4 of 5 lines beyond ASCII are UTF-8 and line 6 is the first that is not: "
        "mend"
    )
    with refused_parameter("data.private", value=ANY, rule_words=rule_on_line_6) as caught:
        replace(table, encoding=named).load()
    assert "Secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "refusal"),
    [
        ({"privat": "cp1252"}, refused_parameter("data.encoding", value="{'privat': 'cp1252'}")),
        ({"private": "klingon"}, refused_parameter("data.encoding.private", value="klingon")),
        ({"test": 3}, refused_parameter("data.encoding.test", value=3)),
        ("base64", refused_parameter("data.encoding", value="base64")),
    ],
)
def test_unknown_encoding_is_refused(encoding: Any, refusal: Refusal) -> None:
    """An unknown encoding, split or type in `data.encoding` is refused."""
    with refusal:
        Table(labels=("flu",), encoding=encoding)


def test_encodings_by_split_are_refused_for_one_file() -> None:
    """Encodings by split are refused if all splits are in one file."""
    with refused_parameter("data.encoding", value="{'test': 'cp1252'}"):
        Table(labels=("flu",), encoding={"test": "cp1252"}, path="a.csv")


def test_refusal_of_a_wrong_encoding_names_the_setting(tmp_path: Path) -> None:
    """A file in cp1252 is refused without a setting, and the error hints at the setting of the encoding."""
    with refused_parameter("data.private", value=ANY, hint_words="encoding=latin-1"):
        write_people(folder=tmp_path, private_encoding="cp1252").load()


def test_reading_column_names_reads_no_block_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of the columns are read without Arrow's reader of rows.

    A block has 32 MiB. Reading a block for each list of names would take a third of the time of a small table.
    """
    from pyarrow import csv

    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setattr(csv, "open_csv", lambda *_, **__: pytest.fail("a block was read"))
    assert TableFile(path, setting="data.private").names == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("named", ["utf-8", "utf-16", "latin-1"])
def test_refusal_names_utf_16_without_byte_order_mark(
    tmp_path: Path, encoding: str, named: str
) -> None:
    """A file in UTF-16 without a byte-order mark is refused, and the error names the encoding.

    The file is read if `data.encoding` names this encoding.
    """
    table = write_people(folder=tmp_path, private_encoding=encoding)
    rule = rf"data\.encoding={encoding}\b"
    with pytest.raises(InvalidValue, match=rule):
        replace(table, encoding=named).load()
    assert len(replace(table, encoding=encoding).load().private) == len(NAMES)


@pytest.mark.parametrize(
    ("encoding", "has_signs"), [("mac-roman", True), ("cp850", True), ("cp1252", False)]
)
def test_names_garbled_by_a_wrong_encoding_yield_a_remark(
    tmp_path: Path, encoding: str, has_signs: bool
) -> None:
    """If a file in mac-roman or cp850 is read as latin-1, a remark counts the lines with signs within words.

    Müller in mac-roman becomes MŸller, which would be another person. For a file in cp1252 there is no such count.
    """
    path = tmp_path / "a.csv"
    text = (
        "person,age\nAndr\u00e9,1\nB\u00e4r,2\nDu\u0161an,3\n"
        if encoding == "cp1252"
        else "person,age\nRen\u00e9e,1\nB\u00e4r,2\nX,3\n"
    )
    path.write_bytes(text.encode(encoding))
    remarks = TableFile(path, setting="data.private", encoding="latin-1").encoding_remarks()
    (remark,) = remarks
    assert remark.startswith("data.private: read in cp1252, as it is not in UTF-8")
    assert ("2 of its lines have signs within words" in remark) == has_signs


def test_refusal_of_json_lines_in_utf_16_names_the_encoding(tmp_path: Path) -> None:
    """JSON lines in UTF-16 without a byte-order mark are refused, with the encoding to set."""
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"age": 1}\n'.encode("utf-16-be"))
    with refused_parameter("data.private", value=ANY, rule_words="data.encoding=utf-16-be"):
        list(TableFile(path, setting="data.private").rows())


def test_valid_file_is_not_searched_for_nul_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A valid file is read without the search for UTF-16.

    The search reads a megabyte. Repeated for each column of each batch, it would take half of the time.
    """
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setattr(
        "pate.data.table.source_file.likely_utf_16",
        lambda _: pytest.fail("the file was read again"),
    )
    assert sum(table.num_rows for _, table in TableFile(path, setting="data.private").rows()) == 1
