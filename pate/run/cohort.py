"""Cohort: the holders whose teachers cast the votes of one release."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.report.privacy import Scalar
from pate.run.places import Places
from pate.validation import require_text
from pate.votes.foreign import ForeignVotes

ONE_TEACHER = PrivacyUnit.of_teacher()
"""The unit of a price where nobody vouches for groups of records."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohort:
    """Holders of one release, as one: all that a release says of its votes beside their sum."""

    dataset: str  # the public name of their data; one ledger counts for one name
    real: bool = True  # False for synthetic records
    record_ids: NDArray[Any]  # `[Q]`, what queries are called
    label_names: tuple[str, ...]  # L
    # of the votes: a release that was begun goes on with the same. Covered by no epsilon.
    digest: str
    queries: str = ""  # `queries_digest` of what was asked; empty where it is not known
    # how teachers are spread; None where it is not known whose they are
    places: Places | None = None
    num_groups: int | None = None  # units of privacy; None where nobody vouches for a number
    # what the price is for: a teacher, unless all holders vouch for the same groups of records
    unit: PrivacyUnit = ONE_TEACHER
    features: Mapping[str, Scalar] = field(default_factory=dict)  # what stands for pictures, public
    # that holders agree in, public: YAML by group
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.dataset)

    @classmethod
    def of_others(cls, votes: ForeignVotes, name: str) -> Self:
        """Returns the people behind the files of another project; the name of their data is published."""
        return cls(
            dataset=name,
            record_ids=votes.record_ids,
            label_names=votes.label_names,
            digest=votes.digest,
        )

    @property
    def account(self) -> str:
        """The account of their releases in a ledger: that of the name, so that each counts for whoever took part."""
        return hashlib.sha256(f"holders of {self.dataset}".encode()).hexdigest()
