"""The votes of one holder: it trains teachers on its own records, and saves their votes on the queries in a file."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate.array_types import BoolArray
from pate.data import Dataset, Partition
from pate.data.dataset import require_dataset
from pate.files.atomic import remove_partials, write_text, write_text_parts
from pate.files.digests import file_digest
from pate.files.paths import make_folder
from pate.files.reading import FROM_BACKUP, read_text
from pate.models import Engine, Teacher, Voter
from pate.models.teacher import isolate_shard_sizes
from pate.progress import Monitor
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import EnsembleFolder, RunFolder
from pate.run.partition_manifest import draw_partition
from pate.run.queries import queries_digest
from pate.run.random_streams import RandomStreams
from pate.run.sources import Sources, require_same_data
from pate.threads import all_cores
from pate.validation import require, require_choice, require_count, require_text
from pate.votes.counts import limit_votes
from pate.votes.source import TeacherVotes
from pate_federated.vote_file import CASTS, VoteFile, VoteManifest, is_vote_file

_CLASS = "teachers that vote yes or no; kernel teachers answer in rounds alone, see pate-release mailbox="


@dataclass(frozen=True, kw_only=True)
class HolderPlan:
    """The plan by which one holder trains its teachers and casts their votes. The votes have no noise.

    Attributes:
        load_dataset: a function that reads the holder's records and the public samples.
        teacher: the kind of teacher and its settings.
        num_teachers: the number of teachers; None for one teacher for each group, if teachers are not trained.
        engine: the engine that trains the teachers.
        holder: the unique name of the holder; a number in 1..holders if `holders` is given.
        holders: the number of simulated holders among which the data set is divided (`HolderShare`); None for a data
            set of the holder's own.
        num_queries: the number of public samples that teachers vote on, the first ones; None for all.
        cast: the form of the votes, one of `CASTS`.
        vote_clip: the largest number of labels of a query that a teacher votes for, its most confident ones; None for
            all.
        seed: the seed of partition and teachers; None for a secret seed from the operating system.
        settings: all settings as plain values; a folder with other settings is refused.
        queries: the file of the public samples; None if the data set has its own.
        public_settings: the public settings of teachers, data and features, as YAML by group.
    """

    load_dataset: Callable[[], Dataset]
    teacher: Voter
    num_teachers: int | None
    engine: Engine
    holder: str
    holders: int | None = None
    num_queries: int | None = None
    cast: str = "bits"
    vote_clip: int | None = None
    seed: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    queries: str | None = None
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
            is_in_range = is_number and 1 <= int(self.holder) <= self.holders
            value = int(self.holder) if is_number else self.holder
            require(is_in_range, "holder", value, rule)
            require(
                self.seed is not None,
                "seed",
                self.seed,
                "a number beside holders=, the same at every place",
            )

    def num_teachers_of(self, dataset: Dataset) -> int:
        """Returns the number of the holder's teachers.

        Raises `InvalidValue` if the data set has fewer private groups than teachers, of all simulated holders together.
        """
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
    """Trains a holder's teachers and writes their votes to a file.

    A file that is complete is not written again. A call that was killed can be repeated and gives the same bytes.
    Anybody with the file can read the votes of every teacher.

    Args:
        plan: the plan of the votes.
        output: the vote file, of mode 0600.
        output_dir: the folder of partition and teachers, of mode 0700.
        monitor: displays the progress; None for no display.

    Raises:
        InvalidValue: the plan cannot be carried out, another file has that name, or the folder is from another plan.
    """
    output = Path(output)
    folder = RunFolder(Path(output_dir))
    monitor = monitor or Monitor()
    require(
        issubclass(plan.teacher.gives, TeacherVotes), "teacher", type(plan.teacher).__name__, _CLASS
    )
    require(output.suffix == ".npz", "output", output, "a file that ends in .npz")
    make_folder(output.parent)
    with folder.lock_for(settings=plan.settings):
        remove_partials(output.parent, name_patterns=[re.escape(output.name)])
        named_files = {**plan.settings, "queries": plan.queries}
        if _is_done(folder, vote_path=output):
            require_same_data(
                folder,
                settings=named_files,
                load_dataset=plan.load_dataset,
                monitor=monitor,
            )
            monitor.say(
                f"output={output}: this vote file is finished; nothing was trained or asked again"
            )
            return VoteFile.open(output)
        sources = Sources.from_settings(settings=named_files, output_dir=folder.path)
        with monitor.stage("reading the data"):
            dataset = require_dataset(plan.load_dataset())
        for line in dataset.notes:
            monitor.say(line)
        plan.teacher.check(dataset.input_shape)
        pool_size = len(dataset.public)
        num_queries = plan.num_queries or pool_size
        require(
            num_queries <= pool_size,
            "num_queries",
            num_queries,
            f"at most {pool_size}, the public samples",
        )
        plan.num_teachers_of(dataset)  # refuses more teachers than private groups
        # a killed call of this holder may have left a file, which is written again
        if os.path.lexists(output):
            is_own = is_vote_file(output) and VoteFile.open(output).manifest.holder == plan.holder
            require(
                is_own, "output", output, "the name of a new file, or of this holder's own votes"
            )
        folder.claim(
            plan.settings,
            digests={"data": dataset.digest(), "private": dataset.private_digest()},
        )
        sources.write(folder)
        holder_share = HolderShare.of_plan(plan, dataset=dataset, folder=folder)
        progress = training_progress(
            holder_share.teacher, partition=holder_share.partition, ensemble_folder=folder
        )
        if progress:
            monitor.say(f"output_dir={folder.path}: continues a call that was stopped; {progress}")
        ensemble = holder_share.train(
            num_queries, engine=plan.engine, folder=folder, monitor=monitor
        )
        teacher_votes = ensemble.vote().require_type(TeacherVotes)
        public_names = ensemble.public_names
        clip = plan.vote_clip
        with_confidences = plan.cast == "confidences"

        def clipped_bits() -> Iterator[BoolArray]:
            """Yields blocks of bits, in which a teacher keeps at most its `vote_clip` surest votes on a query."""
            assert clip is not None
            for confidences in teacher_votes.confidences():
                yield limit_votes(vote_block=confidences, max_votes=clip)

        vote_file = VoteFile.write(
            output,
            manifest=manifest_of(plan, ensemble),
            yield_bits=teacher_votes.bits if clip is None else clipped_bits,
            record_ids=public_names.record_ids,
            label_names=public_names.label_names,
            yield_confidences=teacher_votes.confidences if with_confidences else None,
            label_shares=teacher_votes.label_shares() if with_confidences else None,
            known_shares=teacher_votes.known_shares(),
        )
        write_text(folder.cast_digest, text=file_digest(output, remedy=FROM_BACKUP) + "\n")
    return vote_file


@dataclass(frozen=True, eq=False)
class HolderShare:
    """The part of an ensemble of teachers that one holder trains.

    Attributes:
        teacher: the kind of teacher and its settings.
        dataset: a data set with the private records of these teachers, and with the queries.
        partition: the division of the records among the teachers.
        seeds: the seed of each teacher.
    """

    teacher: Voter
    dataset: Dataset
    partition: Partition
    seeds: list[int]

    @classmethod
    def of_plan(cls, plan: HolderPlan, dataset: Dataset, folder: EnsembleFolder) -> "HolderShare":
        """Returns the part of one holder in a data set.

        Without `plan.holders`, this is the whole data set. With `plan.holders`, many holders are simulated on one
        machine. The seed divides the data set among `holders * num_teachers` teachers, as `pate-train` does, and holder
        h gets `num_teachers` of them, from number (h - 1) num_teachers on.

        Args:
            plan: the holder's plan.
            dataset: the data set.
            folder: the folder of partition and teachers.
        """
        num_teachers = plan.num_teachers_of(dataset)
        streams = RandomStreams.of_run(secret_file=folder.training_secret, seed=plan.seed)
        rng = streams.generator("partition")
        if plan.holders is None:
            partition = draw_partition(
                dataset.private, num_teachers=num_teachers, partition_file=folder.partition, rng=rng
            )
            return cls(
                teacher=plan.teacher,
                dataset=dataset,
                partition=partition,
                seeds=streams.seeds("teachers", num_seeds=num_teachers),
            )
        first = (int(plan.holder) - 1) * num_teachers
        last = first + num_teachers
        teacher = plan.teacher
        if isinstance(teacher, Teacher):  # isolated as in the whole ensemble
            teacher = isolate_shard_sizes(teacher, dataset.private.group_ids)
        partition_of_all = Partition.draw(
            dataset.private.group_ids, num_teachers=num_teachers * plan.holders, rng=rng
        )
        rows = np.flatnonzero(
            (partition_of_all.teacher_of >= first) & (partition_of_all.teacher_of < last)
        )
        dataset = replace(dataset, private=dataset.private.take(rows))
        partition = Partition(
            teacher_of=partition_of_all.teacher_of[rows] - first, num_teachers=num_teachers
        )
        if not os.path.lexists(folder.partition):
            write_text_parts(
                path=folder.partition, text_parts=partition.json_parts(split=dataset.private)
            )
        seeds_of_earlier_too = streams.seeds("teachers", num_seeds=last)
        return cls(
            teacher=teacher,
            dataset=dataset,
            partition=partition,
            seeds=seeds_of_earlier_too[first:],
        )

    def train(
        self, num_queries: int, *, engine: Engine, folder: EnsembleFolder, monitor: Monitor
    ) -> Ensemble:
        """Trains those of the holder's teachers that the folder lacks, and returns them all; see `Ensemble.train`."""
        return Ensemble.train(
            self.teacher,
            self.dataset,
            self.partition,
            num_queries=num_queries,
            seeds=self.seeds,
            engine=engine,
            ensemble_folder=folder,
            monitor=monitor,
        )


def manifest_of(plan: HolderPlan, ensemble: Ensemble) -> VoteManifest:
    """Returns the head of a holder's vote file: the statements that the holder makes about its votes.

    Args:
        plan: the plan of the votes.
        ensemble: the holder's trained teachers.
    """
    dataset = ensemble.dataset
    names = ensemble.public_names
    return VoteManifest(
        holder=plan.holder,
        queries=queries_digest(
            inputs=np.asarray(ensemble.queries.inputs), record_ids=names.record_ids
        ),
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
        have_gaps=dataset.private.known is not None,
    )


def _is_done(run_folder: RunFolder, *, vote_path: Path) -> bool:
    """Returns True if an earlier call has completed the vote file; raises `InvalidValue` if it was changed since.

    Args:
        run_folder: the folder of the teachers, which has the digest of a completed file.
        vote_path: the path of the vote file.
    """
    path = run_folder.cast_digest
    remedy = "remove it, and the same command writes it again"
    if not (os.path.lexists(path) and os.path.lexists(vote_path)):
        return False
    digest = read_text(
        path, rule="the digest of a vote file", remedy="remove it, and the file is written again"
    )
    is_same = file_digest(vote_path, remedy=remedy) == digest.strip()
    require(is_same, "output", vote_path, f"the file as this command left it; {remedy}")
    return True
