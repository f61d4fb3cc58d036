"""Files written whole or not at all, their owner's alone, and read back or told damaged; locks, secrets, digests."""

import errno
import hashlib
import json
import os
import re
import stat
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pate.errors import UNSAID
from pate.files.strict_json import from_json
from pate.validation import InvalidValue

try:
    import fcntl
except ImportError:  # no POSIX, as on Windows
    fcntl = None  # type: ignore[assignment]

# modes of all that is written, whatever the umask
OWNERS_FILE = 0o600
OWNERS_FOLDER = 0o700
FROM_BACKUP = "restore it from a backup"  # the remedy for what cannot be made again
# for `os.open`: neither through a link nor waiting for a pipe, where the system knows how
PLAIN_FILE: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
T = TypeVar("T")
_LONGEST = 4096
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN_FILE | getattr(os, "O_BINARY", 0)


def at_home(path: Any) -> Any:
    """Returns a path with the home folder in the place of `~` at its beginning; anything else as it is."""
    return os.path.expanduser(path) if isinstance(path, str) else path


class DamagedFile(InvalidValue):
    """A file that is not what was written: gone, torn, altered, of another form, or something else under its name."""


def require_posix(
    name: str,
    value: object = UNSAID,
    instead: str = "aggregators and accountants work here, too",
) -> None:
    """Raises where the system has no locks, owners and modes of POSIX; ends with what works there."""
    if fcntl is None:
        raise InvalidValue(name, value, rule=f"a POSIX system, such as Linux or macOS; {instead}")


@contextmanager
def replacing(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary file of mode 0600, whatever the umask, that takes the name `path` if the block ends without an error."""
    path = Path(path)
    # With process and thread: a worker that outlived a killed run, or a thread beside, may be writing the same file.
    partial = path.with_name(f".{path.name}.{os.getpid()}{threading.get_ident()}.partial")
    try:
        partial.unlink(missing_ok=True)  # of an earlier process with this number
        with os.fdopen(os.open(partial, _NEW, OWNERS_FILE), "w+b") as file:
            if fcntl is not None:
                os.fchmod(file.fileno(), OWNERS_FILE)  # a umask can only take bits away
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        # A full disk tells no name, and others that of the partial file.
        if error.errno is not None and error.filename in (None, partial, str(partial)):
            error.filename = str(path)
        raise
    finally:
        with suppress(NotADirectoryError):  # a file has its folder's name
            partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_text(path: Path | str, text: str) -> None:
    """Writes a UTF-8 file with plain line breaks."""
    with replacing(path) as file:
        file.write(text.encode())


def write_arrays(path: Path | str, **arrays: NDArray[Any]) -> None:
    """Writes an .npz; equal arrays give equal bytes."""
    with replacing(path) as file:
        pack_arrays(file, arrays)


def pack_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes the bytes of `numpy.savez` to an open file, without pickles.

    `numpy.savez(allow_pickle=False)` is of numpy 2.2; before that it stores the setting as an array of its name.
    Raises ValueError for an array of Python objects.
    """
    with zipfile.ZipFile(file, mode="w", compression=zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", mode="w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def make_folder(folder: Path | str, *, within: Path | None = None) -> Path:
    """Makes a folder and what is missing above it, but not `within`, with mode 0700 from the first; returns it."""
    folder = Path(folder)
    missing = []
    for parent in (folder, *folder.parents):
        if parent.is_dir():
            break
        if parent == within:
            raise FileNotFoundError(errno.ENOENT, "the folder is gone", str(within))
        missing.append(parent)
    for parent in reversed(missing):
        try:
            os.mkdir(parent, OWNERS_FOLDER)
            os.chmod(parent, OWNERS_FOLDER)
        except FileExistsError:  # another process was first, or a file has the name
            if parent.is_dir():
                continue
            if parent != folder:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(parent)) from None
            raise
    return folder


def require_no_links(folder: Path, name: str) -> None:
    """Refuses a folder, named by a setting, with a link in it at any depth; it may be a link itself, or missing."""

    def unreadable_folder(error: OSError) -> None:
        raise error  # a link may be in it

    for place, folders, files in (
        os.walk(folder, onerror=unreadable_folder) if folder.is_dir() else ()
    ):
        for path in (os.path.join(place, name) for name in (*folders, *files)):
            if os.path.islink(path):
                relative = os.path.relpath(path, folder)
                raise InvalidValue(
                    name, folder, rule=f"no links in it, found {relative}; remove that"
                )


@contextmanager
def owners_umask() -> Iterator[None]:
    """Has all that the process makes in the block be its owner's alone, also what other libraries make."""
    before = os.umask(~OWNERS_FOLDER & 0o777)
    try:
        yield
    finally:
        os.umask(before)


def remove_partials(folder: Path, names: Iterable[str]) -> None:
    """Removes what a killed process half-wrote in a folder under one of its own names (regular expressions)."""
    if not folder.is_dir() or folder.is_symlink():
        return
    own_names = re.compile(rf"\.{{1,2}}(?:{'|'.join(names)})(?:\.[\da-f]+\.partial){{1,2}}")
    for entry in os.scandir(folder):
        if own_names.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries, so that a new name in it survives a power cut; without POSIX nobody can."""
    if fcntl is None:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# whether it is a file: no folder, no link that leads nowhere, no pipe that would keep a reader waiting
is_regular = os.path.isfile


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds a lock file, made with mode 0600 where it is missing; its content is neither read nor changed.

    Raises `BlockingIOError` where another process holds it and `wait` is false, `InvalidValue` where it is no file.
    """
    require_posix("lock", path)
    strange = InvalidValue("lock", path, rule="a lock file or none; remove what has its name")
    held = False
    # another process may remove the file that was opened: the one that has the name now counts
    while not held:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | PLAIN_FILE, OWNERS_FILE)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise strange from error
            raise
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise strange
            if (
                opened.st_nlink == 1
                and opened.st_uid == os.geteuid()
                and stat.S_IMODE(opened.st_mode) != OWNERS_FILE
            ):
                os.fchmod(descriptor, OWNERS_FILE)  # made under a strange umask
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            on_disk = os.stat(path, follow_symlinks=False) if os.path.lexists(path) else None
            if held := on_disk is not None and os.path.samestat(opened, on_disk):
                yield
        finally:
            os.close(descriptor)


def read_secret(path: Path, *, remedy: str) -> str:
    """The text of a file that only its owner, who is the user of this process, could read or write; or raises."""
    require_posix("secret", path)
    rule = f"a file of user {os.geteuid()}, who runs this, and of mode 0600, so that nobody else knows it"
    try:
        descriptor = os.open(path, os.O_RDONLY | PLAIN_FILE)
    except OSError as error:
        rule = f"{rule} ({error.strerror}); {remedy}"
        raise InvalidValue("secret", path, rule=rule) from error
    try:
        status = os.fstat(descriptor)
        if status.st_mode != stat.S_IFREG | OWNERS_FILE or status.st_uid != os.geteuid():
            found = f"found mode {status.st_mode:o} of user {status.st_uid}"
            rule = f"{rule}, {found}; {remedy}, or chmod 600 if nobody else could read it"
            raise InvalidValue("secret", path, rule=rule)
        return os.fsdecode(os.read(descriptor, _LONGEST))
    finally:
        os.close(descriptor)


def damaged(path: Path | str, rule: str, found: str, remedy: str) -> DamagedFile:
    """The error for a file: it says what was expected and found, never what the file holds."""
    return DamagedFile("file", path, rule=f"{rule} ({' '.join(found.split())}); {remedy}")


def require_file(path: Path | str, *, rule: str, remedy: str) -> None:
    """Raises `DamagedFile` where there is no file of that name, or a folder, a pipe or a loose link in its place."""
    if not is_regular(path := Path(path)):
        if path.is_dir():
            found = "it is a folder"
        elif path.exists():
            found = "it is no regular file"
        else:
            found = "it is gone"
        if not os.path.lexists(path):
            remedy = remedy.removeprefix("remove it, and ")
        raise damaged(path, rule, found, remedy)


@contextmanager
def reading(
    path: Path | str,
    *,
    rule: str,
    remedy: str,
    wrong: tuple[type[Exception], ...] = (UnicodeDecodeError,),
) -> Iterator[None]:
    """Has what reading the file in the block raises be a `DamagedFile` where the file is at fault.

    That is where it is none or the disk cannot read it, and all errors that are `wrong`; `PermissionError` is left.
    """
    require_file(path, rule=rule, remedy=remedy)
    try:
        yield
    except DamagedFile:
        raise
    except OSError as error:
        raise unreadable(path, error, rule=rule, remedy=remedy) from error
    except wrong as error:
        raise damaged(path, rule, one_line(error), remedy) from None


def read_bytes(path: Path | str, *, rule: str, remedy: str) -> bytes:
    """The bytes of a file; raises as `reading`."""
    with reading(path, rule=rule, remedy=remedy):
        return Path(path).read_bytes()


def read_text(path: Path | str, *, remedy: str, rule: str = "a text file in UTF-8") -> str:
    """A file as text; raises as `reading`, and where it is not UTF-8."""
    with reading(path, rule=rule, remedy=remedy):
        return Path(path).read_bytes().decode()


def read_json(path: Path | str, *, remedy: str, rule: str = "JSON") -> Any:
    """A file as the JSON value in it; raises as `read_text`, and where it is no JSON or one without end."""
    with reading(path, rule=rule, remedy=remedy, wrong=(ValueError, RecursionError)):
        return json.loads(Path(path).read_bytes().decode())


def one_line(error: BaseException) -> str:
    """An error of a library in a few words, without its advice, and without what is in the file."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return (str(error).splitlines() or [""])[0].partition("\x00")[0][:120] or type(error).__name__


def unreadable(
    path: Path | str, error: OSError, *, rule: str, remedy: str
) -> OSError | DamagedFile:
    """What to raise for a file that could not be read: the error itself where that is not the file's fault."""
    if error.errno in (
        errno.EIO,
        errno.EINVAL,
        errno.ENOENT,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
    ):
        return damaged(path, rule, error.strerror or type(error).__name__, remedy)
    return error


def file_identity(path: Path | str) -> tuple[int, int] | str:
    """Returns what all names of one file have in common: spellings of its path, symbolic links and hard links.

    Of a file that is not there it is the path without links.
    """
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def file_digest(path: Path | str, *, remedy: str, rule: str = "a file of this run") -> str:
    """SHA-256 of a file, in hexadecimal."""
    require_file(path, rule=rule, remedy=remedy)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_value(cls: type[T], path: Path | str, *, name: str, rule: str, remedy: str) -> T:
    """A dataclass from the file that holds what `to_json` wrote of it; raises as `reading`."""
    text = read_text(path, rule=rule, remedy=remedy)
    try:
        return from_json(cls, text, name=name)
    except ValueError:
        raise damaged(path, rule, "other JSON", remedy) from None
