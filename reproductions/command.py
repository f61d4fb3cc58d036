"""Parts that all commands share: progress, rows as CSV, output folder, and exit codes."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

from pate.validation import InvalidValue

USER_MISTAKE = 2

Row = TypeVar("Row")


def with_progress(rows: Iterable[Row], *, total: int) -> Iterator[Row]:
    """Yields the rows, with a progress bar on a terminal's error stream."""
    console = Console(stderr=True)
    return iter(
        track(
            rows,
            "cells",
            total=total,
            console=console,
            transient=True,
            disable=not console.file.isatty(),
        )
    )


def csv_text(rows: Sequence[Any]) -> str:
    """Returns rows of one dataclass as CSV with its fields as the header; None becomes empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(asdict(rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def folder(path: Path) -> Path:
    """Returns the folder for the output, made where it is missing.

    Raises:
        InvalidValue: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(
            "output_dir", path, rule=f"a folder that can be written ({error.strerror})"
        ) from error
    return path


def run(task: Callable[[], None]) -> None:
    """Runs a command; a user's mistake is one line and exit code 2."""
    try:
        task()
    except InvalidValue as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(USER_MISTAKE) from None
