"""The lines of a text file of the user's, plain or gzipped, with their numbers for messages."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from pate.validation import InvalidValue


def numbered_lines(path: Path, *, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Number from 1 and text of every line, without its end.

    Raises:
        InvalidValue: no such file, not readable, or not text of that encoding.
    """
    number = 0
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding=encoding, newline=None) as file:
            for number, line in enumerate(file, start=1):
                yield number, line.rstrip("\n")
    except FileNotFoundError as error:
        raise InvalidValue(f"path={path}: expected a file, and there is none") from error
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        refuse_line(path, number + 1, f"{encoding} text, whole and not damaged", cause=error)
    except OSError as error:
        raise InvalidValue(f"path={path}: expected a readable file ({error.strerror})") from error


def refuse_line(path: Path, number: int, rule: str, *, cause: Exception | None = None) -> NoReturn:
    """Refuses a file for one of its lines."""
    raise InvalidValue(f"path={path}, line {number}: expected {rule}") from cause
