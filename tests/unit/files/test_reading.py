"""What is said of files that are not what was written."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pate.files.arrays import ArrayForm, read_arrays
from pate.files.atomic import write_arrays
from pate.files.reading import DamagedFile, read_json, read_text
from tests.e2e.damage import WAYS, Way, flipped_once, other_arrays, other_json

FORMS = {"summary": ArrayForm("i", (None, 3)), "scale": ArrayForm("f", ())}


def written(folder: Path) -> Path:
    path = folder / "summary.npz"
    write_arrays(path, summary=np.arange(12).reshape(4, 3), scale=np.array(0.5))
    return path


def header(shape: tuple[int, ...], descr: str = "<i8") -> bytes:
    start = io.BytesIO()
    np.lib.format.write_array_header_1_0(start, {"descr": descr, "fortran_order": False, "shape": shape})
    return start.getvalue()


def test_arrays_come_back_as_they_were_and_may_be_changed(tmp_path: Path) -> None:
    arrays = read_arrays(written(tmp_path), FORMS)
    assert arrays["summary"].tolist() == np.arange(12).reshape(4, 3).tolist()
    assert arrays["scale"].item() == 0.5
    arrays["summary"][0] = 7
    columns = np.asfortranarray(np.arange(6).reshape(2, 3).astype(">i2"))
    write_arrays(tmp_path / "columns.npz", columns=columns)
    assert read_arrays(tmp_path / "columns.npz")["columns"].tolist() == columns.tolist()


@pytest.mark.parametrize("way", [way for way in WAYS if way is not flipped_once], ids=lambda way: way.__name__)
def test_every_damage_to_arrays_is_one_line_with_the_file_and_the_remedy(tmp_path: Path, way: Way) -> None:
    path = written(tmp_path)
    way(path)
    with pytest.raises(DamagedFile) as caught:
        read_arrays(path, FORMS, remedy="copy it again")
    said = str(caught.value)
    assert said.startswith(f"file={path}: expected ")
    assert said.endswith("; copy it again")
    assert "\n" not in said
    assert "pickle" not in said


def test_no_flipped_bit_is_read_as_other_numbers(tmp_path: Path) -> None:
    whole = written(tmp_path).read_bytes()
    right = read_arrays(tmp_path / "summary.npz", FORMS)
    path, refused = tmp_path / "flipped.npz", 0
    for place in range(0, len(whole), 3):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(bytes(content))
        try:
            found = read_arrays(path, FORMS)
        except DamagedFile:
            refused += 1
        else:
            assert all(np.array_equal(found[name], right[name]) for name in right), place
    assert refused > len(whole) / 6


@pytest.mark.parametrize("way", [way for way in WAYS if way not in (other_json, flipped_once, other_arrays)])
def test_every_damage_to_json_is_one_line(tmp_path: Path, way: Way) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"seed": 3, "name": "x"}\n')
    way(path)
    with pytest.raises(DamagedFile, match=r"^file=\S+run\.json: expected JSON \(.*\); copy it again$"):
        read_json(path, remedy="copy it again")


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, '{"a": '])
def test_json_without_end_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DamagedFile, match=r"expected JSON \(\w"):
        read_json(tmp_path / "run.json", remedy="none")


def test_text_that_is_no_text_says_where(tmp_path: Path) -> None:
    (tmp_path / "data.sha256").write_bytes(b"abc\xff")
    with pytest.raises(DamagedFile, match=r"\(byte 3 is not UTF-8\); restore$"):
        read_text(tmp_path / "data.sha256", remedy="restore")


def test_a_header_that_promises_more_than_there_is_takes_no_memory(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("summary.npy", header((10**6, 10**6)) + b"few")
    with pytest.raises(DamagedFile, match=r"bytes where the header promises \(1000000, 1000000\)"):
        read_arrays(tmp_path / "a.npz")


def test_compressed_arrays_are_refused_or_bounded(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", summary=np.zeros(10**6))
    with pytest.raises(DamagedFile, match="a compressed array"):
        read_arrays(tmp_path / "a.npz")
    with pytest.raises(DamagedFile, match="8,000,128 bytes once it is expanded, at most 1,000"):
        read_arrays(tmp_path / "a.npz", most=1000)
    assert len(read_arrays(tmp_path / "a.npz", most=10**7)["summary"]) == 10**6


def test_arrays_of_another_form_are_named(tmp_path: Path) -> None:
    path = written(tmp_path)
    for forms, said in (
        ({"summary": FORMS["summary"]}, r"expected the arrays summary \(not so: scale\)"),
        (FORMS | {"summary": ArrayForm("f")}, r"expected summary as floats \(dtype int64\)"),
        (FORMS | {"summary": ArrayForm("i", (4, 2))}, r"expected summary as integers \[4, 2\] \(shape \(4, 3\)\)"),
    ):
        with pytest.raises(DamagedFile, match=said):
            read_arrays(path, forms)
