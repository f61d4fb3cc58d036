"""Schemas of the commands that run one stage each: at a holder, at the aggregator, at whoever trains the student."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class VoteConfig:
    """pate-vote.

    Attributes:
        holder: the name of this place, or its number where records are dealt.
        holders: among how many places the records are dealt; None where all are this place's.
        queries: the file of the public samples; None for those of the data set.
        num_queries: how many of them are asked, the first ones; None for all.
        cast: bits or confidences.
        vote_clip: labels of a query that a teacher may vote for; None for all.
        question: of rounds, the file of pate-release that is answered; None for votes on queries.
        output: the vote file.
        output_dir: of partition and checkpoints; None for a folder beside the vote file.
        seed: None draws a secret from the operating system.
        allowed_targets: as in `SharedConfig`.
    """

    data: Any = MISSING
    features: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    holder: Any = MISSING
    holders: int | None = None
    queries: str | None = None
    num_queries: int | None = None
    cast: str = "bits"
    vote_clip: int | None = None
    question: str | None = None
    output: str = MISSING
    output_dir: str | None = None
    seed: int | None = None
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class ReleaseConfig:
    """pate-release.

    Attributes:
        votes: the files: a pattern, a name, or a list of them.
        sum: a file for the sum of these votes, in place of a release; later levels read it as votes.
        roll: of rounds, the holders and how many teachers each has; None for vote files.
        max_absent: how many of them may be absent in a round.
        mailbox: of rounds, the folder of questions and answers.
        wait: whether rounds wait for all holders.
        num_queries: of rounds, how many public samples the release is about; None for all.
        layout: of files of other projects, see `AuditConfig`.
        num_teachers: of each file, where it holds counts only.
        name: of the data, in files of other projects.
        queries: the public samples, for an aggregator that goes by a student's expectation.
        table_schema: of queries in a table.
        target_epsilon: what the release may cost.
        ledger: of all releases of these holders.
        max_total_epsilon: what they may cost together.
        redraw: draw again what was charged and is gone, at its price.
        seed: None draws noise from the operating system.
        output_dir: None names the folder after the settings.
    """

    votes: Any = MISSING
    sum: str | None = None
    roll: Any = None
    max_absent: int = 0
    mailbox: str | None = None
    wait: bool = True
    num_queries: int | None = None
    layout: str = "auto"
    num_teachers: int | None = None
    name: str = "votes"
    queries: str | None = None
    table_schema: str | None = None
    aggregator: Any = MISSING
    accountant: Any = MISSING
    student: Any = MISSING
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    target_epsilon: float | None = None
    allow_useless: bool = False
    ledger: str | None = None
    max_total_epsilon: float | None = None
    redraw: bool = False
    seed: int | None = None
    output_dir: str | None = None
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class StudentConfig:
    """pate-student.

    Attributes:
        release: the folder that pate-release wrote, or its release/.
        queries: the file of the public samples.
        table_schema: of queries in a table.
        data: the data set whose public samples they are, in place of a file.
        output: a folder for the bundle; None for that of the release.
        seed: None makes one of the release.
        allowed_targets: as in `SharedConfig`.
    """

    release: str = MISSING
    queries: str | None = None
    table_schema: str | None = None
    data: Any = None
    features: Any = MISSING
    student: Any = MISSING
    output: str | None = None
    seed: int | None = None
    allowed_targets: list[str] = field(default_factory=list)
