"""One file for two splits, under two names: the rows would be private and public."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pate.data import Arrays, Table
from tests.refusals import ANY, refused


def _other_names(folder: Path, name: str) -> list[str]:
    """Makes links to a file, and returns their names and other spellings of the file's path."""
    (folder / "sub").mkdir()
    (folder / f"soft-{name}").symlink_to(name)
    os.link(folder / name, folder / f"hard-{name}")
    return [f"./{name}", f"sub/../{name}", f"soft-{name}", f"hard-{name}"]


def _write_arrays(path: Path) -> None:
    """Writes four records with four features and four labels as an .npz file."""
    np.savez(path, inputs=np.eye(4), labels=np.eye(4, dtype=int))


def test_same_npz_file_in_two_splits_is_refused(tmp_path: Path) -> None:
    """The public split names the private .npz file under another name. It is refused."""
    for split in ("private", "public", "test"):
        _write_arrays(path=tmp_path / f"{split}.npz")
    files = {split: str(tmp_path / f"{split}.npz") for split in ("private", "public", "test")}
    assert len(Arrays(**files).load().private) == 4
    for name in _other_names(folder=tmp_path, name="private.npz"):
        with refused("data.public", value=ANY, rule="another file"):
            Arrays(**{**files, "public": str(tmp_path / name)}).load()


def test_same_npy_folder_in_two_splits_is_refused(tmp_path: Path) -> None:
    """The folder of the public split has a link to the private inputs. It is refused."""
    for split in ("private", "public"):
        (tmp_path / split).mkdir()
        np.save(tmp_path / split / "labels.npy", np.eye(4, dtype=int))
    np.save(tmp_path / "private" / "inputs.npy", np.eye(4))
    os.link(tmp_path / "private" / "inputs.npy", tmp_path / "public" / "inputs.npy")
    _write_arrays(path=tmp_path / "test.npz")
    with refused("data.public", value=ANY, rule="another file"):
        Arrays(
            private=str(tmp_path / "private"),
            public=str(tmp_path / "public"),
            test=str(tmp_path / "test.npz"),
        ).load()


def test_same_table_in_two_splits_is_refused(tmp_path: Path) -> None:
    """The test split names the private table under another name. It is refused."""
    pytest.importorskip("pyarrow")
    for split in ("private", "public", "test"):
        (tmp_path / f"{split}.csv").write_text(f"age,flu\n1,0\n2,1\n{len(split)},1\n")
    files = {split: str(tmp_path / f"{split}.csv") for split in ("private", "public", "test")}
    assert len(Table(**files, labels=("flu",)).load().private) == 3
    for name in _other_names(folder=tmp_path, name="private.csv"):
        with refused("data.test", value=ANY, rule="another file"):
            Table(**{**files, "test": str(tmp_path / name)}, labels=("flu",)).load()
