"""Files in several encodings: each is read in its own, so that a person is one in all of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table
from pate.data.table.dealing import Dealing
from pate.data.table.encoding import encoding_of
from pate.data.table.table_file import TableFile
from pate.validation import InvalidValue
from tests.refusals import ANY, Refusal, refused

pytest.importorskip("pyarrow")

NAMES = ["José", "Zoë", "Šárka €", "Jürgen"]  # Š and the euro sign are in cp1252 and not in latin-1
WARDS = ["Pädiatrie", "Gynäkologie"]


def written(
    folder: Path, encodings: dict[str, str], *, shared: bool = False, mark: str = ""
) -> dict[str, Any]:
    """Writes a file for each split in an encoding of its own; all have the same persons where these are shared."""
    settings: dict[str, Any] = {"labels": ("flu",), "group": "person"}
    for split, encoding in encodings.items():
        whose = "" if shared else f" {split}"
        rows = [
            f"{name}{whose},{30 + place},{WARDS[place % 2]},{place % 2}"
            for place, name in enumerate(NAMES)
        ]
        text = mark + "\n".join(["person,age,ward,flu", *rows, ""])
        settings[split] = str(folder / f"{split}.csv")
        Path(settings[split]).write_bytes(text.encode(encoding))
    return settings


@pytest.mark.parametrize("named", ["latin-1", "cp1252", "windows-1252", {"private": "iso-8859-1"}])
def test_a_person_of_two_files_in_two_encodings_is_one(tmp_path: Path, named: Any) -> None:
    settings = written(
        tmp_path, {"private": "cp1252", "public": "utf-8", "test": "utf-8"}, shared=True
    )
    with refused("data.group", "person", "split, 4 are"):
        Table(**settings, encoding=named).load()


@pytest.mark.parametrize(
    ("encodings", "named", "told"),
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
    tmp_path: Path, encodings: Any, named: Any, told: str
) -> None:
    splits = ("private", "public", "test")
    wanted = Table(**written(tmp_path, dict.fromkeys(splits, "utf-8"))).load()
    dataset = Table(
        **written(tmp_path, dict(zip(splits, encodings, strict=True))), encoding=named
    ).load()
    for split in splits:
        assert np.array_equal(getattr(dataset, split).inputs, getattr(wanted, split).inputs)
    assert dataset.owners == wanted.owners
    assert dataset.preprocessing == wanted.preprocessing
    assert any(note.startswith(told) for note in dataset.notes)
    assert not any("read in" in note for note in wanted.notes)


def test_a_file_for_predictions_and_one_that_is_dealt_are_read_alike(tmp_path: Path) -> None:
    settings = written(tmp_path, {"public": "utf-8", "private": "cp1252", "test": "utf-16"})
    schema = Table(**settings).public_schema()
    wanted = schema.inputs(TableFile(Path(settings["public"]), "data", "cp1252").read())
    for split, encoding in (("private", "latin-1"), ("test", "utf-8")):
        table = TableFile(Path(settings[split]), "data", encoding).read()
        assert np.array_equal(schema.inputs(table), wanted)
    (tmp_path / "parts").mkdir()
    parts = Dealing(
        TableFile(Path(settings["private"]), "data", "latin-1"), None, 0.25, 0.25
    ).write(tmp_path / "parts")
    found = sorted(
        word
        for path in parts.values()
        for word in TableFile(path, "data", "cp1252").read()["ward"].to_pylist()
    )
    assert found == sorted(2 * WARDS)


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
def test_bytes_say_the_encoding_before_a_setting_does(
    tmp_path: Path, content: bytes, named: str, encoding: str, ending: str
) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(content) if ending == "csv.gz" else content)
    assert encoding_of(path, named) == encoding


def test_a_character_that_a_block_ends_within_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pate.data.table.encoding._BLOCK_BYTES", 1)
    (tmp_path / "a.csv").write_bytes("é€".encode())
    (tmp_path / "b.csv").write_bytes("é€".encode()[:-1])
    assert encoding_of(tmp_path / "a.csv", "latin-1") == "utf-8"
    assert encoding_of(tmp_path / "b.csv", "latin-1") == "cp1252"


@pytest.mark.parametrize("named", ["utf-8", "latin-1"])
def test_lines_in_two_encodings_are_refused_by_their_number(tmp_path: Path, named: str) -> None:
    settings = written(tmp_path, {"private": "utf-8", "public": "utf-8", "test": "utf-8"})
    path = Path(settings["private"])
    path.write_bytes(path.read_bytes() + "Secret-René,40,Pädiatrie,1\n".encode("latin-1"))
    line = r"text in one encoding, 4 of 5 lines beyond ASCII are UTF-8 and line 6 is the first that is not: mend"
    with refused("data.private", ANY, line) as caught:
        Table(**settings, encoding=named).load()
    assert "Secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (
            {"encoding": {"privat": "cp1252"}},
            refused("data.encoding", "{'privat': 'cp1252'}"),
        ),
        (
            {"encoding": {"private": "klingon"}},
            refused("data.encoding.private", "klingon"),
        ),
        ({"encoding": {"test": 3}}, refused("data.encoding.test", 3)),
        ({"encoding": "base64"}, refused("data.encoding", "base64")),
        (
            {"encoding": {"test": "cp1252"}, "path": "a.csv"},
            refused("data.encoding", "{'test': 'cp1252'}"),
        ),
    ],
)
def test_what_is_no_encoding_is_refused(settings: dict[str, Any], refusal: Refusal) -> None:
    with refusal:
        Table(labels=("flu",), **settings)


def test_the_advice_for_one_file_does_not_change_the_others(tmp_path: Path) -> None:
    settings = written(tmp_path, {"private": "cp1252", "public": "utf-8", "test": "utf-8"})
    with refused("data.private", ANY, hint="encoding=latin-1"):
        Table(**settings).load()


def test_names_of_columns_are_read_without_a_block_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block has 32 MB: to read one for each list of names takes a third of the time of a small table."""
    from pyarrow import csv

    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setattr(csv, "open_csv", lambda *_, **__: pytest.fail("a block was read"))
    assert TableFile(path, "data.private").names == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("named", ["utf-8", "utf-16", "latin-1"])
def test_utf_16_without_a_mark_is_named(tmp_path: Path, encoding: str, named: str) -> None:
    settings = written(tmp_path, {"private": encoding, "public": "utf-8", "test": "utf-8"})
    rule = rf"data\.encoding={encoding}\b"
    with pytest.raises(InvalidValue, match=rule):
        Table(**settings, encoding=named).load()
    assert Table(**settings, encoding=encoding).load().private.inputs.shape[0] == len(NAMES)


@pytest.mark.parametrize(
    ("encoding", "is_told"), [("mac-roman", True), ("cp850", True), ("cp1252", False)]
)
def test_names_with_signs_in_them_are_told(tmp_path: Path, encoding: str, is_told: bool) -> None:
    """Read as latin-1, M\u00fcller of mac-roman is M\u0178ller, and of cp850 no letter at all: another person."""
    path = tmp_path / "a.csv"
    text = (
        "person,age\nAndr\u00e9,1\nB\u00e4r,2\nDu\u0161an,3\n"
        if encoding == "cp1252"
        else "person,age\nRen\u00e9e,1\nB\u00e4r,2\nX,3\n"
    )
    path.write_bytes(text.encode(encoding))
    remark = TableFile(path, "data.private", "latin-1").encoding_remark()
    assert remark is not None
    assert remark.startswith("data.private: read in cp1252, as it is not in UTF-8")
    assert ("2 of its lines have signs within words" in remark) == is_told


def test_lines_of_json_in_utf_16_name_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"age": 1}\n'.encode("utf-16-be"))
    with refused("data.private", ANY, "data.encoding=utf-16-be"):
        list(TableFile(path, "data.private").rows())


def test_a_good_file_is_not_read_again_for_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule for zero bytes reads a megabyte: for each column of each batch this took half of the time."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setattr(
        "pate.data.table.source_file.likely_utf_16",
        lambda _: pytest.fail("the file was read again"),
    )
    assert sum(table.num_rows for _, table in TableFile(path, "data.private").rows()) == 1
