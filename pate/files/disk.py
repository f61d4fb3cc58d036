"""Files that are complete or absent, readable by their owner alone, and refused with a clear error if damaged.

Also locks, secrets and digests of files. For any damage, the reader of a file raises a `DamagedFile` with a message of
one line. The message states what was expected, what was found and what helps, but never quotes the content of the file.
"""

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

# The modes of all files and folders that are written, whatever the umask is.
OWNERS_FILE = 0o600
OWNERS_FOLDER = 0o700
# The remedy for a file that cannot be made again.
FROM_BACKUP = "restore it from a backup"
# Flags of `os.open`: links are not followed, and a pipe is not waited for, where the system has these flags.
PLAIN_FILE: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
T = TypeVar("T")
# The most bytes of a secret that are read.
_MAX_SECRET_BYTES = 4096
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN_FILE | getattr(os, "O_BINARY", 0)


def at_home(path: Any) -> Any:
    """Returns a path with the home folder in place of a leading `~`; values that are no text are unchanged."""
    return os.path.expanduser(path) if isinstance(path, str) else path


class DamagedFile(InvalidValue):
    """The error for a file that is not as it was written: missing, incomplete, altered, or of another form."""


def require_posix(
    name: str,
    value: object = UNSAID,
    alternative: str = "aggregators and accountants work here, too",
) -> None:
    """Raises `InvalidValue` on a system without the locks, owners and modes of POSIX files, such as Windows.

    Args:
        name: the parameter that needs them, for the error.
        value: the value of the parameter; `UNSAID` shows none.
        alternative: a phrase on what can be used on such a system.
    """
    if fcntl is None:
        raise InvalidValue(
            name, value, rule=f"a POSIX system, such as Linux or macOS; {alternative}"
        )


@contextmanager
def replacing(path: Path | str) -> Iterator[IO[bytes]]:
    """Opens a new binary file of mode 0600, which gets the name `path` when the `with` block ends without an error.

    An existing file of that name is not changed before, nor after an error.
    """
    path = Path(path)
    # The partial name has the process and the thread: a worker that outlived a killed run, or another thread, may be
    # writing the same file.
    partial = path.with_name(f".{path.name}.{os.getpid()}{threading.get_ident()}.partial")
    try:
        partial.unlink(missing_ok=True)  # an earlier process with the same number may have left one
        with os.fdopen(os.open(partial, _NEW, OWNERS_FILE), "w+b") as file:
            if fcntl is not None:
                os.fchmod(file.fileno(), OWNERS_FILE)  # a umask can only take bits away
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        # The error of a full disk has no name, and others have the name of the partial file.
        if error.errno is not None and error.filename in (None, partial, str(partial)):
            error.filename = str(path)
        raise
    finally:
        with suppress(NotADirectoryError):  # a file may have the name of the folder
            partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_text(path: Path | str, text: str) -> None:
    """Writes a text file in UTF-8, with Unix line breaks on every system."""
    with replacing(path) as file:
        file.write(text.encode())


def write_arrays(path: Path | str, **arrays: NDArray[Any]) -> None:
    """Writes arrays as an .npz file without pickle; equal arrays give equal bytes."""
    with replacing(path) as file:
        pack_arrays(file, arrays)


def pack_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays to an open file in the format of `numpy.savez`, without pickle.

    `numpy.savez` has the argument `allow_pickle=False` since numpy 2.2; earlier versions take it for an array.

    Raises:
        ValueError: an array holds Python objects.
    """
    with zipfile.ZipFile(file, mode="w", compression=zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", mode="w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def make_folder(folder: Path | str, *, existing_parent: Path | None = None) -> Path:
    """Makes a folder and its missing parents with mode 0700, and returns the folder.

    Args:
        folder: the folder.
        existing_parent: a parent that must exist; None allows all parents to be made.

    Raises:
        FileNotFoundError: `existing_parent` does not exist.
    """
    folder = Path(folder)
    missing = []
    for parent in (folder, *folder.parents):
        if parent.is_dir():
            break
        if parent == existing_parent:
            raise FileNotFoundError(errno.ENOENT, "the folder is gone", str(existing_parent))
        missing.append(parent)
    for parent in reversed(missing):
        try:
            os.mkdir(parent, OWNERS_FOLDER)
            os.chmod(parent, OWNERS_FOLDER)
        except FileExistsError:  # another process was faster, or a file has the name
            if parent.is_dir():
                continue
            if parent != folder:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(parent)) from None
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
        raise error  # a folder that cannot be read may have a link in it

    if not folder.is_dir():
        return
    for parent, folder_names, file_names in os.walk(folder, onerror=raise_error):
        for entry_name in (*folder_names, *file_names):
            path = os.path.join(parent, entry_name)
            if os.path.islink(path):
                relative = os.path.relpath(path, folder)
                rule = f"no links in it, found {relative}; remove that"
                raise InvalidValue(name, folder, rule=rule)


@contextmanager
def owners_umask() -> Iterator[None]:
    """Makes all files that any library creates in a `with` block readable by their owner alone."""
    before = os.umask(~OWNERS_FOLDER & 0o777)
    try:
        yield
    finally:
        os.umask(before)


def remove_partials(folder: Path, name_patterns: Iterable[str]) -> None:
    """Removes the half-written files that a killed process has left in a folder.

    Args:
        folder: the folder.
        name_patterns: regular expressions of the names of the complete files.
    """
    if not folder.is_dir() or folder.is_symlink():
        return
    own_names = re.compile(rf"\.{{1,2}}(?:{'|'.join(name_patterns)})(?:\.[\da-f]+\.partial){{1,2}}")
    for entry in os.scandir(folder):
        if own_names.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flushes the entries of a folder to the disk, so that a new file name survives a power cut; POSIX only."""
    if fcntl is None:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Returns True if a path is a file, and no folder, loose link, or pipe that would keep a reader waiting.
is_regular = os.path.isfile


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds a lock on a file during a `with` block; the file is made if it is missing, and is never read.

    Args:
        path: the lock file.
        wait: true waits until another process releases the lock.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is false.
        InvalidValue: the path is no regular file.
    """
    require_posix("lock", path)
    no_lock_file = InvalidValue("lock", path, rule="a lock file or none; remove what has its name")
    is_held = False
    # Another process may remove the file between its opening and its locking. The file that has the name then counts.
    while not is_held:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | PLAIN_FILE, OWNERS_FILE)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise no_lock_file from error
            raise
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise no_lock_file
            if (
                opened.st_nlink == 1
                and opened.st_uid == os.geteuid()
                and stat.S_IMODE(opened.st_mode) != OWNERS_FILE
            ):
                os.fchmod(descriptor, OWNERS_FILE)  # the umask may have taken bits away
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            on_disk = os.stat(path, follow_symlinks=False) if os.path.lexists(path) else None
            is_held = on_disk is not None and os.path.samestat(opened, on_disk)
            if is_held:
                yield
        finally:
            os.close(descriptor)


def read_secret(path: Path, *, remedy: str) -> str:
    """Returns the text of a file that no other user could read or write.

    Args:
        path: the file.
        remedy: advice in the error.

    Raises:
        InvalidValue: the file belongs to another user, or its mode lets other users read or write it.
    """
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
            rule = (
                f"{rule}, found mode {status.st_mode:o} of user {status.st_uid}; {remedy}, "
                "or chmod 600 if nobody else could read it"
            )
            raise InvalidValue("secret", path, rule=rule)
        return os.fsdecode(os.read(descriptor, _MAX_SECRET_BYTES))
    finally:
        os.close(descriptor)


def damaged(path: Path | str, rule: str, finding: str, remedy: str) -> DamagedFile:
    """Returns the error for a damaged file; it does not quote the content of the file.

    Args:
        path: the file.
        rule: a description of the expected file.
        finding: a description of what was found instead.
        remedy: advice.
    """
    return DamagedFile(
        name="file", value=path, rule=f"{rule} ({' '.join(finding.split())}); {remedy}"
    )


def require_file(path: Path | str, *, rule: str, remedy: str) -> None:
    """Raises `DamagedFile` unless the path is a file, and not a folder, a pipe or a link to nothing."""
    path = Path(path)
    if is_regular(path):
        return
    state = "it is gone"
    if path.is_dir():
        state = "it is a folder"
    elif path.exists():
        state = "it is no regular file"
    if not os.path.lexists(path):
        remedy = remedy.removeprefix("remove it, and ")
    raise damaged(path, rule=rule, finding=state, remedy=remedy)


@contextmanager
def reading_file(
    path: Path | str,
    *,
    rule: str,
    remedy: str,
    damage_errors: tuple[type[Exception], ...] = (UnicodeDecodeError,),
) -> Iterator[None]:
    """Replaces errors of reading a file in a `with` block by a `DamagedFile`, if the file is the cause.

    Other errors, such as `PermissionError`, are not replaced.

    Args:
        path: the file, which must exist.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.
        damage_errors: the errors that a reader raises for content of another form.
    """
    require_file(path, rule=rule, remedy=remedy)
    try:
        yield
    except DamagedFile:
        raise
    except OSError as error:
        raise unreadable(path, error, rule=rule, remedy=remedy) from error
    except damage_errors as error:
        raise damaged(path, rule=rule, finding=one_line(error), remedy=remedy) from None


def read_bytes(path: Path | str, *, rule: str, remedy: str) -> bytes:
    """Returns the bytes of a file; raises as `reading_file`."""
    with reading_file(path, rule=rule, remedy=remedy):
        return Path(path).read_bytes()


def read_text(path: Path | str, *, remedy: str, rule: str = "a text file in UTF-8") -> str:
    """Returns the text of a file in UTF-8; raises as `reading_file`."""
    with reading_file(path, rule=rule, remedy=remedy):
        return Path(path).read_bytes().decode()


def read_json(path: Path | str, *, remedy: str, rule: str = "JSON") -> Any:
    """Returns the JSON value in a file; raises as `reading_file`, also for JSON that is nested too deeply."""
    with reading_file(path, rule=rule, remedy=remedy, damage_errors=(ValueError, RecursionError)):
        return json.loads(Path(path).read_bytes().decode())


def one_line(error: BaseException) -> str:
    """Returns the first line of a library's error message, at most 120 characters, without advice that follows."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    lines = str(error).splitlines()
    first_line = lines[0].partition("\x00")[0] if lines else ""
    return first_line[:120] or type(error).__name__


def unreadable(
    path: Path | str, error: OSError, *, rule: str, remedy: str
) -> OSError | DamagedFile:
    """Returns the error that is raised for a file that could not be read.

    The result is a `DamagedFile` if the file is the cause, and otherwise `error` itself, such as a missing permission.

    Args:
        path: the file.
        error: the error of the operating system.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.
    """
    if error.errno in (
        errno.EIO,
        errno.EINVAL,
        errno.ENOENT,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
    ):
        return damaged(
            path, rule=rule, finding=error.strerror or type(error).__name__, remedy=remedy
        )
    return error


def file_identity(path: Path | str) -> tuple[int, int] | str:
    """Returns a value that is equal for all names of one file, including symbolic and hard links.

    For a file that does not exist, the value is its path with all links resolved.
    """
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def file_digest(path: Path | str, *, remedy: str, rule: str = "a file of this run") -> str:
    """Returns the SHA-256 digest of a file in hexadecimal; raises `DamagedFile` if the file does not exist."""
    require_file(path, rule=rule, remedy=remedy)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_value(cls: type[T], path: Path | str, *, name: str, rule: str, remedy: str) -> T:
    """Reads a dataclass from a JSON file that was written with `to_json`; raises as `reading_file`.

    Args:
        cls: the dataclass.
        path: the file.
        name: the parameter that errors name.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.
    """
    text = read_text(path, rule=rule, remedy=remedy)
    try:
        return from_json(cls, text, name=name)
    except ValueError:
        raise damaged(path, rule=rule, finding="other JSON", remedy=remedy) from None
