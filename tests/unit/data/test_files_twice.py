"""One file for two splits, under two names, is refused, as its rows would be in both splits."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.data import Arrays
from tests.refusals import ANY, refused_parameter
from tests.unit.data.split_paths import SplitPaths

PATH_PATTERNS = ["./{name}", "sub/../{name}", "soft-{name}", "hard-{name}"]
"""Other names of a file in one folder: two spellings of its path, a symbolic link and a hard link."""


def other_path(folder: Path, name: str, path_pattern: str) -> str:
    """Makes links to a file, and returns another path of the file.

    Args:
        folder: the folder of the file.
        name: the name of the file.
        path_pattern: one of `PATH_PATTERNS`.
    """
    (folder / "sub").mkdir()
    (folder / f"soft-{name}").symlink_to(name)
    os.link(folder / name, folder / f"hard-{name}")
    return f"{folder}/{path_pattern.format(name=name)}"


def write_arrays(path: Path) -> None:
    """Writes four records with four features and four labels as an .npz file."""
    np.savez(path, inputs=np.eye(4), labels=np.eye(4, dtype=int))


@pytest.mark.parametrize("path_pattern", PATH_PATTERNS)
def test_same_npz_file_in_two_splits_is_refused(tmp_path: Path, path_pattern: str) -> None:
    """A public split that names the private .npz file under another name is refused."""
    paths = SplitPaths.in_folder(tmp_path, ending=".npz")
    for path in (paths.private, paths.public, paths.test):
        write_arrays(path=Path(path))
    reader = paths.arrays()
    assert len(reader.load().private) == 4
    private_path = other_path(folder=tmp_path, name="private.npz", path_pattern=path_pattern)
    with refused_parameter("data.public", value=ANY, rule_words="another file"):
        replace(reader, public=private_path).load()


def test_same_npy_folder_in_two_splits_is_refused(tmp_path: Path) -> None:
    """A public folder of arrays is refused if its inputs are a link to the private inputs."""
    for split in ("private", "public"):
        (tmp_path / split).mkdir()
        np.save(tmp_path / split / "labels.npy", np.eye(4, dtype=int))
    np.save(tmp_path / "private" / "inputs.npy", np.eye(4))
    os.link(tmp_path / "private" / "inputs.npy", tmp_path / "public" / "inputs.npy")
    write_arrays(path=tmp_path / "test.npz")
    with refused_parameter("data.public", value=ANY, rule_words="another file"):
        Arrays(
            private=str(tmp_path / "private"),
            public=str(tmp_path / "public"),
            test=str(tmp_path / "test.npz"),
        ).load()


@pytest.mark.parametrize("path_pattern", PATH_PATTERNS)
def test_same_table_in_two_splits_is_refused(tmp_path: Path, path_pattern: str) -> None:
    """A test split that names the private table under another name is refused."""
    pytest.importorskip("pyarrow")
    for split in ("private", "public", "test"):
        (tmp_path / f"{split}.csv").write_text(f"age,flu\n1,0\n2,1\n{len(split)},1\n")
    reader = SplitPaths.in_folder(tmp_path, ending=".csv").table_with_labels("flu")
    assert len(reader.load().private) == 3
    private_path = other_path(folder=tmp_path, name="private.csv", path_pattern=path_pattern)
    with refused_parameter("data.test", value=ANY, rule_words="another file"):
        replace(reader, test=private_path).load()
