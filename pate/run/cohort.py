"""The cohort of a release: the holders of records whose teachers cast the votes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.report.privacy import Scalar
from pate.run.places import Places
from pate.validation import require_text
from pate.votes.expert_answers import ExpertAnswers
from pate.votes.foreign import ForeignVotes

ONE_EXPERT = PrivacyUnit(words="one expert, with all private examples in its prompt")
"""The unit of a price of answers of experts."""

ONE_TEACHER = PrivacyUnit.of_teacher()
"""The unit of a price where nobody vouches for groups of records."""

# A card names at most this many labels that not every holder has.
_MAX_LABELS_SHOWN = 40


@dataclass(frozen=True)
class LabelHolders:
    """The public numbers of holders and of teachers that have each label, if holders have different labels.

    Attributes:
        label_names: the name of each label.
        holders_per_label: the number of holders that have each label.
        teachers_per_label: the number of the teachers of these holders.
        num_holders: the number of all holders.
        num_teachers: the number of all teachers.
    """

    label_names: tuple[str, ...]
    holders_per_label: tuple[int, ...]
    teachers_per_label: tuple[int, ...]
    num_holders: int
    num_teachers: int

    @classmethod
    def from_holders(
        cls,
        label_names: tuple[str, ...],
        label_names_of_holders: Sequence[Collection[str]],
        num_teachers_of_holders: Sequence[int],
    ) -> LabelHolders | None:
        """Returns the numbers of holders and teachers of each label; None if every holder has all labels.

        Args:
            label_names: the name of each label.
            label_names_of_holders: the names of the labels that each holder has.
            num_teachers_of_holders: the number of teachers of each holder.
        """
        num_holders_of_label = Counter(
            name for names in label_names_of_holders for name in set(names)
        )
        num_holders = len(label_names_of_holders)
        if all(num_holders_of_label[name] == num_holders for name in label_names):
            return None
        labels_and_num_teachers_of_holders = list(
            zip(label_names_of_holders, num_teachers_of_holders, strict=True)
        )
        return cls(
            label_names=label_names,
            holders_per_label=tuple(num_holders_of_label[name] for name in label_names),
            teachers_per_label=tuple(
                sum(
                    num_teachers
                    for names, num_teachers in labels_and_num_teachers_of_holders
                    if name in names
                )
                for name in label_names
            ),
            num_holders=num_holders,
            num_teachers=sum(num_teachers_of_holders),
        )

    def lines(self, *, max_shown: int = _MAX_LABELS_SHOWN) -> tuple[str, ...]:
        """Returns sentences on the labels that not every holder has, those of the fewest teachers first.

        Args:
            max_shown: the largest number of labels that are named.
        """
        partial_labels = sorted(
            (num_teachers, num_holders, name)
            for name, num_holders, num_teachers in zip(
                self.label_names, self.holders_per_label, self.teachers_per_label, strict=True
            )
            if num_holders < self.num_holders
        )

        def counted(number: int, noun: str) -> str:
            return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

        labels_in_words = [
            f"{name} ({counted(num_teachers, 'teacher')} of {counted(num_holders, 'holder')})"
            for num_teachers, num_holders, name in partial_labels[:max_shown]
        ]
        more = (
            f", and {len(partial_labels) - max_shown:,} more"
            if len(partial_labels) > max_shown
            else ""
        )
        return (
            f"Not every holder has every label: {len(partial_labels):,} of {len(self.label_names):,} labels have fewer "
            f"than all {self.num_teachers:,} teachers of {self.num_holders} holders. The noise is the same for every "
            "label, so it is larger beside the votes of fewer teachers.",
            f"Labels of few teachers: {', '.join(labels_in_words)}{more}.",
        )


@dataclass(frozen=True, kw_only=True, eq=False)  # == of arrays is an array
class Cohort:
    """A group of holders whose teachers' votes are released together, with public facts and a digest of the votes.

    Attributes:
        dataset_name: the public name of the data; a ledger has an account for each such name.
        has_real_records: True for records of real people, False for synthetic records.
        record_ids: the public names of the queries, `[num_queries]`.
        label_names: the names of the labels, `[num_labels]`.
        votes_digest: the digest of the votes, by which a release that was begun continues. No epsilon covers the
            digest.
        queries_digest: the `queries_digest` of the samples; empty if the samples are not known.
        places: the numbers of holders and of their teachers; None if these are not known.
        label_holders: the numbers of holders and of teachers that have each label; None if all holders have the same
            labels.
        labels_have_gaps: whether labels of single records may be unknown, which is public.
        num_groups: the number of units of privacy; None if nobody vouches for it.
        unit: the unit of the price. It is a teacher; or an expert, such as a language model with private examples in
            its prompt; or a group of records if all holders vouch for the same groups.
        features: the public settings of the features that replace pictures; empty for plain numbers.
        public_answers_digest: the SHA-256 of the public answers that votes are compared with; empty if there are none.
        settings_of_holders: the public settings in which all holders agree, as YAML by configuration group.
    """

    dataset_name: str
    has_real_records: bool = True
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    votes_digest: str
    queries_digest: str = ""
    places: Places | None = None
    label_holders: LabelHolders | None = None
    labels_have_gaps: bool = False
    num_groups: int | None = None
    unit: PrivacyUnit = ONE_TEACHER
    features: Mapping[str, Scalar] = field(default_factory=dict)
    public_answers_digest: str = ""
    settings_of_holders: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("name", self.dataset_name)

    @classmethod
    def of_others(cls, foreign_votes: ForeignVotes, dataset_name: str) -> Self:
        """Returns the cohort of votes that another project computed and stored in files.

        Args:
            foreign_votes: the votes with the names of queries and labels.
            dataset_name: the name of the data, which is published.
        """
        return cls(
            dataset_name=dataset_name,
            record_ids=foreign_votes.record_ids,
            label_names=foreign_votes.label_names,
            votes_digest=foreign_votes.digest,
        )

    @classmethod
    def of_experts(cls, expert_answers: ExpertAnswers, dataset_name: str) -> Self:
        """Returns the cohort of experts, such as language models with private examples in their prompts.

        Args:
            expert_answers: the answers, with the names of queries and labels.
            dataset_name: the name of the data, which is published.
        """
        return cls(
            dataset_name=dataset_name,
            record_ids=expert_answers.record_ids,
            label_names=expert_answers.label_names,
            votes_digest=expert_answers.digest,
            unit=ONE_EXPERT,
            public_answers_digest=expert_answers.public_answers.digest,
        )

    @property
    def account_name(self) -> str:
        """The name of the cohort's account in a ledger: a digest of the name of the data."""
        return hashlib.sha256(f"holders of {self.dataset_name}".encode()).hexdigest()
