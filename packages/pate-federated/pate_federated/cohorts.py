"""Cohorts of holders, computed from the heads of their votes, in which holders describe how their votes were cast."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from pate.run.cohort import ONE_TEACHER, Cohort, LabelHolders
from pate.run.places import Places
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.vote_file import VoteManifest


def cohort_of_heads(
    vote_heads: Sequence[VoteManifest],
    *,
    record_ids: NDArray[Any],
    label_names: tuple[str, ...],
    votes_digest: str,
    queries_digest: str = "",
    places: Places | None = None,
    num_groups: int | None = None,
    label_sets: Sequence[tuple[str, ...]] | None = None,
) -> Cohort:
    """Returns the cohort of the holders whose votes have these heads (`VoteManifest`, what a holder says of its votes).

    Settings in which heads differ are left out. If heads lack the unit of privacy, or differ in it, it is one teacher.
    The name of the data and the features are those of the first head.

    Args:
        vote_heads: the head of each holder's votes.
        record_ids: the public names of the queries.
        label_names: the name of each label.
        votes_digest: the digest of all votes.
        queries_digest: the digest of the queries.
        places: the numbers of holders and of their teachers; None if unknown.
        num_groups: the number of private groups of records, at all holders together; None if unknown.
        label_sets: the names of the labels that each of these holders has; None for those in their heads.
    """
    first = vote_heads[0]
    shared_settings = {
        name: text
        for name, text in first.settings.items()
        if all(head.settings.get(name) == text for head in vote_heads)
    }
    unit = ONE_TEACHER
    if first.unit is not None and all(head.unit == first.unit for head in vote_heads):
        unit = first.unit.at_one_holder
    have_real_records = all(head.real for head in vote_heads)
    return Cohort(
        dataset_name=first.dataset,
        has_real_records=have_real_records,
        record_ids=record_ids,
        label_names=label_names,
        votes_digest=votes_digest,
        queries_digest=queries_digest,
        places=places,
        label_holders=LabelHolders.from_holders(
            label_names,
            label_names_of_holders=[head.known_labels or label_names for head in vote_heads]
            if label_sets is None
            else label_sets,
            num_teachers_of_holders=[head.num_teachers for head in vote_heads],
        ),
        labels_have_gaps=any(head.have_gaps for head in vote_heads),
        num_groups=num_groups,
        unit=unit,
        features=first.features,
        settings_of_holders=shared_settings,
    )


def cohort_of_votes(votes: GatheredVotes) -> Cohort:
    """Returns the cohort of the holders whose vote files are in a source."""
    return cohort_of_heads(
        votes.heads,
        places=Places(num_holders=len(votes.heads), teachers_per_holder=votes.teachers_per_holder),
        votes_digest=votes.digest,
        num_groups=votes.num_groups,
        record_ids=votes.record_ids,
        label_names=votes.label_names,
        label_sets=votes.labels_of_holders,
        queries_digest=votes.heads[0].queries,
    )
