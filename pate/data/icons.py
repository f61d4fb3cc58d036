"""Icons of open sets: real pictures, larger than CelebA, 40 words of their names as labels."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pate.accounting import PrivacyUnit
from pate.data.dataset import Dataset, ImageForm, Split
from pate.files.arrays import ArrayForm, Arrays, read_arrays
from pate.files.disk import damaged
from pate.validation import require, require_count, require_path

COLORS = {1: "grey", 3: "rgb"}
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
    """The arrays of the file; `pictures` are mapped, read-only. Raises `DamagedFile` if it is not what was written."""
    arrays = read_arrays(path, _FORMS, remedy=_MADE, mapped="pictures")
    rows = len(arrays["pictures"])
    sizes = arrays["split_sizes"]
    fits = (
        {len(arrays[name]) for name in ("labels", "record_ids", "group_ids")}
        == {rows}
        == {sizes.sum()}
    )
    fits = fits and bool((sizes > 0).all()) and len(arrays["public_names"]) == sizes[0]
    fits = fits and arrays["labels"].shape[1] == -(-len(arrays["label_names"]) // 8)
    if not fits or not arrays["pictures"].dtype == arrays["labels"].dtype == "uint8":
        raise damaged(
            path, "pictures, labels, ids and splits of one set", "their lengths disagree", _MADE
        )
    return arrays


@dataclass(frozen=True)
class Icons:
    """The icons of the npm package @iconify/json, drawn once by `make icons` or `scripts/build_icons.py`.

    A record is an icon, a group is a family: one set's icon in all its styles and sizes. 10,000 icons are public,
    10,000 for test, all others that have a label private; the splits are part of the file, by whole families.

    Picture, id, family and words of a record are computed from its icon alone. The 40 labels are the words most
    frequent in names of the public pool; synonyms and words that are never labels are a fixed table. Public are the
    families with the smallest numbers, hashes of their names, until they have enough icons. Nothing is fitted.

    The inputs are `Pixels` of the file, which may not be changed meanwhile. Its manifest counts icons that it lacks, as
    they have no label or cannot be drawn.

    Source: Iconify, https://icon-sets.iconify.design; each set has a license of its own, in the manifest.
    """

    root: Path | str  # the folder of the file, or the file
    # height and width of the pictures, in pixels; the file of that size has to be there.
    image_size: int = field(default=32, metadata={"public": True})
    channels: int = field(default=1, metadata={"public": True})  # 1 for grey, 3 for color
    # at most this many icons in each split, the first ones; None takes all
    limit: int | None = None

    def __post_init__(self) -> None:
        require_path("data.root", self.root)
        require_count("data.image_size", self.image_size)
        require(self.channels in COLORS, "data.channels", self.channels, "1 (grey) or 3 (color)")
        require_count("data.limit", 1 if self.limit is None else self.limit)

    def load(self) -> Dataset:
        """Maps the file: no picture is in memory before it is asked for. Raises for another file, or other sizes."""
        root = Path(self.root).expanduser()
        path = root / archive_name(self.image_size, self.channels) if root.is_dir() else root
        rule = f"{path.name} in it: make icons draws it, or scripts/build_icons.py"
        rule = rule if root.is_dir() else f"the folder that make icons wrote, or its {path.name}"
        require(path.is_file(), "data.root", self.root, rule)
        arrays = read_archive(path)
        pictures = arrays["pictures"]
        names = tuple(arrays["label_names"].tolist())
        form = ImageForm(self.channels, self.image_size, self.image_size)
        rule = f"pictures of {form.input_shape}; set data.image_size and data.channels as they are"
        require(pictures.shape[1:] == form.input_shape, "data.root", pictures.shape[1:], rule)
        labels = np.unpackbits(arrays["labels"], axis=1, count=len(names)).view(np.bool_)
        record_ids = arrays["record_ids"].astype(np.int64)
        group_ids = arrays["group_ids"].astype(np.int64)
        places = np.split(np.arange(len(pictures)), np.cumsum(arrays["split_sizes"])[:-1])
        public, test, private = (
            Split.of_pictures(rows[: self.limit], pictures, labels, record_ids, group_ids)
            for rows in places
        )
        public_ids = arrays["public_names"][: self.limit]
        return Dataset(
            "icons",
            True,
            "images",
            names,
            private,
            public,
            test,
            preprocessing=form,
            public_ids=public_ids,
            group_unit=PrivacyUnit("one family of icons, with all its icons"),
        )
