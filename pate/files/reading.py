"""Readers of files, which refuse a damaged file with a clear error.

For any damage, the reader of a file raises a `DamagedFile` with a message of one line. The message states what was
expected, what was found and what helps. It quotes no value of the file, but may name its arrays, types and shapes.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pate.files.paths import is_regular
from pate.files.strict_json import from_json
from pate.validation import InvalidValue

# The remedy for a file that cannot be made again.
FROM_BACKUP = "restore it from a backup"
# The errors of the operating system of which the file is the cause.
_FILE_ERRORS = (
    errno.EIO,
    errno.EINVAL,
    errno.ENOENT,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ELOOP,
)
# The most characters that are shown of a library's error.
_MAX_SHOWN = 120
T = TypeVar("T")


class DamagedFile(InvalidValue):
    """The error for a file that is not as it was written: missing, incomplete, altered, or of another form."""


def damaged(path: Path | str, rule: str, finding: str, remedy: str) -> DamagedFile:
    """Returns the error for a damaged file.

    Args:
        path: the file.
        rule: a description of the expected file.
        finding: a description of what was found instead, which must quote no value of the file.
        remedy: advice.
    """
    return DamagedFile(
        name="file", value=path, rule=f"{rule} ({' '.join(finding.split())}); {remedy}"
    )


def require_file(path: Path | str, *, rule: str, remedy: str) -> None:
    """Raises `DamagedFile` unless the path is a file, and not a folder, a pipe or a link to nothing.

    `rule` describes the expected file, and `remedy` is advice, both for the error.
    """
    path = Path(path)
    if is_regular(path):
        return
    finding = "it is gone"
    if path.is_dir():
        finding = "it is a folder"
    elif path.exists():
        finding = "it is no regular file"
    # A file that is gone need not be removed before it is made again.
    if not os.path.lexists(path):
        remedy = remedy.removeprefix("remove it, and ")
    raise damaged(path, rule=rule, finding=finding, remedy=remedy)


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
        path: the file. A missing file is a `DamagedFile`, too.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.
        damage_errors: the errors that code in the block raises for content of another form.
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
    """Returns the bytes of a file; raises `DamagedFile` as `reading_file` does."""
    with reading_file(path, rule=rule, remedy=remedy):
        return Path(path).read_bytes()


def read_text(path: Path | str, *, remedy: str, rule: str = "a text file in UTF-8") -> str:
    """Returns the text of a file in UTF-8; raises `DamagedFile` for other bytes, and as `reading_file` does."""
    with reading_file(path, rule=rule, remedy=remedy):
        return Path(path).read_bytes().decode()


def read_json(path: Path | str, *, remedy: str, rule: str = "JSON") -> Any:
    """Returns the JSON value in a file; raises `DamagedFile` as `reading_file`, or if it is no JSON."""
    with reading_file(path, rule=rule, remedy=remedy, damage_errors=(ValueError, RecursionError)):
        return json.loads(Path(path).read_bytes().decode())


def one_line(error: BaseException) -> str:
    """Returns the first line of a library's error message, cut to 120 characters, or else the name of its class.

    A `UnicodeDecodeError` gets other words, as its own message quotes a byte of the file.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    lines = str(error).splitlines()
    first_line = lines[0].partition("\x00")[0] if lines else ""
    return first_line[:_MAX_SHOWN] or type(error).__name__


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
    if error.errno not in _FILE_ERRORS:
        return error
    finding = error.strerror or type(error).__name__
    return damaged(path, rule=rule, finding=finding, remedy=remedy)


def read_value(cls: type[T], path: Path | str, *, name: str, rule: str, remedy: str) -> T:
    """Reads a dataclass object from a JSON file that was written with `to_json`.

    A missing file, and JSON of another form, are a `DamagedFile`.

    Args:
        cls: the dataclass.
        path: the file.
        name: the parameter that errors name.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.
    """
    json_text = read_text(path, rule=rule, remedy=remedy)
    try:
        return from_json(cls, json_text, name=name)
    except ValueError:
        raise damaged(path, rule=rule, finding="other JSON", remedy=remedy) from None
