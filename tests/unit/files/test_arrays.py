"""Archives of arrays and JSON files, whole or damaged, and rows that are moved to a file if they are many."""

import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Split
from pate.files.array_rows import FileRows, Spilled, let_go, row_blocks, take_rows
from pate.files.arrays import (
    ArrayForm,
    arrays_of,
    arrays_of_npz,
    npz_bytes,
    read_arrays,
    write_arrays,
)
from pate.files.reading import DamagedFile, read_json, read_text
from tests.e2e.damage import WAYS, Way, flip_one_bit, write_other_arrays, write_other_json
from tests.refusals import ANY, refused_parameter

# The forms of the arrays of `written_archive`.
FORMS = {
    "summary": ArrayForm(dtype_kinds="i", shape=(None, 3)),
    "scale": ArrayForm(dtype_kinds="f", shape=()),
}
# 1,000 random rows.
ROWS = np.random.default_rng(0).standard_normal((1000, 7)).astype(np.float32)


def written_archive(folder: Path) -> Path:
    """Writes an archive of two arrays, and returns its path."""
    path = folder / "summary.npz"
    write_arrays(path, summary=np.arange(12).reshape(4, 3), scale=np.array(0.5))
    return path


def test_arrays_are_read_back_equal_and_writable(tmp_path: Path) -> None:
    """Two arrays are read as they were written, and can be changed in memory.

    An array in column order and with another byte order is read too.
    """
    arrays = read_arrays(written_archive(folder=tmp_path), forms=FORMS)
    assert arrays["summary"].tolist() == np.arange(12).reshape(4, 3).tolist()
    assert arrays["scale"].item() == 0.5
    arrays["summary"][0] = 7
    array_in_column_order = np.asfortranarray(np.arange(6).reshape(2, 3).astype(">i2"))
    write_arrays(tmp_path / "columns.npz", columns=array_in_column_order)
    assert (
        read_arrays(tmp_path / "columns.npz")["columns"].tolist() == array_in_column_order.tolist()
    )


@pytest.mark.parametrize(
    "damage_file",
    [damage for damage in WAYS if damage is not flip_one_bit],
    ids=lambda damage: damage.__name__,
)
def test_damaged_arrays_are_refused_with_the_file_and_the_remedy(
    tmp_path: Path, damage_file: Way
) -> None:
    """A damaged archive is refused in one line, with its path and the remedy."""
    path = written_archive(folder=tmp_path)
    damage_file(path)
    with pytest.raises(DamagedFile) as caught:
        read_arrays(path, forms=FORMS, remedy="copy it again")
    message = str(caught.value)
    assert message.startswith(f"file={path}: expected ") and message.endswith("; copy it again")
    assert "\n" not in message and "pickle" not in message


@pytest.mark.slow
def test_no_flipped_bit_is_read_as_other_numbers(tmp_path: Path) -> None:
    """If one bit of an archive is inverted, in every third byte in turn, it is refused or its numbers are unchanged."""
    whole_content = written_archive(folder=tmp_path).read_bytes()
    whole_arrays = read_arrays(tmp_path / "summary.npz", forms=FORMS)
    path = tmp_path / "flipped.npz"
    num_refused = 0
    for byte_index in range(0, len(whole_content), 3):
        content = bytearray(whole_content)
        content[byte_index] ^= 1 << byte_index % 8
        path.write_bytes(bytes(content))
        try:
            arrays = read_arrays(path, forms=FORMS)
        except DamagedFile:
            num_refused += 1
        else:
            for name, whole_array in whole_arrays.items():
                assert np.array_equal(arrays[name], whole_array), byte_index
    assert num_refused > len(whole_content) / 6


@pytest.mark.parametrize(
    "damage_file",
    [
        damage
        for damage in WAYS
        if damage not in (write_other_json, flip_one_bit, write_other_arrays)
    ],
    ids=lambda damage: damage.__name__,
)
def test_a_damaged_json_file_is_refused(tmp_path: Path, damage_file: Way) -> None:
    """A damaged JSON file is refused as a `DamagedFile`."""
    path = tmp_path / "run.json"
    path.write_text('{"seed": 3, "name": "x"}\n')
    damage_file(path)
    with refused_parameter("file", value=ANY, rule_words="JSON (", kind=DamagedFile):
        read_json(path, remedy="copy it again")


def test_endless_json_and_broken_text_are_refused_in_one_line(tmp_path: Path) -> None:
    """JSON that is too deep, too long or cut, and text that is not UTF-8, are refused in one line."""
    for text in ("[" * 100_000, "9" * 5_000, '{"a": '):
        (tmp_path / "run.json").write_text(text)
        with refused_parameter("file", value=ANY, rule_words="JSON ", kind=DamagedFile) as refusal:
            read_json(tmp_path / "run.json", remedy="none")
        assert "\n" not in str(refusal.value)
    (tmp_path / "data.sha256").write_bytes(b"abc\xff")
    with refused_parameter("file", value=ANY, rule_words="restore", kind=DamagedFile) as refusal:
        read_text(tmp_path / "data.sha256", remedy="restore")
    assert "\n" not in str(refusal.value)


def test_arrays_larger_than_their_file_are_refused(
    tmp_path: Path,
) -> None:
    """An array whose header promises more bytes than the file has is refused.

    A compressed array is refused unless the caller allows the size that it has when it is unpacked.
    """
    header = io.BytesIO()
    promised_form = {"descr": "<i8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, promised_form)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("summary.npy", header.getvalue() + b"few")
    with refused_parameter("file", value=ANY, rule_words="bytes where", kind=DamagedFile):
        read_arrays(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "a.npz", summary=np.zeros(10**6))
    with refused_parameter("file", value=ANY, rule_words="compressed array", kind=DamagedFile):
        read_arrays(tmp_path / "a.npz")
    with refused_parameter("file", value=ANY, rule_words="8,000,128 bytes", kind=DamagedFile):
        read_arrays(tmp_path / "a.npz", max_unpacked_bytes=1000)
    assert len(read_arrays(tmp_path / "a.npz", max_unpacked_bytes=10**7)["summary"]) == 10**6


def test_a_damaged_header_is_refused_without_its_words(tmp_path: Path) -> None:
    """An error of `read_arrays` on a header that numpy cannot read does not quote the header."""
    path = tmp_path / "votes.npz"
    for header in (
        b"flu, cough\n",
        b"{'descr': 'flu', 'fortran_order': False, 'shape': (3,)}\n",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': ('flu',)}\n",
    ):
        with zipfile.ZipFile(path, "w") as archive:
            length = len(header).to_bytes(2, "little")
            archive.writestr("votes.npy", b"\x93NUMPY\x01\x00" + length + header)
        with pytest.raises(DamagedFile, match="a header that numpy cannot read") as refusal:
            read_arrays(path)
        assert "flu" not in str(refusal.value)


def test_arrays_of_another_form_are_refused_by_name(tmp_path: Path) -> None:
    """An archive with other arrays, types or shapes than expected is refused with the array's name."""
    path = written_archive(folder=tmp_path)
    for forms, refusal in (
        (
            {"summary": FORMS["summary"]},
            refused_parameter("file", value=ANY, rule_words="arrays summary", kind=DamagedFile),
        ),
        (
            FORMS | {"summary": ArrayForm(dtype_kinds="f")},
            refused_parameter("file", value=ANY, rule_words="summary as floats", kind=DamagedFile),
        ),
        (
            FORMS | {"summary": ArrayForm(dtype_kinds="i", shape=(4, 2))},
            refused_parameter(
                "file", value=ANY, rule_words="summary as integers", kind=DamagedFile
            ),
        ),
    ):
        with refusal:
            read_arrays(path, forms=forms)


def spilled_rows(max_bytes_in_memory: int, rows: np.ndarray = ROWS) -> Any:
    """Returns rows that were collected in blocks of 90; above `max_bytes_in_memory` bytes, all rows lie in a file."""
    collected_rows = Spilled(most_bytes=max_bytes_in_memory)
    for first in range(0, len(rows), 90):
        collected_rows.append(rows[first : first + 90])
    return collected_rows.whole()


@pytest.mark.parametrize(("most_bytes", "on_disk"), [(10**6, False), (10**4, True), (0, True)])
def test_spilled_rows_equal_the_appended_rows(
    most_bytes: int, on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collected rows equal the appended rows, in memory or, if they exceed the limit, in a file without a name."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    rows = spilled_rows(max_bytes_in_memory=most_bytes)
    assert isinstance(rows, FileRows) is on_disk
    assert np.array_equal(rows, ROWS) and rows.dtype == np.float32
    assert rows.shape == ROWS.shape and len(rows) == len(ROWS) and rows.nbytes == ROWS.nbytes
    assert not list(tmp_path.iterdir()), "the file has a name"


@pytest.mark.parametrize(
    "indices",
    [
        slice(3, 900, 7),
        slice(990, None),
        slice(5, 2),
        slice(None, None, -1),
        -3,
        np.int64(7),
        np.array([5, 999, -1, 5, 0]),
        [2, 1],
        np.arange(1000) % 3 == 0,
        np.array([], np.int64),
    ],
    ids=str,
)
def test_rows_in_a_file_are_indexed_as_an_array(
    indices: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices, row numbers and masks select the rows of an array, whether rows are read one by one or together."""
    rows = spilled_rows(max_bytes_in_memory=0)
    for close_bytes in (0, 2**12, 2**30):
        monkeypatch.setattr("pate.files.array_rows._CLOSE_BYTES", close_bytes)
        taken = rows[indices]
        assert type(taken) is np.ndarray
        assert np.array_equal(taken, ROWS[indices])


@pytest.mark.parametrize("indices", [1000, [0, -1001], np.ones(3, np.bool_)], ids=str)
def test_rows_beyond_the_file_are_an_index_error(indices: Any) -> None:
    """A row number beyond the rows, and a mask for fewer rows, raise an IndexError, as for an array."""
    with pytest.raises(IndexError):
        spilled_rows(max_bytes_in_memory=0)[indices]


def test_rows_in_a_file_are_a_pickled_array_and_refuse_arithmetic() -> None:
    """A pickle of rows in a file holds them as an array; arithmetic with such rows raises a TypeError.

    The rows can be reshaped if the sizes agree.
    """
    rows_in_file = spilled_rows(max_bytes_in_memory=0)
    restored_rows = pickle.loads(pickle.dumps(rows_in_file))
    assert type(restored_rows) is np.ndarray and np.array_equal(restored_rows, ROWS)
    with pytest.raises(TypeError):
        rows_in_file + 1
    with pytest.raises(TypeError):
        np.ones(ROWS.shape) * rows_in_file
    wide = rows_in_file.reshape(-1, 1, ROWS.shape[1])
    assert np.array_equal(wide[3:5], ROWS[3:5, None])
    with pytest.raises(ValueError, match="cannot reshape"):
        rows_in_file.reshape(-1, ROWS.shape[1] + 1)


def test_a_file_of_rows_is_closed_with_the_last_reader() -> None:
    """The file of rows stays open while one of two arrays reads it, and is closed with the last one."""
    rows = spilled_rows(max_bytes_in_memory=0)
    wide = rows.reshape(-1, 1, ROWS.shape[1])
    descriptor = rows._file.descriptor
    del rows
    os.fstat(descriptor)
    del wide
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_taken_rows_are_a_copy_and_blocks_keep_their_order(tmp_path: Path) -> None:
    """Rows taken from a memory map are a copy, and the map can be read again after `let_go` drops its pages.

    The blocks of an array together are the array.
    """
    mapped_rows = np.memmap(tmp_path / "rows", ROWS.dtype, mode="w+", shape=ROWS.shape)
    mapped_rows[:] = ROWS
    mapped_rows.flush()
    repeated_row_numbers = np.array([5, 999, 5, 0])
    every_third_row = np.arange(1000) % 3 == 0
    no_row_numbers = np.array([], np.int64)
    for row_indices in (slice(3, 900, 7), repeated_row_numbers, every_third_row, no_row_numbers):
        copy = take_rows(mapped_rows, rows=row_indices)
        assert type(copy) is np.ndarray and not np.shares_memory(copy, mapped_rows)
        assert np.array_equal(copy, ROWS[row_indices])
        let_go(mapped_rows)
        assert np.array_equal(mapped_rows, ROWS), "what was let go is read again"
    rows_in_file = spilled_rows(max_bytes_in_memory=0)
    row_of_numbers, no_rows = np.arange(5), np.zeros((0, 4))
    for array in (ROWS, mapped_rows, rows_in_file, row_of_numbers, no_rows):
        assert np.array_equal(np.concatenate([np.zeros_like(array[:0]), *row_blocks(array)]), array)


def test_a_split_of_inputs_in_a_file_is_that_of_the_same_in_memory() -> None:
    """A split whose inputs lie in a file has the digest of a split with the same inputs in memory.

    Splits of rows that are taken from both have equal digests, too. An infinite input is refused with its indices.
    """
    labels = ROWS[:, :2] > 0
    ids = np.arange(1000)
    in_memory, on_disk = (
        Split(inputs=inputs, labels=labels, record_ids=ids, group_ids=ids)
        for inputs in (ROWS, spilled_rows(max_bytes_in_memory=0))
    )
    assert on_disk.digest() == in_memory.digest()
    assert type(on_disk.take(ids[:5]).inputs) is np.ndarray
    assert on_disk.take(ids[::-3]).digest() == in_memory.take(ids[::-3]).digest()
    in_memory, on_disk = (
        Split(inputs=inputs, labels=labels, record_ids=ids[::-1].copy(), group_ids=ids)
        for inputs in (ROWS, spilled_rows(max_bytes_in_memory=0))
    )
    assert on_disk.digest() == in_memory.digest()
    rows_with_infinity = ROWS.copy()
    rows_with_infinity[901, 3] = np.inf
    with refused_parameter("inputs[901, 3]", rule_words="finite numbers"):
        Split(
            inputs=spilled_rows(max_bytes_in_memory=0, rows=rows_with_infinity),
            labels=labels,
            record_ids=ids,
            group_ids=ids,
        )


@pytest.mark.process
@pytest.mark.slow
def test_many_rows_take_little_memory() -> None:
    """A process that collects 400 MB of features, checks them and takes them in parts grows by less than 200 MB."""
    code = """
import numpy as np, re
from pate.data import Split
from pate.files.array_rows import Spilled
def largest(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before, rows = largest(), Spilled(2**24)
for first in range(0, 1_000_000, 10_000):
    rows.append(np.full((10_000, 100), first, np.float32))
ids = np.arange(1_000_000)
split = Split(rows.whole(), np.ones((len(ids), 1), np.bool_), ids, ids)
for teacher in range(100):
    assert split.take(ids[teacher::100]).inputs[50, 3] == (teacher + 5000) // 10_000 * 10_000
split.digest()
print(largest() - before)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ended.stdout) < 200


def save_every_argument(file: io.BytesIO, **arrays: object) -> None:
    """Stores the argument `allow_pickle` as an array, as `numpy.savez` before NumPy 2.2 does."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def test_an_older_numpy_stores_no_setting_among_the_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the `numpy.savez` of an earlier NumPy, archives in memory and in files are equal, without `allow_pickle`."""
    monkeypatch.setattr(np, "savez", save_every_argument)
    content = npz_bytes({"labels": np.eye(3, dtype=bool), "scale": np.array(0.5)})
    write_arrays(tmp_path / "release.npz", labels=np.eye(3, dtype=bool), scale=np.array(0.5))
    assert (tmp_path / "release.npz").read_bytes() == content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.namelist() == ["labels.npy", "scale.npy"]


def test_the_bytes_of_an_archive_are_those_of_numpy() -> None:
    """`npz_bytes` of various arrays gives the bytes of `numpy.savez`."""
    arrays = {
        "bits": np.eye(3, dtype=bool),
        "names": np.array(["a", "bc"]),
        "none": np.zeros((0, 4)),
        "one": np.array(7),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    }
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    assert npz_bytes(arrays) == file.getvalue()


def test_python_objects_are_not_packed() -> None:
    """An array of objects raises `ValueError`."""
    with pytest.raises(ValueError, match="Object arrays cannot be saved when allow_pickle=False"):
        npz_bytes({"labels": np.array([{}])})


def test_archives_of_an_older_numpy_are_read(tmp_path: Path) -> None:
    """Archives of an earlier NumPy that have an array `allow_pickle` are read without this array."""
    file = io.BytesIO()
    save_every_argument(
        file, allow_pickle=False, summary=np.arange(12).reshape(4, 3), scale=np.array(0.5)
    )
    path = tmp_path / "summary.npz"
    path.write_bytes(file.getvalue())
    for arrays in (
        read_arrays(path, forms=FORMS),
        read_arrays(path),
        arrays_of(file.getvalue(), forms=FORMS),
    ):
        assert sorted(arrays) == ["scale", "summary"]
    archive_of_names = io.BytesIO()
    save_every_argument(archive_of_names, allow_pickle=False, names=np.array(["flu", "cough"]))
    assert {
        name: array.tolist() for name, array in arrays_of_npz(archive_of_names.getvalue()).items()
    } == {"names": ["flu", "cough"]}
