"""A check of the files of the splits: no file is read twice."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pate.files.paths import file_identity
from pate.validation import InvalidValue


def require_files_apart(files_of_split: Mapping[str, Sequence[Path]]) -> None:
    """Raises `InvalidValue` if a file is read twice, by two splits or by one, even under different names or links.

    Args:
        files_of_split: the paths of each split's files, by the split's name.
    """
    split_of_file: dict[tuple[int, int] | str, str] = {}
    for split, split_paths in files_of_split.items():
        for path in split_paths:
            identity = file_identity(path)
            first_split = split_of_file.get(identity)
            if first_split == split:
                rule = "each file once, and this one has two names"
                raise InvalidValue(f"data.{split}", path, rule=rule)
            if first_split is not None:
                rule = f"another file than data.{first_split}: no record may be in two splits"
                raise InvalidValue(f"data.{split}", path, rule=rule)
            split_of_file[identity] = split
