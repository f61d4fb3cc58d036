"""Secrets: short files, such as keys and entropy, that no user but their owner can read or write."""

import os
import stat
from pathlib import Path

from pate.files.posix import NO_LINK_NO_WAIT_FLAGS, OWNER_FILE_MODE, require_posix
from pate.validation import InvalidValue

# The largest number of bytes of a secret that are read.
_MAX_SECRET_BYTES = 4096


def read_secret(path: Path, *, remedy: str) -> str:
    """Returns the text of a file that no user but its owner can read or write, at most its first 4,096 bytes.

    Args:
        path: the file.
        remedy: advice in the error.

    Raises:
        InvalidValue: the file cannot be opened, belongs to another user, or is no regular file of mode 0600.
    """
    require_posix("secret", path)
    rule = f"a file of user {os.geteuid()}, who runs this, and of mode 0600, so that nobody else knows it"
    try:
        file_descriptor = os.open(path, os.O_RDONLY | NO_LINK_NO_WAIT_FLAGS)
    except OSError as error:
        raise InvalidValue("secret", path, rule=f"{rule} ({error.strerror}); {remedy}") from error
    try:
        status = os.fstat(file_descriptor)
        has_owner_mode = status.st_mode == stat.S_IFREG | OWNER_FILE_MODE
        if not has_owner_mode or status.st_uid != os.geteuid():
            raise InvalidValue(
                "secret",
                path,
                rule=(
                    f"{rule}, found mode {status.st_mode:o} of user {status.st_uid}; {remedy}, "
                    "or chmod 600 if nobody else could read it"
                ),
            )
        return os.fsdecode(os.read(file_descriptor, _MAX_SECRET_BYTES))
    finally:
        os.close(file_descriptor)
