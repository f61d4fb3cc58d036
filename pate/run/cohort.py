"""The cohort of a release: the holders of records whose teachers cast the votes."""

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
    """A group of holders whose teachers' votes are released together, with the facts that are published about them."""

    dataset: str  # the public name of the data; one ledger counts for one name
    real: bool = True  # False for synthetic records
    record_ids: NDArray[Any]  # the public names of the queries, `[Q]`
    label_names: tuple[str, ...]  # the names of the L labels
    # the digest of the votes, by which a release that was begun continues; no epsilon covers the digest
    digest: str
    queries: str = ""  # `queries_digest` of the samples; empty where they are not known
    # the numbers of holders and of their teachers; None where they are not known
    places: Places | None = None
    # the number of units of privacy; None where nobody vouches for it
    num_groups: int | None = None
    # the unit of the price: a teacher, unless all holders vouch for the same groups of records
    unit: PrivacyUnit = ONE_TEACHER
    # the origin of features of pictures, public
    features: Mapping[str, Scalar] = field(default_factory=dict)
    # the settings in which all holders agree, public, as YAML by group
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.dataset)

    @classmethod
    def of_others(cls, votes: ForeignVotes, name: str) -> Self:
        """Returns the cohort of votes that another project computed and stored in files.

        Args:
            votes: the votes with the names of queries and labels.
            name: the name of the data, which is published.
        """
        return cls(
            dataset=name,
            record_ids=votes.record_ids,
            label_names=votes.label_names,
            digest=votes.digest,
        )

    @property
    def account(self) -> str:
        """The name of the cohort's account in a ledger: a digest of the name of the data."""
        return hashlib.sha256(f"holders of {self.dataset}".encode()).hexdigest()
