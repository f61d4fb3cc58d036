"""Paths: folders that their owner alone can read, links that are refused, and the identity of a file."""

import errno
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pate.files.posix import OWNER_FOLDER_MODE
from pate.validation import InvalidValue


def at_home(path: Any) -> Any:
    """Returns a path with the home folder in place of a leading `~`; a value that is no text is returned unchanged."""
    return os.path.expanduser(path) if isinstance(path, str) else path


def files_named(path: Path | str) -> list[Path]:
    """Returns the files that a path stands for, sorted by name.

    A folder stands for all files and folders directly in it. Hidden and temporary ones, whose names begin with a point
    or an underscore, are left out. A pattern such as `data/part-*.parquet` stands for all paths that match it, unless a
    file has this very name. Any other path stands for itself, whether it exists or not.
    """
    path = Path(path)
    if path.is_dir():
        entry_names = (entry.name for entry in os.scandir(path))
        return sorted(
            path / entry_name for entry_name in entry_names if not entry_name.startswith((".", "_"))
        )
    if is_pattern(path):
        return sorted(map(Path, glob.glob(str(path), recursive=True)))
    return [path]


def is_pattern(path: Path | str) -> bool:
    """Returns True if a path is a pattern of names: it contains `*`, `?` or `[`, and no file has this very name."""
    return glob.has_magic(str(path)) and not os.path.lexists(path)


def is_regular(path: Path | str) -> bool:
    """Returns True if a path is a regular file or a link to one; False for folders, pipes, broken links and no file."""
    return os.path.isfile(path)


def make_folder(folder: Path | str, *, existing_parent: Path | None = None) -> Path:
    """Makes a folder and its missing parents with mode 0700, and returns the folder; folders that exist are unchanged.

    Args:
        folder: the folder.
        existing_parent: a parent that must exist; None allows all parents to be made.

    Raises:
        FileNotFoundError: `existing_parent` does not exist.
        FileExistsError: a file has the name of the folder.
        NotADirectoryError: a file has the name of a parent.
    """
    folder = Path(folder)
    missing_folders = []
    for parent_folder in (folder, *folder.parents):
        if parent_folder.is_dir():
            break
        if parent_folder == existing_parent:
            raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(existing_parent))
        missing_folders.append(parent_folder)
    for parent_folder in reversed(missing_folders):
        try:
            os.mkdir(parent_folder, OWNER_FOLDER_MODE)
            os.chmod(parent_folder, OWNER_FOLDER_MODE)
        except FileExistsError:  # another process has made the folder, or a file has the name
            if parent_folder.is_dir():
                continue
            if parent_folder != folder:
                raise NotADirectoryError(
                    errno.ENOTDIR, "Not a directory", str(parent_folder)
                ) from None
            raise
    return folder


def require_no_links(folder: Path, name: str) -> None:
    """Raises `InvalidValue` if a folder contains a link, at any depth.

    The folder itself may be a link, and may be missing.

    Args:
        folder: the folder.
        name: the setting that names the folder, for the error.
    """

    def raise_error(error: OSError) -> None:
        """Raises an error of `os.walk`: a subfolder that cannot be read may contain a link."""
        raise error

    if not folder.is_dir():
        return
    for parent_folder, folder_names, file_names in os.walk(folder, onerror=raise_error):
        for entry_name in (*folder_names, *file_names):
            entry_path = os.path.join(parent_folder, entry_name)
            if os.path.islink(entry_path):
                raise InvalidValue(
                    name,
                    folder,
                    rule=f"no links in it, found {os.path.relpath(entry_path, folder)}; remove that",
                )


@contextmanager
def owners_umask() -> Iterator[None]:
    """Makes all files that any library creates in a `with` block readable by their owner alone.

    The umask of the process is set for the block, and then restored.
    """
    previous_umask = os.umask(~OWNER_FOLDER_MODE & 0o777)
    try:
        yield
    finally:
        os.umask(previous_umask)


def file_identity(path: Path | str) -> tuple[int, int] | str:
    """Returns a value that is equal for all names of one file, including symbolic and hard links.

    The value is the numbers of the device and of the inode. If the file does not exist, or its file system has no inode
    numbers, the value is the path with all links resolved.
    """
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    if not status.st_ino:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
