"""The settings of `pate-vote`, `pate-student`, and of `pate-release` where holders cast the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pate.settings import CollectSettings, Targets, setting


@dataclass(frozen=True, kw_only=True)
class HoldersReleaseSettings(CollectSettings):
    """The settings of `pate-release`, with those for vote files of holders and for rounds."""

    sum: str | None = setting(
        "a file that the sum of the votes is written to, in place of a release. A later pate-release reads such sums "
        "as votes=, and leads to the same release as all votes together",
        default=None,
        is_path=True,
    )
    roll: Any = setting(
        "for centered_votes in rounds, in place of votes: the holders with their numbers of teachers, "
        "{NAME: TEACHERS, …}",
        default=None,
    )
    mailbox: str | None = setting(
        "with roll=, the folder for questions to holders and for their answers; each call goes on as far as the "
        "answers reach",
        default=None,
        may_change_when_continued=True,
        is_path=True,
    )
    max_absent: int = setting(
        "with roll=, the number of holders that a round may go without", default=0
    )
    wait: bool = setting(
        "with roll=, false goes on without the holders that have not answered, as far as max_absent allows",
        default=True,
        may_change_when_continued=True,
    )
    num_queries: int | None = setting(
        "with roll=, the number of public samples that are labeled, the first ones; by default all",
        default=None,
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class VoteSettings(Targets):
    """The settings of `pate-vote`, without those of data set and teacher."""

    holder: Any = setting(
        "the name of this holder, which no other holder has; with holders= a number from 1. A name that comes twice is "
        "refused by pate-release",
    )
    queries: str | None = setting(
        "the file of public samples, the same at every holder: an .npz with `inputs` and `ids`, or with data=table a "
        "table, which every holder reads by the same data.schema=; by default the data set's own public samples",
        default=None,
        may_change_when_continued=True,
        is_path=True,
    )
    num_queries: int | None = setting(
        "the number of public samples that are voted on, the first ones; by default all",
        default=None,
    )
    cast: str = setting(
        "bits, or confidences (33 times the bytes), which centered_votes reads; clipped_votes chooses each teacher's "
        "surest votes by them",
        default="bits",
    )
    vote_clip: int | None = setting(
        "for clipped_votes, the most labels of a query that a teacher votes for, its surest ones",
        default=None,
    )
    question: str | None = setting(
        "a question file of pate-release roll=…, which holds the samples. Write the answer to output=HOLDER.npz, and "
        "use the same output_dir= for all questions of a release",
        default=None,
        may_change_when_continued=True,
        is_path=True,
    )
    output: str = setting("the vote file", may_change_when_continued=True, is_path=True)
    output_dir: str | None = setting(
        "the folder of partition and teachers, which stay with the holder; by default NAME.work beside the vote file",
        default=None,
        may_change_when_continued=True,
        is_path=True,
    )
    holders: int | None = setting(
        "a number of holders, to try many holders on one machine: the private records of one data set are dealt to "
        "them by seed=. pate-train with all teachers, the same seed and holders= then releases the same bytes",
        default=None,
    )
    seed: int | None = setting(
        "the seed of partition and teachers; votes carry no noise that a seed could give away",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class StudentSettings(Targets):
    """The settings of `pate-student`, without those of data set and student."""

    release: str = setting("the folder that pate-release wrote, or its release/", is_path=True)
    queries: str | None = setting(
        "the file of public samples that the teachers voted on, in the same order; in its place data=NAME names the "
        "data set whose public samples they are",
        default=None,
        is_path=True,
    )
    table_schema: str | None = setting(
        "the file that pate-schema wrote, if the queries are a table", default=None, is_path=True
    )
    output: str | None = setting(
        "the folder for the bundle; by default release/ itself", default=None, is_path=True
    )
    seed: int | None = setting(
        "the seed of the training; by default it follows from the release", default=None
    )
