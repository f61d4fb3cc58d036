"""Who charged: the time, the user, the machine and the command, as far as they can be known."""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

_LONGEST = 1000


@dataclass(frozen=True)
class Origin:
    """Where a charge came from; an empty string where that is not known.

    Attributes:
        time: UTC, ISO 8601.
        user: the login name, or the number of a user who has none.
        host: the machine's name.
        command: the program and its words, as a shell would take them, cut after 1,000 characters.
    """

    time: str = ""
    user: str = ""
    host: str = ""
    command: str = ""

    @classmethod
    def now(cls) -> Origin:
        """That of this process; it never raises."""
        return cls(datetime.now(UTC).isoformat(timespec="milliseconds"), *_process(os.getpid()))


@lru_cache(maxsize=4)
def _process(number: int) -> tuple[str, str, str]:
    """User, host and command of this process, whose number keeps a fork from answering for its parent."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        user = str(os.getuid())
    return user, os.uname().nodename, shlex.join(map(str, getattr(sys, "argv", [])))[:_LONGEST]
