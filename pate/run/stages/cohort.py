"""Who voted, and on what: all that a release says of its votes beside their sum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import NDArray

from pate.run.places import Places
from pate.validation import require_text
from pate.votes.foreign import ForeignVotes
from pate.votes.gathered import GatheredVotes
from pate.votes.sum_file import SummedVotes


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort:
    """The holders of one release, as one.

    Attributes:
        dataset: the public name of their data; one ledger counts for one name.
        real: False for synthetic records.
        record_ids: `[Q]`, what queries are called.
        label_names: L.
        digest: of the votes: a release that was begun goes on with the same. Covered by no epsilon.
        queries: `queries_digest` of what was asked; empty where it is not known.
        places: how teachers are spread; None where it is not known whose they are.
        num_groups: units of privacy; None where nobody vouches for a number.
        features: what stands for pictures, public.
        settings: how teachers were made, public: YAML by group; what holders do not agree in is left out.
    """

    dataset: str
    real: bool = True
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    digest: str
    queries: str = ""
    places: Places | None = None
    num_groups: int | None = None
    features: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.dataset)

    @classmethod
    def of_files(cls, votes: GatheredVotes | SummedVotes) -> Self:
        """The holders of vote files."""
        first, heads = votes.heads[0], votes.heads
        agreed = {
            name: text
            for name, text in first.settings.items()
            if all(head.settings.get(name) == text for head in heads)
        }
        return cls(
            dataset=first.dataset,
            real=all(head.real for head in heads),
            record_ids=votes.record_ids,
            label_names=votes.label_names,
            digest=votes.digest,
            queries=first.queries,
            places=Places(len(heads), votes.teachers_per_holder),
            num_groups=votes.num_groups,
            features=first.features,
            settings=agreed,
        )

    @classmethod
    def of_others(cls, votes: ForeignVotes, name: str) -> Self:
        """Whoever is behind the files of another project.

        Args:
            votes: of the files.
            name: what their data is called where the release is published.
        """
        names, ids = votes.label_names, votes.record_ids
        return cls(dataset=name, record_ids=ids, label_names=names, digest=votes.digest)

    @property
    def account(self) -> str:
        """What a ledger counts their releases under: of the name alone, so that every release counts for all of them.

        Whoever takes part in some of the releases has spent at most what the account says.
        """
        return hashlib.sha256(f"holders of {self.dataset}".encode()).hexdigest()
