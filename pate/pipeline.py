"""The whole way, stage by stage: partition, teachers, votes, release, student, report.

The only module that knows all stages. Each stage leaves a file and is skipped where the file is there, so a run that
was stopped continues with the same call; the release is priced and in the ledger before its noise is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Ledger
from pate.aggregators import (
    Aggregator,
    CenteredRelease,
    CenteredVotes,
    ChargedRelease,
    NotPriorTopK,
    Release,
    TargetChargedAggregator,
    counts_for,
)
from pate.data import Dataset, Partition, Split
from pate.data.dataset import require_dataset
from pate.files.atomic import write_arrays, write_text
from pate.report import Report, RunFigures, RunWriter, format_epsilon, write_card, write_html
from pate.run.centering import CenteredStage, read_centered, require_replace_one, write_centered
from pate.run.folder import RunFolder
from pate.run.plan import Plan, Price, price
from pate.run.progress import Advance, Monitor, NullMonitor
from pate.run.randomness import Randomness
from pate.run.results import Outcome, Prediction
from pate.run.rounds import RoundFiles, StudentPrior, read_release, release_in_rounds
from pate.run.warnings import plan_warnings
from pate.student import LowRankStudent, StudentModel
from pate.teachers import CheckpointStore, KernelTeacher, Shard, Teacher, cast_votes
from pate.teachers.isolated import isolated
from pate.validation import InvalidValue, require
from pate.votes import VoteStore


def train(plan: Plan, output_dir: str | PathLike[str], monitor: Monitor | None = None) -> Report:
    """Runs a plan in a folder, or continues it there, and returns its report.

    A finished run is not repeated: its report is returned as it is, and nothing more is spent.

    Raises:
        InvalidValue: a plan that cannot work, said before anything is spent; a folder of another run.
    """
    folder, monitor = RunFolder(Path(output_dir)), monitor or NullMonitor()
    with folder.opened(plan.settings):
        if folder.report.exists():
            Randomness(folder.path, plan.seed).forget_noise()  # which a power cut may have brought back
            monitor.say(f"output_dir={folder.path}: this run is finished; nothing was trained, drawn or spent again")
            return Report.from_json(folder.report.read_text())
        return _Run(plan, folder, monitor).report()


class _Run:
    """One run: its stages as properties, each computed or read back once."""

    def __init__(self, plan: Plan, folder: RunFolder, monitor: Monitor) -> None:
        self.plan, self.folder, self.monitor = plan, folder, monitor
        self.randomness = Randomness(folder.path, plan.seed)
        self.started = time.monotonic()
        self.curves: dict[str, list[dict[str, float]]] = {}

    @cached_property
    def events(self) -> RunWriter:
        return RunWriter(self.folder.path / "tensorboard")

    @cached_property
    def dataset(self) -> Dataset:
        with self.monitor.stage("reading the data"):
            return require_dataset(self.plan.load_dataset())

    @cached_property
    def num_teachers(self) -> int:
        return self.plan.num_teachers or len(np.unique(self.dataset.private.group_ids))

    @cached_property
    def price(self) -> Price:
        if isinstance(self.plan.aggregator, CenteredVotes):
            require_replace_one(self.plan.aggregator)
        groups = len(np.unique(self.dataset.private.group_ids))
        rule = f"at most {groups}, the number of private groups"
        require(self.num_teachers <= groups, "num_teachers", self.num_teachers, rule)
        self.plan.student.check(self.dataset.input_shape, self.dataset.num_labels)
        plan = replace(self.plan, num_teachers=self.num_teachers)
        priced = price(plan, num_public=len(self.dataset.public), num_labels=self.dataset.num_labels)
        self.folder.claim(self.plan.settings)
        self.folder.check_data(self.dataset.digest())
        for doubt in plan_warnings(self.dataset, plan.aggregator, plan.teacher, num_teachers=self.num_teachers):
            self.monitor.say(doubt)
        return priced

    @cached_property
    def queries(self) -> Split:
        return self.dataset.public.take(slice(0, self.price.num_queries))

    @cached_property
    def partition(self) -> Partition:
        """Drawn once, kept as a manifest, and checked against the data every time."""
        path, private = self.folder.path / "partition.json", self.dataset.private
        if not path.exists():
            drawn = Partition.draw(private.group_ids, self.num_teachers, self.randomness.generator("partition"))
            write_text(path, drawn.to_json(private))
        partition = Partition.from_json(path.read_text(), private)
        found, wanted = partition.num_teachers, self.num_teachers
        require(found == wanted, "partition.num_teachers", found, f"{wanted}, as configured")
        return partition

    @cached_property
    def votes(self) -> VoteStore:
        """The votes of all teachers on all queries, trained first where they are missing."""
        path, total = self.folder.path / "votes.npz", self.num_teachers
        if path.exists():
            return VoteStore.open(path, num_teachers=total)
        shape = {"num_queries": len(self.queries), "num_labels": self.dataset.num_labels}
        bits = (confidences >= 0.5 for confidences in self._confidences())
        return VoteStore.write(path, bits, num_teachers=total, **shape)

    def _confidences(self) -> Iterator[NDArray[np.float32]]:
        """What the trained teachers say of the queries, a block at a time."""
        if isinstance(self.plan.teacher, KernelTeacher):
            raise TypeError("kernel teachers are not trained")
        store = CheckpointStore(self.folder.path / "teachers")
        self._train_teachers(self.plan.teacher, store)
        teacher, folder = self.plan.teacher, self.folder.path / "casting"
        scratch = folder if teacher.is_isolated else None  # the others are asked faster than a file is written
        with self.monitor.stage("casting votes", self.num_teachers) as advance:
            for first, block in cast_votes(teacher, store, self.num_teachers, self.queries.inputs, scratch=scratch):
                yield block
                advance(first + len(block))
        rmtree(folder, ignore_errors=True)

    @cached_property
    def histogram(self) -> NDArray[np.int64] | None:
        """Counts of votes; kernel teachers do not vote in bits."""
        return None if isinstance(self.plan.teacher, KernelTeacher) else self.votes.histogram()

    @cached_property
    def centered(self) -> CenteredStage | None:
        aggregator, kernel = self.price.aggregator, self.plan.teacher
        if not isinstance(aggregator, CenteredVotes):
            return None
        return CenteredStage(
            aggregator,
            kernel if isinstance(kernel, KernelTeacher) else None,
            self._confidences,
            self.dataset.private,
            self.dataset.public,
            self.price.num_queries,
            self.partition,
            self.folder.path,
            partial(self.randomness.generator, "noise"),
            self.ledger,
        )

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(
            self.folder.ledger,
            adjacency=self.price.aggregator.adjacency,
            target_delta=self.plan.target_delta,
            accountant=self.plan.accountant,
        )

    @cached_property
    def release(self) -> Release:
        """Charged, then drawn, then on disk; the noise's secret is destroyed last."""
        path, aggregator = self.folder.release / "release.npz", self.price.aggregator
        if path.exists():
            event = self.price.event
            if isinstance(aggregator, CenteredVotes):
                release: Release = read_centered(path, aggregator, event)
            else:
                release = read_release(path, aggregator, event)
        elif self.centered is not None:
            with self.monitor.stage("releasing votes"):
                release = self.centered.release()
                write_centered(path, release)
        elif isinstance(aggregator, TargetChargedAggregator):
            counts = counts_for(aggregator, self.votes.blocks())
            with self.monitor.stage("releasing labels", self.price.num_queries) as advance:
                charged = self._release_in_rounds(aggregator, counts, advance)
                asked = {"hits": charged.hits, "num_asked": np.array(charged.num_asked)}
                write_arrays(path, labels=charged.labels, answered=charged.answered, **asked)
                release = charged
        else:
            votes = self._votes_for(aggregator)
            with self.monitor.stage("releasing labels"):
                release = aggregator.aggregate(
                    votes, num_teachers=self.num_teachers, rng=self.randomness.generator("noise"), ledger=self.ledger
                )
                write_arrays(path, labels=release.labels, answered=release.answered)
        self.randomness.forget_noise()
        if not self.ledger.entries:
            raise InvalidValue(f"ledger={self.folder.ledger}: expected the charge of {path}, found none")
        return release

    def _votes_for(self, aggregator: Aggregator) -> Any:
        """Each teacher's votes, or their counts."""
        blocks = self.votes.blocks()
        return blocks if aggregator.reads == "teacher_votes" else counts_for(aggregator, blocks)

    def _release_in_rounds(
        self, aggregator: TargetChargedAggregator, counts: NDArray[np.int64], advance: Advance
    ) -> ChargedRelease:
        prior = None
        if isinstance(aggregator, NotPriorTopK):
            seed = self.randomness.seeds("student", 1)[0]
            prior = StudentPrior(self.plan.student, self.queries.inputs, seed, never_empty=not aggregator.padded)

        def tell(asked: int, hits: int) -> None:
            left, epsilon = aggregator.target_hits - hits, self.price.epsilon
            self.events.hits(asked, hits=hits, remaining_hits=left, epsilon=epsilon)
            advance(asked, f"{hits} hits, {left} remaining, epsilon {format_epsilon(epsilon)}")

        return release_in_rounds(
            aggregator,
            counts,
            files=RoundFiles(self.folder.path / "rounds"),
            tell=tell,
            num_teachers=self.num_teachers,
            rng=self.randomness.generator("noise"),
            ledger=self.ledger,
            prior=prior,
        )

    @cached_property
    def student(self) -> StudentModel:
        model = self._fit_on(self.release, "student")
        model.save(self.folder.release / "student")
        return model

    def _fit_on(self, release: Release, name: str) -> StudentModel:
        """The student of a release: on its scores where both know what those are, else on the labels answered."""
        student = self.plan.student
        if isinstance(student, LowRankStudent) and isinstance(release, CenteredRelease) and self.centered is not None:
            with self.monitor.stage(f"training the {name.replace('_', ' ')}"):
                return self.centered.fit(student, release)
        answered = release.answered
        return self._fit_student(name, self.queries.inputs[answered], release.labels[answered])

    def _majority_vote_student(self) -> StudentModel:
        """What the votes would teach without noise."""
        if self.centered is not None:
            return self._fit_on(self.centered.noiseless(), "majority_vote_student")
        majority = 2 * self.votes.histogram() > self.num_teachers
        return self._fit_student("majority_vote_student", self.queries.inputs, majority)

    @cached_property
    def predictions(self) -> dict[str, Prediction]:
        """What each model says of the test split; no epsilon covers the models beside the student."""
        inputs, true = self.queries.inputs, self.queries.labels
        models = {
            "student": self.student,
            "majority_vote_student": self._majority_vote_student(),
            "non_private_student": self._fit_student("non_private_student", inputs, true),
        }
        test = self.dataset.test.inputs
        return {name: Prediction(model.predict(test), model.predict_proba(test)) for name, model in models.items()}

    def report(self) -> Report:
        """All stages in order, then the files that people read; report.json comes last."""
        outcome = Outcome(
            dataset=self.dataset,
            queries=self.queries,
            release=self.release,
            num_teachers=self.num_teachers,
            histogram=self.histogram,
            teacher_accuracies=self._teacher_accuracies(),
            predictions=self.predictions,
            aggregator=self.price.aggregator,
            accountant=self.plan.accountant,
            epsilon=self.ledger.epsilon,
            target_delta=self.plan.target_delta,
            seed=self.plan.seed,
            student_curve=self.curves.get("student", []),
        )
        with self.monitor.stage("writing the report"):
            report = outcome.report(duration_s=time.monotonic() - self.started)
            figures = outcome.figures(report)
            self._write(report, figures, outcome.teacher_accuracies)
        return report

    def _write(self, report: Report, figures: RunFigures, teacher_accuracies: NDArray[np.float64]) -> None:
        """The files that people read; report.json, which says that the run is complete, comes last."""
        write_text(self.folder.release / "config.yaml", self.plan.public_settings(self.price.aggregator))
        write_card(
            self.folder.release / "privacy_card.md",
            report.privacy,
            dataset=report.data.name if report.data.real else f"{report.data.name} (synthetic)",
            num_answered=report.release.num_answered,
            num_labels=report.data.num_labels,
            num_teachers=report.teachers.num_teachers,
            num_hits=report.release.num_hits,
        )
        write_html(self.folder.path / "report.html", report, figures)
        writer = self.events
        if figures.gaps is not None:
            writer.gaps(figures.gaps)
        if len(teacher_accuracies):
            writer.teacher_accuracies(teacher_accuracies)
        writer.queries(figures.answered, figures.epsilon_after_query)
        writer.report(report)
        writer.close()
        report.write(self.folder.report)

    def _teacher_accuracies(self) -> NDArray[np.float64]:
        """The share of correct bits of each teacher on the queries, `[T]`; none where they do not vote in bits."""
        if isinstance(self.plan.teacher, KernelTeacher):
            return np.zeros(0)
        true = self.queries.labels
        return np.concatenate([(block == true).mean(axis=(1, 2)) for block in self.votes.blocks()])

    def _train_teachers(self, teacher: Teacher, store: CheckpointStore) -> None:
        private, partition, total = self.dataset.private, self.partition, self.num_teachers
        missing = len(store.missing(total))

        def part(teacher: int) -> Shard:
            rows = private.take(partition.indices(teacher))
            return Shard(rows.inputs, rows.labels)

        with self.monitor.stage("training teachers", total) as advance:
            done = total - missing
            advance(done)

            def on_progress(teacher: int, info: Mapping[str, Any]) -> None:
                nonlocal done
                done += 1
                self.events.teacher(teacher, float(info["loss"]))
                advance(done)

            seeds = self.randomness.seeds("teachers", total)
            recipe = isolated(teacher, private.group_ids)
            self.plan.engine.train(recipe, part, total, seeds, store, on_progress)
        self.events.flush()

    def _fit_student(self, name: str, inputs: NDArray[np.float32], labels: NDArray[np.bool_]) -> StudentModel:
        curve = self.curves[name] = []

        def on_epoch(epoch: int, values: dict[str, float]) -> None:
            curve.append(values)
            self.events.epoch(epoch, values, model=name)

        seed = self.randomness.seeds("student", 1)[0]
        with self.monitor.stage(f"training the {name.replace('_', ' ')}"):
            pool = self.dataset.public.take(slice(self.price.num_queries, None)).inputs
            return self.plan.student.fit_with_pool(inputs, labels, pool=pool, seed=seed, on_epoch=on_epoch)
