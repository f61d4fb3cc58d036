"""The file of a sum in the inbox of the server: it is made once, and read from then on."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pate.array_types import IntArray
from pate.files.arrays import ArrayForm, Arrays, read_arrays, write_arrays
from pate.files.reading import FROM_BACKUP

# The advice for a damaged file on which later questions rest.
LATER = f"{FROM_BACKUP}: later questions were asked about what was released of it"
# A larger file of a sum is refused, as some files would unpack without end.
_MAX_UNPACKED_BYTES = 2**36

# a sum such as `[Q, L]`, and the names of its holders
Summed = tuple[IntArray, tuple[str, ...]]


def read_or_make_sum(
    sum_path: Path,
    *,
    shape: tuple[int | None, ...],
    make_sum: Callable[[], Summed],
    remedy: str,
    request_digest: str | None = None,
) -> Arrays:
    """Returns the arrays in the file of a sum, `total` and `holders`; if there is no file, makes the sum and writes it.

    Args:
        sum_path: the file.
        shape: the expected shape of the sum, with None for any size of an axis.
        make_sum: makes the sum and returns it with the names of its holders.
        remedy: the advice in the message for a damaged file.
        request_digest: the digest of the request, which is written to the file as the array `asked`. This array is
            returned too, and the caller compares it. None for no such array.
    """
    further_arrays = {} if request_digest is None else {"asked": np.array(request_digest)}
    if not os.path.lexists(sum_path):
        total, holders = make_sum()
        write_arrays(
            sum_path, total=total, holders=np.array(holders, dtype=np.str_), **further_arrays
        )
    forms = {
        "total": ArrayForm(dtype_kinds="i", shape=shape),
        "holders": ArrayForm(dtype_kinds="U", shape=(None,)),
    }
    return read_arrays(
        sum_path,
        forms=forms | dict.fromkeys(further_arrays, ArrayForm(dtype_kinds="U", shape=())),
        remedy=remedy,
        max_unpacked_bytes=_MAX_UNPACKED_BYTES,
    )
