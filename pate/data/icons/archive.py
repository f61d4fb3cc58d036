"""The file of pictures that `scripts/build_icons.py` writes, read back: labels in memory, pictures where they are."""

from __future__ import annotations

from pathlib import Path

from pate.files.arrays import ArrayForm, Arrays, read_arrays
from pate.files.reading import damaged

COLORS = {1: "grey", 3: "rgb"}
"""What pictures of so many channels are called."""

_MADE = "make it anew with make icons, or scripts/build_icons.py"
_FORMS = {
    "pictures": ArrayForm("u", (None, None, None, None)),
    "labels": ArrayForm("u", (None, None)),
    "record_ids": ArrayForm("i", (None,)),
    "group_ids": ArrayForm("i", (None,)),
    "split_sizes": ArrayForm("i", (3,)),
    "label_names": ArrayForm("U", (None,)),
    "public_names": ArrayForm("U", (None,)),
}


def archive_name(image_size: int, channels: int, *, styles: bool = True) -> str:
    """What the file of pictures of that size is called: `icons-32-grey.npz`."""
    return f"icons-{image_size}-{COLORS[channels]}{'' if styles else '-shown'}.npz"


def read_archive(path: Path) -> Arrays:
    """The arrays of the file; `pictures` are mapped, read-only.

    Raises:
        DamagedFile: it is not what was written.
    """
    arrays = read_arrays(path, _FORMS, remedy=_MADE, mapped="pictures")
    rows, sizes = len(arrays["pictures"]), arrays["split_sizes"]
    fits = (
        all(len(arrays[name]) == rows for name in ("labels", "record_ids", "group_ids"))
        and (sizes > 0).all()
        and sizes.sum() == rows
        and len(arrays["public_names"]) == sizes[0]
        and arrays["labels"].shape[1] == -(-len(arrays["label_names"]) // 8)
        and arrays["pictures"].dtype == arrays["labels"].dtype == "uint8"
    )
    if not fits:
        raise damaged(path, "pictures, labels, ids and splits of one set", "their lengths disagree", _MADE)
    return arrays
