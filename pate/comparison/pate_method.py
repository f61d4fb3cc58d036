"""PATE as a method: an aggregator with the ensemble that it asks and the student that learns from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from pate.aggregators import Aggregator, Release
from pate.comparison.method import Bench, Contender, Method, Reference, Trained, kind
from pate.files.disk import make_folder
from pate.files.values import digest, full_text
from pate.pricing import Budget, PricedRelease, ReleaseShape, SettingNames, plan_release, require_useful
from pate.run.ensemble import Ensemble, deal
from pate.run.plan import plan_warnings, require_parts
from pate.run.progress import Monitor, NullMonitor
from pate.run.randomness import Randomness, Streams
from pate.run.release import draw
from pate.student import Student
from pate.teachers import Voter
from pate.validation import InvalidValue, require, require_count
from pate.votes.source import VoteSource

_NAMES = SettingNames(target_epsilon="'epsilons=[{}]'", noise="")  # an aggregator's fields are in its file


@dataclass(frozen=True, kw_only=True)
class PATEMethod(Method):
    """PATE with one aggregator: its teachers and its student.

    With a seed that is also the ensemble's it gives the release and the student of `pate-train seed=…`.
    """

    name: str  # in all tables, beside the number of teachers
    aggregator: Aggregator  # with any noise; the comparison solves for it
    teacher: Voter  # the recipe for the teachers that it asks
    num_teachers: int | None  # T, public; None for one private group per teacher
    student: Student  # the recipe for the student

    def __post_init__(self) -> None:
        plain = self.name.replace("_", "").replace("-", "").isalnum()
        require(plain, "aggregators", self.name, "names of letters, digits, - and _")  # they name files
        if self.num_teachers is not None or self.teacher.is_trained:
            require_count("teacher.num_teachers", self.num_teachers or 0)

    @property
    def key(self) -> str:
        return self.name if self.num_teachers is None else f"{self.name}@{self.num_teachers}"

    def columns(self, bench: Bench) -> dict[str, Any]:
        return {
            "adjacency": str(self.aggregator.adjacency),
            **self._ensemble_columns(bench),
            "student": kind(self.student),
        }

    def identity(self, bench: Bench) -> list[Any]:
        shape = self._shape(bench)
        asked = self.aggregator.identity(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return [asked, *shape.as_arguments.values(), self._ensemble_name(bench), full_text(self.student)]

    def check(self, bench: Bench) -> None:
        shape = self._shape(bench)
        counts = {"num_teachers": shape.num_teachers, "num_queries": shape.num_queries}
        require_parts(bench.dataset, self.aggregator, self.teacher, self.student, **counts)

    def warnings(self, bench: Bench) -> Iterator[str]:
        total = self._shape(bench).num_teachers
        return plan_warnings(bench.dataset, self.aggregator, self.teacher, self.student, num_teachers=total)

    def prepare(self, bench: Bench, monitor: Monitor) -> None:
        """Trains the ensemble and casts its votes, once for all methods that ask the same teachers."""
        self.ensemble(bench, monitor).votes().prepare()

    def at(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> Contender:
        """The aggregator with its noise. The votes that it reads are counted once for all seeds."""
        priced = self.priced(budget, bench, parameters)
        votes = cache(lambda: self.ensemble(bench).votes())
        return Contender(
            priced.epsilon,
            parameters or priced.solved_for,
            lambda seed: bench.trained(self.student, self.release(priced, bench, votes(), seed), seed),
            partial(self._refusal, priced, budget, bench),
        )

    def priced(self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None) -> PricedRelease:
        """The release at a budget, or with parameters that were solved for before."""
        shape = self._shape(bench)
        if parameters is None:
            return plan_release(self.aggregator, shape, budget, names=_NAMES)
        known = replace(self.aggregator, **parameters)
        return plan_release(known, shape, replace(budget, target_epsilon=None), names=_NAMES)

    def release(self, priced: PricedRelease, bench: Bench, votes: VoteSource, seed: int) -> Release:
        """The release for a seed; no ledger is charged, as nobody is shown it."""
        return draw(priced, votes, streams=Streams(seed), student=self.student, inputs=bench.queries.inputs)

    def references(self, bench: Bench) -> Iterator[Reference]:
        if self.teacher.votes_in_bits:
            seen = [bench.num_queries, full_text(bench.student), self._ensemble_name(bench)]
            columns = {**self._ensemble_columns(bench), "student": kind(bench.student)}
            yield Reference("majority_vote_student", partial(_majority_student, self, bench), seen, columns)

    def ensemble(self, bench: Bench, monitor: Monitor | None = None) -> Ensemble:
        folder = make_folder(bench.folder / "ensembles" / self._ensemble_name(bench), within=bench.folder)
        randomness = Randomness(folder, bench.ensemble_seed)
        return Ensemble(
            teacher=self.teacher,
            partition=deal(bench.dataset.private, self._shape(bench).num_teachers, randomness),
            dataset=bench.dataset,
            num_queries=bench.num_queries,
            folder=folder,
            randomness=randomness,
            engine=bench.engine,
            monitor=monitor or NullMonitor(),
        )

    def _refusal(self, priced: PricedRelease, budget: Budget, bench: Bench) -> str:
        """What `require_useful` says of it, with as many teachers as parts of the records are bounded one by one."""
        groups = bench.dataset.private.num_groups
        total = self.teacher.num_protected(priced.shape.num_teachers, groups)
        doubted = replace(priced, shape=replace(priced.shape, num_teachers=total))
        names = replace(_NAMES, num_teachers=f"'aggregators=[{self.name}@{{}}]'")
        try:
            require_useful(self.aggregator, doubted, budget, names=names, num_groups=groups)
        except InvalidValue as error:
            return str(error)
        return ""

    def _shape(self, bench: Bench) -> ReleaseShape:
        total = self.num_teachers or bench.dataset.private.num_groups
        return ReleaseShape(num_queries=bench.num_queries, num_labels=bench.dataset.num_labels, num_teachers=total)

    def _ensemble_name(self, bench: Bench) -> str:
        total = self._shape(bench).num_teachers
        settings = [full_text(self.teacher), total, bench.ensemble_seed, bench.num_queries]
        return f"{kind(self.teacher)}-{total}-{digest(settings)}"

    def _ensemble_columns(self, bench: Bench) -> dict[str, Any]:
        return {"teacher": kind(self.teacher), "num_teachers": self._shape(bench).num_teachers}


def _majority_student(method: PATEMethod, bench: Bench, seed: int) -> Trained:
    votes = method.ensemble(bench).votes()
    return bench.trained_on_labels(2 * votes.counts() > votes.num_teachers, seed)
