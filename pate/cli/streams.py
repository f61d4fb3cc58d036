"""Standard streams that are closed, or that nobody reads any more: a run does not end for want of a listener."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TextIO

_STREAMS = (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w"))


class _Heedless(io.TextIOWrapper):
    """A stream that drops what it cannot write: a terminal that was closed ends no run."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            drop(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            drop(self)


def mend_streams() -> None:
    """Opens closed standard streams on nothing, and has standard error drop what it cannot write.

    A number that is free would go to the next file that is opened, and whatever prints would write into that.
    """
    for _, number, _ in _STREAMS:
        if not _is_open(number):
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
    for name, _, mode in _STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
    if sys.stderr is sys.__stderr__ and type(sys.stderr) is io.TextIOWrapper:
        sys.stderr = _Heedless(sys.stderr.buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True)


def nobody_reads() -> bool:
    """Whether standard output is a closed pipe; what is left for it is dropped."""
    pipe = select.poll()
    pipe.register(sys.stdout.fileno(), 0)  # errors alone
    if not any(flags & select.POLLERR for _, flags in pipe.poll(0)):
        return False
    drop(sys.stdout)
    return True


def drop(stream: TextIO) -> None:
    """Lets all that is written to a stream from now on, and what waits in it, go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
