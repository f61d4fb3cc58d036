"""What a build made of which sets, and what it left out and why."""

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

from pate.data.dataset import Stage
from pate.data.icons import archive_name
from pate.files.disk import locked, make_folder, write_arrays, write_text
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
    room_for,
)
from scripts.icons40.package import NAME, VERSION, IconPackage
from scripts.icons40.survey import Survey, deal_splits, survey_names

_OUTCOMES = {DRAWN: "drawn", BLANK: "blank", BROKEN: "broken"}


def counts_of(
    survey: Survey, outcomes: NDArray[np.uint8], sizes: NDArray[np.int64]
) -> dict[str, Any]:
    """For JSON: labels with their counts, splits, what was left out, and all sets with author and license.

    Args:
        survey: the names.
        outcomes: uint8 `[n]`, of drawing each icon with a label.
        sizes: of the splits: public, test, private.
    """
    drawn = outcomes == DRAWN
    of_set = np.array([name.partition(":")[0] for name in survey.names])
    by_set = {
        icon_set: {
            word: int((outcomes[of_set == icon_set] == code).sum())
            for code, word in _OUTCOMES.items()
        }
        for icon_set in survey.sets
    }
    licenses = Counter[str]()
    for icon_set, about in survey.sets.items():
        licenses[about["license"]] += by_set[icon_set]["drawn"]
    return {
        "counts": {
            **survey.counts(),
            "left out: blank": int((outcomes == BLANK).sum()),
            "left out: broken": int((outcomes == BROKEN).sum()),
            "pictures": int(drawn.sum()),
            "families": len(np.unique(survey.group_ids[drawn])),
        },
        "splits": dict(zip(("public", "test", "private"), sizes.tolist(), strict=True)),
        "labels": dict(
            zip(survey.label_names, survey.labels[drawn].sum(axis=0).tolist(), strict=True)
        ),
        "licenses": dict(licenses.most_common()),
        "sets": {
            icon_set: {**about, **by_set[icon_set]} for icon_set, about in survey.sets.items()
        },
        "left_out": survey.left_out,
    }


_LARGEST = 256


@dataclass(frozen=True)
class Recipe:
    """How pictures are made of icons; the defaults are those that figures are given for."""

    pixels: int = 32  # height and width
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
    def file_name(self) -> str:
        """What the file is called."""
        return archive_name(self.pixels, self.channels, styles=self.styles)

    @property
    def channels(self) -> int:
        """1 for grey, 3 for color."""
        return len(MODES[self.color])

    def build(self, package: IconPackage, folder: Path, stage: Stage, *, jobs: int) -> Path:
        """Writes the file and its manifest into the folder, or finds what a build that was killed has drawn.

        Formal guarantees:
            * The labels are chosen from names of the public pool alone.
            * The same package and renderer give the same bytes, whatever `jobs` is and however often it was killed.
            * The file is whole or not there; the manifest is written before it.

        Returns:
            The file.

        Raises:
            InvalidValue: no such package, another version, or too few icons for the splits.
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
        parts = make_folder(make_folder(folder) / f".{self.file_name}.parts")
        try:
            with locked(parts / "lock", wait=False):
                with stage("drawing icons", len(survey.names)) as advance:
                    shards = self._shards(package, survey, renderer)
                    drawn = draw_shards(shards, parts, jobs=jobs, advance=advance)
                self._write(folder, parts, survey, drawn, renderer)
                shutil.rmtree(parts)
        except BlockingIOError:
            raise InvalidValue("output", folder, rule="no other build that writes there") from None
        return folder / self.file_name

    def _shards(self, package: IconPackage, survey: Survey, renderer: str) -> Iterator[Shard]:
        """Of the icons with a label, set by set."""
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
            made = read_shard(parts / name)[1]
            outcomes[first : first + len(made)] = made
        rows, sizes = self._order(survey, outcomes)
        manifest = {
            "package": f"{NAME} {VERSION}",
            "renderer": f"resvg-py {renderer}",
            **asdict(self),
            **counts_of(survey, outcomes, sizes),
        }
        shape = (len(rows), self.channels, self.pixels, self.pixels)
        with room_for(parts / "pictures", shape) as pictures:
            place_of = np.full(len(survey.names), -1)
            place_of[rows] = np.arange(len(rows))
            for first, name in drawn:
                made = read_shard(parts / name)[0]
                places = place_of[first : first + len(made)]
                pictures[places[places >= 0]] = made[places >= 0]
            write_text(
                (folder / self.file_name).with_suffix(".json"),
                json.dumps(manifest, indent=1) + "\n",
            )
            write_arrays(
                folder / self.file_name,
                pictures=pictures,
                labels=np.packbits(survey.labels[rows], axis=1),
                record_ids=survey.record_ids[rows],
                group_ids=survey.group_ids[rows],
                split_sizes=sizes,
                label_names=np.array(survey.label_names),
                public_names=np.array([survey.names[row] for row in rows[: sizes[0]]]),
            )

    def _order(
        self, survey: Survey, outcomes: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of pictures in the order public, test, private, each by record ids, and the splits' sizes."""
        kept = np.flatnonzero(outcomes == DRAWN)
        split_of = deal_splits(survey.group_ids[kept], (self.num_public, self.num_test))
        sizes = np.bincount(split_of, minlength=3)
        if not (sizes > 0).all():
            rule = f"more than {self.num_public} + {self.num_test} icons with a label, in at least three families"
            raise InvalidValue("package", rule=f"{rule}, found {len(kept)}")
        return kept[np.lexsort((survey.record_ids[kept], split_of))], sizes
