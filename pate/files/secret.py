"""Secrets: short files that only their owner could ever read or write."""

import os
import stat
from pathlib import Path

from pate.files.posix import OWNER_FILE_MODE, SAFE_OPEN_FLAGS, require_posix
from pate.validation import InvalidValue

# The most bytes of a secret that are read.
_MAX_SECRET_BYTES = 4096


def read_secret(path: Path, *, remedy: str) -> str:
    """Returns the text of a file that no other user could read or write.

    Args:
        path: the file.
        remedy: advice in the error.

    Raises:
        InvalidValue: the file cannot be opened, belongs to another user, or is no regular file of mode 0600.
    """
    require_posix("secret", path)
    rule = f"a file of user {os.geteuid()}, who runs this, and of mode 0600, so that nobody else knows it"
    try:
        descriptor = os.open(path, os.O_RDONLY | SAFE_OPEN_FLAGS)
    except OSError as error:
        rule = f"{rule} ({error.strerror}); {remedy}"
        raise InvalidValue("secret", path, rule=rule) from error
    try:
        status = os.fstat(descriptor)
        if status.st_mode != stat.S_IFREG | OWNER_FILE_MODE or status.st_uid != os.geteuid():
            rule = (
                f"{rule}, found mode {status.st_mode:o} of user {status.st_uid}; {remedy}, "
                "or chmod 600 if nobody else could read it"
            )
            raise InvalidValue("secret", path, rule=rule)
        return os.fsdecode(os.read(descriptor, _MAX_SECRET_BYTES))
    finally:
        os.close(descriptor)
