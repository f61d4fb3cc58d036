"""The terms of a release whose student is still to be trained: what the student's card says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pate.files.disk import DamagedFile, damaged, read_text, write_text
from pate.files.values import from_json, to_json
from pate.report import Privacy
from pate.report.report import ReleaseSummary

TERMS = "terms.json"
"""Its name in `release/`, until a student is there."""

_RULE = "the terms of a release, as pate-release writes them"
_REMEDY = "copy the folder anew from where pate-release left it"


@dataclass(frozen=True)
class Terms:
    """All of it may be published: the price covers it.

    Attributes:
        privacy: the price.
        release: how much was answered.
        num_labels: L.
        num_teachers: T.
        dataset: the public name of the data.
        real: False for synthetic records.
        queries: `queries_digest` of what was asked; empty where it is not known.
        sha256: of release.npz and privacy_card.md, by name.
        features: what stands for pictures.
    """

    privacy: Privacy
    release: ReleaseSummary
    num_labels: int
    num_teachers: int
    dataset: str
    real: bool
    queries: str
    sha256: Mapping[str, str]
    features: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Into a folder."""
        write_text(folder / TERMS, to_json(self) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """From a folder.

        Raises:
            DamagedFile: there are none, or they were changed.
        """
        path = folder / TERMS
        try:
            return from_json(cls, read_text(path, rule=_RULE, remedy=_REMEDY), name="terms")
        except DamagedFile:
            raise
        except ValueError:
            raise damaged(path, _RULE, "other JSON", _REMEDY) from None
