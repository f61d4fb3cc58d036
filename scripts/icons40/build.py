"""Build of the icons: pictures, the table of their labels, and a manifest of the icons left out, with reasons."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import IntArray
from pate.files.atomic import write_text
from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.progress import StageOpener
from pate.validation import InvalidValue, require_choice, require_count
from scripts.icons40.drawing import (
    BLANK,
    BROKEN,
    DRAWN,
    MODES,
    SIZE,
    Shard,
    draw_shards,
    read_shard,
    renderer_version,
)
from scripts.icons40.package import NAME, VERSION, IconPackage
from scripts.icons40.survey import Survey, deal_splits, survey_names

_OUTCOMES = {DRAWN: "drawn", BLANK: "blank", BROKEN: "broken"}


def counts_of(survey: Survey, outcomes: NDArray[np.uint8], sizes: IntArray) -> dict[str, Any]:
    """Returns counts as JSON values: labels, splits, icons left out, and all sets with author and license.

    Args:
        survey: the names.
        outcomes: uint8 `[n]`, of drawing each icon with a label.
        sizes: of the splits: public, test, private.
    """
    is_drawn = outcomes == DRAWN
    of_set = np.array([name.partition(":")[0] for name in survey.names])
    by_set = {
        icon_set: {
            word: int((outcomes[of_set == icon_set] == code).sum())
            for code, word in _OUTCOMES.items()
        }
        for icon_set in survey.sets
    }
    licenses = Counter[str]()
    for icon_set, description in survey.sets.items():
        licenses[description["license"]] += by_set[icon_set]["drawn"]
    return {
        "counts": {
            **survey.counts(),
            "left out: blank": int((outcomes == BLANK).sum()),
            "left out: broken": int((outcomes == BROKEN).sum()),
            "pictures": int(is_drawn.sum()),
            "families": len(np.unique(survey.group_ids[is_drawn])),
        },
        "splits": dict(zip(("public", "test", "private"), sizes.tolist(), strict=True)),
        "labels": dict(
            zip(survey.label_names, survey.labels[is_drawn].sum(axis=0).tolist(), strict=True)
        ),
        "licenses": dict(licenses.most_common()),
        "sets": {
            icon_set: {**description, **by_set[icon_set]}
            for icon_set, description in survey.sets.items()
        },
        "left_out": survey.left_out,
    }


_LARGEST = 256
# A label is a word of an icon's name, and such words have no underscore: these columns can be no label.
_FILE, _SPLIT, _FAMILY = "icon_file", "icon_split", "icon_family"
_SPLITS = ("public", "test", "private")


@dataclass(frozen=True)
class Recipe:
    """The choices of a build; the defaults are those that figures are given for."""

    pixels: int = 32  # height and width of the pictures
    color: str = "grey"  # grey or rgb
    styles: bool = True  # whether words for the style of a drawing may be labels
    num_public: int = 10_000  # icons in the public pool
    num_test: int = 10_000  # icons in the test set; the private pool is all the rest
    num_labels: int = 40  # how many words are labels

    def __post_init__(self) -> None:
        require_choice("color", self.color, tuple(MODES))
        for name in ("pixels", "num_public", "num_test", "num_labels"):
            require_count(name, getattr(self, name))
        if self.pixels > _LARGEST:
            raise InvalidValue("pixels", self.pixels, rule=f"at most {_LARGEST}")

    @property
    def channels(self) -> int:
        """Returns 1 for grey, 3 for color."""
        return len(MODES[self.color])

    def build(
        self, package: IconPackage, folder: Path, stage: StageOpener, *, jobs: int
    ) -> list[str]:
        """Writes pictures, labels.csv and manifest.json into the folder; a killed build continues.

        Formal guarantees:
            * The labels are chosen from names of the public pool alone.
            * The same package and renderer give the same bytes, whatever `jobs` is and however often it was killed.
            * The table is written last: where it is there, all its pictures are.

        Returns:
            The settings that read the folder: `data=image_folder` and others.

        Raises:
            InvalidValue: no such package, another version, too few icons for the splits, or another build that writes
                to the folder.
            OSError: the disk is full; what was drawn is kept.
        """
        package.require_version()
        renderer = renderer_version()
        survey = survey_names(
            package,
            stage,
            num_public=self.num_public,
            num_labels=self.num_labels,
            styles=self.styles,
        )
        parts = make_folder(make_folder(folder) / ".parts")
        try:
            with file_lock(parts / "lock", wait=False):
                with stage("drawing icons", len(survey.names)) as advance:
                    shards = self._shards(package, survey, renderer)
                    is_drawn = draw_shards(shards, folder=parts, jobs=jobs, advance=advance)
                self._write(folder, parts, survey, is_drawn, renderer)
                shutil.rmtree(parts)
        except BlockingIOError:
            raise InvalidValue("output", folder, rule="no other build that writes there") from None
        return self._settings(folder, survey)

    def _settings(self, folder: Path, survey: Survey) -> list[str]:
        return [
            "data=image_folder",
            f"data.root={folder / 'pictures'}",
            f"data.table={folder / 'labels.csv'}",
            f"data.file={_FILE}",
            f"data.split={_SPLIT}",
            f"data.group={_FAMILY}",
            f"data.image_size={self.pixels}",
            f"data.channels={self.channels}",
            "data.name=icons",
            f"data.labels=[{','.join(survey.label_names)}]",
        ]

    def _shards(self, package: IconPackage, survey: Survey, renderer: str) -> Iterator[Shard]:
        """Yields the icons with a label, set by set."""
        rows_of = survey.rows_by_set()
        for icon_set in package.sets():
            rows = rows_of.get(icon_set.prefix, range(0))
            for first in range(rows.start, rows.stop, SIZE):
                names = survey.names[first : min(first + SIZE, rows.stop)]
                svgs = tuple(icon_set.svg(name.partition(":")[2]) for name in names)
                yield Shard(first, svgs, self.pixels, self.color, renderer)

    def _write(
        self,
        folder: Path,
        parts: Path,
        survey: Survey,
        drawn: Sequence[tuple[int, str]],
        renderer: str,
    ) -> None:
        outcomes = np.full(len(survey.names), BROKEN, np.uint8)
        for first, name in drawn:
            pictures, outcomes_of_shard = read_shard(parts / name)
            outcomes[first : first + len(pictures)] = outcomes_of_shard
            for row in np.flatnonzero(outcomes_of_shard == DRAWN).tolist():
                path = folder / "pictures" / _file_of(survey.names[first + row])
                path.parent.mkdir(parents=True, exist_ok=True)
                _save(pictures[row], path)
        rows, split_of = self._order(survey, outcomes)
        sizes = np.bincount(split_of, minlength=len(_SPLITS))
        manifest = {
            "package": f"{NAME} {VERSION}",
            "renderer": f"resvg-py {renderer}",
            **asdict(self),
            **counts_of(survey, outcomes, sizes),
        }
        write_text(folder / "manifest.json", text=json.dumps(manifest, indent=1) + "\n")
        write_text(folder / "labels.csv", text=_table(survey, rows, split_of))

    def _order(self, survey: Survey, outcomes: NDArray[np.uint8]) -> tuple[IntArray, IntArray]:
        """Returns the rows of icons that were drawn, and the split of each, in the order public, test, private."""
        rows = np.flatnonzero(outcomes == DRAWN)
        split_of = deal_splits(survey.group_ids[rows], sizes=(self.num_public, self.num_test))
        sizes = np.bincount(split_of, minlength=len(_SPLITS))
        if not (sizes > 0).all():
            rule = f"more than {self.num_public} + {self.num_test} icons with a label, in at least three families"
            raise InvalidValue("package", rule=f"{rule}, found {len(rows)}")
        order = np.lexsort((survey.record_ids[rows], split_of))
        return rows[order], split_of[order]


def _file_of(name: str) -> str:
    """Returns the path of an icon's picture below the folder of pictures."""
    icon_set, _, icon = name.partition(":")
    return f"{icon_set}/{icon}.png"


def _save(levels: NDArray[np.uint8], path: Path) -> None:
    from PIL import Image  # which is optional

    channels = levels.transpose(1, 2, 0)
    picture = Image.fromarray(channels[..., 0] if channels.shape[2] == 1 else channels)
    picture.save(path, format="PNG")


def _table(survey: Survey, rows: IntArray, split_of: IntArray) -> str:
    """Returns the table as CSV: file, split and family of each icon, and a 0 or 1 for each label."""
    family_of_row = np.unique(survey.group_ids, return_inverse=True)[1]
    lines = [",".join([_FILE, _SPLIT, _FAMILY, *survey.label_names])]
    for row, split in zip(rows.tolist(), split_of.tolist(), strict=True):
        labels = survey.labels[row].astype(int).tolist()
        cells = [_file_of(survey.names[row]), _SPLITS[split], family_of_row[row], *labels]
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"
