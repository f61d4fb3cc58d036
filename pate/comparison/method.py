"""Methods of a comparison, which train a model at a budget, and the bench of data, queries and engine that they share.

PATE is one method: an aggregator with the ensemble that it asks and the student that learns from it.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget
from pate.aggregators import Aggregator, MemoryRecord, Release, TrainingSet
from pate.data import Dataset, Partition, Split
from pate.files.digests import digest, full_text
from pate.files.disk import make_folder
from pate.models import Engine, Student, Voter
from pate.models.student_model import Predictor
from pate.pricing import PricedRelease, plan_release, require_useful
from pate.pricing.remedies import RemedySearch
from pate.progress import Monitor
from pate.run.ceiling import ceilings, train_on_all_records
from pate.run.compatibility import require_compatible, require_suitable
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import EnsembleFolder
from pate.run.partition_manifest import deal
from pate.run.plan_warnings import plan_warnings
from pate.run.random_streams import RandomStreams
from pate.run.student_prior import StudentPrior
from pate.setting_names import comparison_of
from pate.validation import InvalidValue, require, require_count
from pate.votes.shape import VoteShape
from pate.votes.source import CountableVotes, VoteSource

_SEARCH = RemedySearch(seconds=5.0)  # of each method that is refused at a budget
_READ: dict[str, Dataset] = {}  # by this process, by digest


@dataclass(frozen=True)
class Trained:
    """Model that a method trained, with the figures of its release."""

    model: Predictor  # scored on the test split
    num_answered: int | None = None  # public samples that were answered; None where none are asked
    # share of correct bits in the answers, if any. No epsilon covers it.
    label_accuracy: float | None = None


@dataclass(frozen=True)
class Reference:
    """Model that no epsilon covers."""

    name: str  # in all tables
    train: Callable[[int], Trained]  # trains it with a seed; it can be sent to another process
    identity: list[Any]  # all that it depends on beside data and seed, as plain values
    columns: Mapping[str, Any]  # as `Method.columns`


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Bench that all methods share. It is cheap to send to another process, which reads the data for itself."""

    load_dataset: Callable[[], Dataset]  # reads the data, once in every process
    digest: str  # of what was read first; another process that reads something else stops
    num_queries: int  # the first ones of the public pool are asked
    engine: Engine  # how teachers are trained
    student: Student  # the recipe for students that no epsilon covers
    ensemble_seed: int  # of partitions and teachers
    folder: Path  # of the comparison

    @classmethod
    def for_dataset(
        cls,
        dataset: Dataset,
        *,
        load_dataset: Callable[[], Dataset],
        num_queries: int,
        engine: Engine,
        student: Student,
        ensemble_seed: int,
        folder: Path,
    ) -> Self:
        """Returns the bench of a data set that this process has read."""
        digest = dataset.digest()
        _READ.clear()
        _READ[digest] = dataset
        return cls(
            load_dataset=load_dataset,
            digest=digest,
            num_queries=num_queries,
            engine=engine,
            student=student,
            ensemble_seed=ensemble_seed,
            folder=folder,
        )

    @property
    def dataset(self) -> Dataset:
        """The data set, read once in each process; raises where another process has read something else."""
        if self.digest not in _READ:
            dataset = self.load_dataset()
            digest = dataset.digest()
            rule = "the data that this comparison began with"
            require(digest == self.digest, "data", digest[:12], rule)
            _READ[digest] = dataset
        return _READ[self.digest]

    @property
    def queries(self) -> Split:
        """The public samples that are asked about."""
        return self.dataset.public.take(slice(0, self.num_queries))

    @property
    def pool(self) -> NDArray[np.float32]:
        """The inputs of the public samples beside the queries, from which a student may learn, too."""
        return self.dataset.public.take(slice(self.num_queries, None)).inputs

    def label_accuracy(
        self, labels: NDArray[np.bool_], answered: NDArray[np.bool_]
    ) -> float | None:
        """Returns the share of correct bits in the answers; None without answers, or without true labels."""
        if not (answered.any() and self.dataset.public_labeled):
            return None
        correct = (labels == self.queries.labels)[answered]
        return float(correct.mean())

    def student_of_labels(self, labels: NDArray[np.bool_], seed: int) -> Trained:
        """Trains the comparison's student on labels of all queries that nothing protects."""
        model = self.student.learn(
            TrainingSet(self.queries.inputs, labels),
            pool=self.pool,
            seed=RandomStreams(seed).seed("student"),
        )
        answered = np.ones(len(labels), dtype=np.bool_)
        return Trained(
            model,
            num_answered=len(labels),
            label_accuracy=self.label_accuracy(labels, answered),
        )

    def true_label_student(self, seed: int) -> Trained:
        """Trains the comparison's student on the true labels of the queries."""
        return self.student_of_labels(self.queries.labels, seed)

    def ceiling(self, name: str) -> Reference:
        """Returns the best model of all private records without privacy, under a name."""
        recipes = ceilings(self.student)
        return Reference(
            name=name,
            train=self.all_records_model,
            identity=[full_text(recipe) for recipe in recipes],
            columns={"student": " or ".join(map(kind, recipes))},
        )

    def all_records_model(self, seed: int) -> Trained:
        """Trains a model on all private records and their true labels."""
        student_seed = RandomStreams(seed).seed("student")
        return Trained(train_on_all_records(self.student, self.dataset, seed=student_seed))


def kind(recipe: Any) -> str:
    """Returns the name of a teacher or a student in tables: `low_rank` for `LowRankStudent`."""
    name = type(recipe).__name__.removesuffix("Teacher").removesuffix("Student")
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def require_plain_name(setting: str, name: str) -> None:
    """Raises `InvalidValue` for a name of a method that no file can have."""
    plain = name.replace("_", "").replace("-", "").isalnum()
    require(plain, setting, name, "names of letters, digits, - and _")


@dataclass(frozen=True, eq=False)
class Contender:
    """Method at a budget, ready to be trained with any seed."""

    epsilon: float  # its price, at most the budget's epsilon
    parameters: Mapping[str, Any]  # that were solved for, by name; kept where all values are plain
    # trains once; noise and training are functions of the seed. It raises `InvalidValue` for data that the method is
    # not made for: the comparison says so in its table.
    train: Callable[[int], Trained]
    # why it is not worth training, from public numbers alone; empty where it is
    refusal: Callable[[], str] = str


class Method(ABC):
    """Method that can be trained at a budget and scored. A method of your own subclasses this class.

    Attributes:
        key: unique within a comparison.
    """

    # True where a price covers it; where none does, it has `references` alone
    is_private: ClassVar[bool] = True
    name: str  # in all tables: letters, digits, - and _

    @property
    def key(self) -> str:
        """The name of the method within a comparison."""
        return self.name

    @abstractmethod
    def identity(self, bench: Bench) -> list[Any]:
        """Returns all that its results depend on beside data, budget and seed, as plain values."""

    @abstractmethod
    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method at a budget. The comparison refuses a contender that costs more.

        Args:
            budget: with an epsilon.
            bench: the bench that all methods share.
            parameters: those that an earlier call solved for; they are priced again, never believed.

        Raises `InvalidValue` where no parameters reach the budget.
        """

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns its cells of comparison.csv that all runs share: adjacency, teacher, num_teachers, student."""
        return {}

    def check(self, bench: Bench) -> None:  # noqa: B027 - most take all data
        """Raises `InvalidValue` where it cannot work on the data; called before anything is trained."""

    def warnings(self, bench: Bench) -> Iterator[str]:
        """Yields a line for each choice that is allowed but rarely wanted."""
        yield from ()

    def prepare(self, bench: Bench, monitor: Monitor) -> None:  # noqa: B027 - most have nothing to share
        """Does once the work that takes long and serves all budgets and seeds."""

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields models that no epsilon covers, to show beside it."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class AllRecords(Method):
    """Ceiling of the comparison's student, trained on every private record and its true labels.

    No epsilon covers it, so tables show it in a single row without an epsilon.
    """

    is_private: ClassVar[bool] = False
    name: str  # in all tables
    adjacency: str = "replace_one"

    def identity(self, bench: Bench) -> list[Any]:
        """Returns the recipes of which the best is trained."""
        return bench.ceiling(self.name).identity

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Raises `InvalidValue`: nothing about it is private."""
        raise InvalidValue(
            "epsilon", budget.epsilon, rule="a private method; this one has no epsilon"
        )

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields the ceiling."""
        yield bench.ceiling(self.name)


@dataclass(frozen=True, kw_only=True)
class PATEMethod(Method):
    """Method of PATE with one aggregator, its teachers and its student.

    With a seed that is also the ensemble's it gives the release and the student of `pate-train seed=…`.
    """

    name: str  # in all tables, beside the number of teachers
    aggregator: Aggregator  # with any noise; the comparison solves for it
    teacher: Voter  # the recipe for the teachers that it asks
    num_teachers: int | None  # T, public; None for one private group per teacher
    student: Student  # the recipe for the student

    def __post_init__(self) -> None:
        require_plain_name("aggregators", self.name)
        if self.num_teachers is not None or self.teacher.is_trained:
            require_count("teacher.num_teachers", self.num_teachers or 0)

    @property
    def key(self) -> str:
        """The name, with the number of teachers where there is one."""
        return self.name if self.num_teachers is None else f"{self.name}@{self.num_teachers}"

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns adjacency, teacher, num_teachers and student."""
        columns = self._ensemble_columns(bench)
        columns["adjacency"] = str(self.aggregator.adjacency)
        columns["student"] = kind(self.student)
        return columns

    def identity(self, bench: Bench) -> list[Any]:
        """Returns the aggregator, the shape of its votes, the ensemble and the student, as plain values."""
        shape = self._shape(bench)
        return [
            self.aggregator.identity(shape),
            shape.num_queries,
            shape.num_labels,
            shape.num_teachers,
            self._ensemble_name(bench),
            full_text(self.student),
        ]

    def check(self, bench: Bench) -> None:
        """Raises `InvalidValue` where the parts do not go together."""
        require_compatible(self.teacher, self.aggregator)
        require_suitable(
            bench.dataset,
            self.teacher,
            self.aggregator,
            self.student,
            num_teachers=self._shape(bench).num_teachers,
            num_queries=bench.num_queries,
        )

    def warnings(self, bench: Bench) -> Iterator[str]:
        """Returns the warnings of `pate-train` for these parts."""
        return plan_warnings(
            bench.dataset,
            self.aggregator,
            self.teacher,
            self.student,
            num_teachers=self._shape(bench).num_teachers,
        )

    def prepare(self, bench: Bench, monitor: Monitor) -> None:
        """Trains the ensemble and casts its votes, once for all methods that ask the same teachers."""
        partition = self._partition(bench)
        progress = training_progress(self.teacher, partition, self._ensemble_folder(bench))
        if progress:
            monitor.say(f"output_dir={bench.folder}: {self.key}: {progress}")
        self.votes(bench, monitor)

    def votes(self, bench: Bench, monitor: Monitor | None = None) -> VoteSource:
        """Returns the votes of the ensemble, which `prepare` has trained: its folder keeps them."""
        folder = self._ensemble_folder(bench)
        streams = RandomStreams.of_run(folder.training_secret, bench.ensemble_seed)
        ensemble = Ensemble.train(
            self.teacher,
            bench.dataset,
            self._partition(bench),
            num_queries=bench.num_queries,
            seeds=streams.seeds("teachers", self._shape(bench).num_teachers),
            engine=bench.engine,
            folder=folder,
            monitor=monitor or Monitor(),
        )
        return ensemble.vote()

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the aggregator with its noise. The votes that it reads are counted once for all seeds."""
        # The steps are those of `pate.run.train.train`.
        # 1. The price.
        priced = self.priced(budget, bench, parameters)
        # 2. The votes of the teachers, which `prepare` has trained: read when the first seed is tried.
        votes = cache(lambda: self.votes(bench))

        def train(seed: int) -> Trained:
            # 3. The release. Nobody is shown it but the owner: no ledger is charged.
            release = self.release(priced, bench, votes(), seed)
            # 4. The student.
            model = self.student.learn(
                release.training_set(bench.queries.inputs),
                pool=bench.pool,
                seed=RandomStreams(seed).seed("student"),
            )
            return Trained(
                model,
                num_answered=release.num_answered,
                label_accuracy=bench.label_accuracy(release.labels, release.answered),
            )

        return Contender(
            epsilon=priced.epsilon,
            parameters=parameters or priced.solved_for,
            train=train,
            refusal=lambda: self._refusal(priced, budget, bench),
        )

    def priced(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> PricedRelease:
        """Returns the planned release at a budget, or with parameters that were solved for before."""
        aggregator = self.aggregator
        if parameters is not None:
            aggregator = replace(aggregator, **parameters)
            budget = replace(budget, epsilon=None)
        return plan_release(aggregator, self._shape(bench), budget)

    def release(self, priced: PricedRelease, bench: Bench, votes: VoteSource, seed: int) -> Release:
        """Returns the release for a seed. No ledger is charged: a comparison is for the owner of the records alone."""
        streams = RandomStreams(seed)
        prior = StudentPrior(
            student=self.student,
            inputs=bench.queries.inputs,
            seed=streams.seed("student"),
            never_empty=priced.aggregator.never_empty,
        )
        aggregator = priced.aggregator.with_prior(prior)
        return aggregator.release(votes, streams.generator("noise"), MemoryRecord())

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields the student of the majority of the teachers, where they vote for single labels."""
        if issubclass(self.teacher.gives, CountableVotes):
            columns = self._ensemble_columns(bench)
            columns["student"] = kind(bench.student)
            yield Reference(
                name="majority_vote_student",
                train=partial(self._majority_student, bench),
                identity=[
                    bench.num_queries,
                    full_text(bench.student),
                    self._ensemble_name(bench),
                ],
                columns=columns,
            )

    def _majority_student(self, bench: Bench, seed: int) -> Trained:
        """Trains the comparison's student on the labels that most teachers vote for."""
        votes = self.votes(bench)
        return bench.student_of_labels(2 * votes.counts() > votes.num_teachers, seed)

    def _ensemble_folder(self, bench: Bench) -> EnsembleFolder:
        """Returns the folder of the ensemble that all methods with the same teachers share."""
        path = bench.folder / "ensembles" / self._ensemble_name(bench)
        return EnsembleFolder(make_folder(path, within=bench.folder))

    def _partition(self, bench: Bench) -> Partition:
        folder = self._ensemble_folder(bench)
        streams = RandomStreams.of_run(folder.training_secret, bench.ensemble_seed)
        return deal(
            bench.dataset.private,
            self._shape(bench).num_teachers,
            folder.partition,
            streams.generator("partition"),
        )

    def _refusal(self, priced: PricedRelease, budget: Budget, bench: Bench) -> str:
        """Returns why the release would tell nothing, as `require_useful` says it; empty where it tells something.

        It is judged with as many teachers as there are parts of the records whose influence is bounded one by one.
        """
        groups = bench.dataset.private.num_groups
        num_protected = self.teacher.num_protected(priced.shape.num_teachers, groups)
        doubted = replace(priced, shape=replace(priced.shape, num_teachers=num_protected))
        try:
            require_useful(self.aggregator, doubted, budget, num_groups=groups, search=_SEARCH)
        except InvalidValue as error:
            return comparison_of(self.name).line(error)
        return ""

    def _shape(self, bench: Bench) -> VoteShape:
        return VoteShape(
            num_queries=bench.num_queries,
            num_labels=bench.dataset.num_labels,
            num_teachers=self.num_teachers or bench.dataset.private.num_groups,
        )

    def _ensemble_name(self, bench: Bench) -> str:
        """Returns the name of the ensemble's folder, equal for equal ensembles only."""
        num_teachers = self._shape(bench).num_teachers
        identity = [
            full_text(self.teacher),
            num_teachers,
            bench.ensemble_seed,
            bench.num_queries,
        ]
        return f"{kind(self.teacher)}-{num_teachers}-{digest(identity)}"

    def _ensemble_columns(self, bench: Bench) -> dict[str, Any]:
        return {"teacher": kind(self.teacher), "num_teachers": self._shape(bench).num_teachers}
