"""A holder's stage: its teachers learn from its own records, answer the queries, and their votes become a file."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate.data import Dataset, Partition
from pate.data.dataset import require_dataset
from pate.files.disk import (
    FROM_BACKUP,
    file_digest,
    make_folder,
    read_text,
    remove_partials,
    write_text,
)
from pate.models import Engine, Teacher, Voter
from pate.models.teacher import isolated
from pate.progress import Monitor
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import EnsembleFolder, RunFolder
from pate.run.partition_manifest import deal
from pate.run.queries import queries_digest
from pate.run.random_streams import RandomStreams
from pate.run.sources import Sources, require_same_data
from pate.threads import all_cores
from pate.validation import require, require_choice, require_count, require_text
from pate.votes.counts import limited
from pate.votes.source import TeacherVotes
from pate_federated.vote_file import CASTS, VoteFile, VoteManifest, is_vote_file

_CLASS = "teachers that vote yes or no; kernel teachers answer in rounds alone, see pate-release mailbox="


@dataclass(frozen=True, kw_only=True)
class HolderPlan:
    """Everything that the votes of one holder depend on; no noise is among it, as a holder draws none."""

    load_dataset: Callable[[], Dataset]  # reads its records and the public samples
    teacher: Voter  # the recipe for its teachers
    # that its records are dealt to; None for one of each group, where none is trained
    num_teachers: int | None
    engine: Engine  # how they are trained
    # its name, which no other holder has; a number of 1..holders where records are dealt
    holder: str
    # among whom the data set is dealt (`ensemble_of`); None where it is all its own
    holders: int | None = None
    # how many public samples are asked, the first ones; None for all
    num_queries: int | None = None
    cast: str = "bits"  # one of `CASTS`
    # the most labels of a query that a teacher votes for, its surest; None for all
    vote_clip: int | None = None
    seed: int | None = None  # None draws a secret from the operating system
    # plain values; a folder of others is refused
    settings: dict[str, Any] = field(default_factory=dict)
    queries: str | None = None  # the file of the public samples, where it is none of the data's
    # of teachers, data, features: YAML by group
    public_settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("holder", self.holder)
        if self.num_teachers is not None or self.teacher.is_trained or self.holders is not None:
            require_count("teacher.num_teachers", self.num_teachers or 0)
        require_choice("cast", self.cast, CASTS)
        for name in ("num_queries", "vote_clip"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        if self.holders is not None:
            require_count("holders", self.holders)
            rule = f"a number in 1..{self.holders}, of holders={self.holders}"
            is_number = self.holder.isascii() and self.holder.isdigit()
            is_good = is_number and 1 <= int(self.holder) <= self.holders
            shown = int(self.holder) if is_number else self.holder
            require(is_good, "holder", shown, rule)
            require(
                self.seed is not None,
                "seed",
                self.seed,
                "a number beside holders=, the same at every place",
            )

    def num_teachers_of(self, dataset: Dataset) -> int:
        """Returns how many teachers its private records are dealt to; raises where there are fewer private groups."""
        num_groups = dataset.private.num_groups
        num_teachers = self.num_teachers or num_groups
        num_in_all = num_teachers * (self.holders or 1)
        rule = f"at most {num_groups}, the number of private groups"
        require(num_in_all <= num_groups, "num_teachers", num_in_all, rule)
        return num_teachers


@all_cores()
def cast_vote_file(
    plan: HolderPlan, output: Path | str, output_dir: Path | str, monitor: Monitor | None = None
) -> VoteFile:
    """Trains a holder's teachers in a folder of its own, of mode 0700, and writes their votes to a file, of mode 0600.

    A finished file is not written again; a call that was killed is continued by the same call, with the same bytes.
    Whoever has the file sees what every teacher says. Raises for a plan that cannot work, another file under that name,
    a folder of another call.
    """
    output = Path(output)
    folder = RunFolder(Path(output_dir))
    monitor = monitor or Monitor()
    require(
        issubclass(plan.teacher.gives, TeacherVotes), "teacher", type(plan.teacher).__name__, _CLASS
    )
    require(output.suffix == ".npz", "output", output, "a file that ends in .npz")
    make_folder(output.parent)
    with folder.opened(plan.settings):
        remove_partials(output.parent, [re.escape(output.name)])
        named_files = {**plan.settings, "queries": plan.queries}
        if _is_done(folder, output):
            require_same_data(folder, named_files, plan.load_dataset, monitor)
            monitor.say(
                f"output={output}: this vote file is finished; nothing was trained or asked again"
            )
            return VoteFile.open(output)
        sources = Sources.from_settings(named_files, folder.path)
        with monitor.stage("reading the data"):
            dataset = require_dataset(plan.load_dataset())
        for line in dataset.notes:
            monitor.say(line)
        plan.teacher.check(dataset.input_shape)
        pool = len(dataset.public)
        num_queries = plan.num_queries or pool
        require(
            num_queries <= pool, "num_queries", num_queries, f"at most {pool}, the public samples"
        )
        _ = plan.num_teachers_of(dataset)  # refuses what cannot be
        if os.path.lexists(output):  # one that this holder was killed over is written again
            own = is_vote_file(output) and VoteFile.open(output).manifest.holder == plan.holder
            require(own, "output", output, "the name of a new file, or of this holder's own votes")
        folder.claim(plan.settings, data=dataset.digest(), private=dataset.private_digest())
        sources.write(folder)
        share = HolderShare.of_plan(plan, dataset, folder)
        progress = training_progress(share.teacher, share.partition, folder)
        if progress:
            monitor.say(f"output_dir={folder.path}: continues a call that was stopped; {progress}")
        ensemble = share.train(num_queries, engine=plan.engine, folder=folder, monitor=monitor)
        votes = ensemble.vote()
        names = ensemble.public_names
        clip = plan.vote_clip
        with_confidences = plan.cast == "confidences"
        file = VoteFile.write(
            output,
            manifest_of(plan, ensemble),
            bits=votes.bits
            if clip is None
            else lambda: (limited(block, clip) for block in votes.confidences()),
            record_ids=names.record_ids,
            label_names=names.label_names,
            confidences=votes.confidences if with_confidences else None,
            label_shares=votes.label_shares() if with_confidences else None,
        )
        write_text(folder.cast_digest, file_digest(output, remedy=FROM_BACKUP) + "\n")
    return file


@dataclass(frozen=True, eq=False)
class HolderShare:
    """The teachers of an ensemble that are with one holder: their recipe, their records and their seeds."""

    teacher: Voter
    dataset: Dataset  # its private records are those of these teachers
    partition: Partition
    seeds: list[int]

    @classmethod
    def of_plan(cls, plan: HolderPlan, dataset: Dataset, folder: EnsembleFolder) -> "HolderShare":
        """Returns a holder's share of a data set, which is all of it unless the plan has `holders`.

        With `holders` all have the data set, to try on one machine what many places would do: the seed deals it to
        `holders * num_teachers` teachers as `pate-train` does, and holder h has those from (h - 1) num_teachers on.
        """
        num_teachers = plan.num_teachers_of(dataset)
        streams = RandomStreams.of_run(folder.training_secret, plan.seed)
        rng = streams.generator("partition")
        if plan.holders is None:
            partition = deal(dataset.private, num_teachers, folder.partition, rng)
            return cls(plan.teacher, dataset, partition, streams.seeds("teachers", num_teachers))
        first = (int(plan.holder) - 1) * num_teachers
        last = first + num_teachers
        teacher = plan.teacher
        if isinstance(teacher, Teacher):  # apart where those of the whole ensemble are
            teacher = isolated(teacher, dataset.private.group_ids)
        whole = Partition.draw(dataset.private.group_ids, num_teachers * plan.holders, rng)
        rows = np.flatnonzero((whole.teacher_of >= first) & (whole.teacher_of < last))
        dataset = replace(dataset, private=dataset.private.take(rows))
        partition = Partition(whole.teacher_of[rows] - first, num_teachers)
        if not os.path.lexists(folder.partition):
            write_text(folder.partition, partition.to_json(dataset.private))
        return cls(teacher, dataset, partition, streams.seeds("teachers", last)[first:])

    def train(
        self, num_queries: int, *, engine: Engine, folder: EnsembleFolder, monitor: Monitor
    ) -> Ensemble:
        """Trains the teachers that the folder lacks; see `Ensemble.train`."""
        return Ensemble.train(
            self.teacher,
            self.dataset,
            self.partition,
            num_queries=num_queries,
            seeds=self.seeds,
            engine=engine,
            folder=folder,
            monitor=monitor,
        )


def manifest_of(plan: HolderPlan, ensemble: Ensemble) -> VoteManifest:
    """What a holder vouches for."""
    dataset = ensemble.dataset
    names = ensemble.public_names
    return VoteManifest(
        holder=plan.holder,
        queries=queries_digest(np.asarray(ensemble.queries.inputs), names.record_ids),
        num_teachers=ensemble.num_teachers,
        num_queries=ensemble.num_queries,
        num_labels=dataset.num_labels,
        num_records=len(dataset.private),
        num_groups=dataset.private.num_groups,
        cast=plan.cast,
        vote_clip=plan.vote_clip,
        dataset=dataset.name,
        real=dataset.real,
        features=dict(dataset.preprocessing.origin) if dataset.preprocessing is not None else {},
        settings=dict(plan.public_settings),
        unit=dataset.privacy_unit,
    )


def _is_done(folder: RunFolder, output: Path) -> bool:
    """Says whether the file is there, as this call left it; raises where it is another."""
    path = folder.cast_digest
    remedy = "remove it, and the same command writes it again"
    if not (os.path.lexists(path) and os.path.lexists(output)):
        return False
    digest = read_text(
        path, rule="the digest of a vote file", remedy="remove it, and the file is written again"
    )
    is_same = file_digest(output, remedy=remedy) == digest.strip()
    require(is_same, "output", output, f"the file as this command left it; {remedy}")
    return True
