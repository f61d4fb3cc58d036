"""Which parts of a report the epsilon covers, and the words that every output uses to say so."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType


class PrivacyCoverage(Enum):
    """What protects a figure of the report."""

    COVERED = "covered by the epsilon"
    HELD_OUT = "no epsilon covers the true labels it is scored with"
    UNCOVERED = "no epsilon covers this"


NOT_COVERED = MappingProxyType(
    {
        "release.label_accuracy": "compares the release with the true labels of the public pool",
        "release.micro_f1": "compares the release with the true labels of the public pool",
        "teachers.mean_accuracy": "computed from the teachers, before any noise",
        "teachers.records_per_teacher": "computed from the private partition",
        "student": "the student is covered, but its scores read the true labels of the test split",
        "baselines.majority_vote_student": "trained on the votes without noise",
        "baselines.true_label_student": "trained on true labels",
        "baselines.all_records_model": "trained on the private records without noise",
        "baselines.prior": "each label's majority is taken from true labels",
        "baselines.best_constant": "the labels' frequencies are taken from true labels",
        "intervals": "resampled from the true labels of the test split",
        "verdict": "compares scores that read true labels",
        "data.label_cardinality": "computed from true labels",
        "heading": "names settings of the command line, a seed among them",
        "duration_s": "the time a run takes depends on the private data",
    }
)
"""Keys of `report.json`, dotted, that no epsilon covers, each with the reason."""

CAVEATS = (
    "Settings that somebody chose after looking at the private data, among them the teachers' own.",
    "A representation of the samples that was fitted on private records.",
    "The public samples themselves: they are used in the open.",
    "Other releases made from the same private data; their epsilons add up with this one.",
    "More than one unit of privacy at once: a group of g units is protected about g times less.",
    "What the machine gives away besides the release: running time, memory, and the votes, teachers and "
    "evaluation that the data owner keeps.",
    "The pseudo-random generator, which is taken to be ideal, and rounding errors in computing the price.",
)
"""What the epsilon of a release says nothing about, in sentences fit to publish."""

SEEDED_WARNING = "seeded noise protects nobody who knows the seed"
PAPER_LABEL = "as the paper accounts; not a bound"
