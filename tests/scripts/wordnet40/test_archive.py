import os
from pathlib import Path

import numpy as np

from scripts.wordnet40.archive import write_archive

ARRAYS = {"numbers": np.arange(6, dtype=np.int8).reshape(2, 3), "names": np.array(["dog", "plant"])}


def test_numpy_reads_what_was_written(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.npz", ARRAYS)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as read:
        assert sorted(read.files) == ["names", "numbers"]
        assert read["numbers"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert read["names"].tolist() == ["dog", "plant"]


def test_the_bytes_depend_on_the_arrays_alone(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.npz", ARRAYS)
    os.umask(os.umask(0o077))
    write_archive(tmp_path / "b.npz", {name: array.copy() for name, array in ARRAYS.items()})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    write_archive(tmp_path / "c.npz", ARRAYS | {"numbers": ARRAYS["numbers"] + np.int8(1)})
    assert (tmp_path / "a.npz").read_bytes() != (tmp_path / "c.npz").read_bytes()
