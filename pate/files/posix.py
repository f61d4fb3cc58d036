"""The modes and flags with which files are opened, and the check for systems that lack the POSIX calls."""

import os

from pate.errors import NOT_SHOWN
from pate.validation import InvalidValue

try:
    import fcntl as fcntl  # other modules of this folder take it from here
except ImportError:  # no POSIX, as on Windows
    fcntl = None  # type: ignore[assignment]

# The modes of all files and folders that are written, whatever the umask is: readable by their owner alone.
OWNER_FILE_MODE = 0o600
OWNER_FOLDER_MODE = 0o700
# Flags of `os.open`: links are not followed, and a pipe is not waited for, where the system has these flags.
NO_LINK_NO_WAIT_FLAGS: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def require_posix(
    name: str,
    value: object = NOT_SHOWN,
    alternative: str = "aggregators and accountants work here, too",
) -> None:
    """Raises `InvalidValue` on a system without the locks, owners and modes of POSIX files, such as Windows.

    Args:
        name: the parameter that needs them, for the error.
        value: the value of the parameter; `NOT_SHOWN` shows none.
        alternative: a phrase on what can be used on such a system.
    """
    if fcntl is None:
        raise InvalidValue(
            name, value, rule=f"a POSIX system, such as Linux or macOS; {alternative}"
        )
