"""PATE as a method of a comparison: an aggregator, an ensemble of teachers, and a student."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from pate.accounting import Budget
from pate.aggregators import Aggregator, MemoryRecord, Release
from pate.comparison.bench import Bench
from pate.comparison.method import Contender, Method
from pate.comparison.trained import Reference, Trained, recipe_kind, require_plain_name
from pate.data import Partition
from pate.files.digests import digest, unabridged_repr
from pate.files.paths import make_folder
from pate.models import Student, Voter
from pate.pricing import PricedRelease, plan_release, require_useful
from pate.pricing.remedies import RemedySearch
from pate.progress import Monitor
from pate.run.compatibility import require_compatible, require_suitable
from pate.run.ensemble import Ensemble, training_progress
from pate.run.folder import EnsembleFolder
from pate.run.partition_manifest import draw_partition
from pate.run.plan_warnings import plan_warnings
from pate.run.random_streams import RandomStreams
from pate.run.student_prior import StudentPrior
from pate.setting_names import comparison_spelling
from pate.validation import InvalidValue, require_count
from pate.votes.shape import VoteShape
from pate.votes.source import CountableVotes, VoteSource

# The search for remedies of each method that is refused at a budget.
_REMEDY_SEARCH = RemedySearch(max_seconds=5.0)


@dataclass(frozen=True, kw_only=True)
class PATEMethod(Method):
    """The method that trains teachers, releases their votes by an aggregator, and trains a student on the answers.

    If the seed is equal to the seed of the ensemble, release and student are those of `pate-train seed=…`.

    Attributes:
        name: the name in all tables.
        aggregator: the aggregator, whose noise is replaced by the noise that meets the budget.
        teacher: the recipe for the teachers.
        num_teachers: the number of teachers, public; None for one teacher for each private group.
        student: the recipe for the student.
    """

    name: str
    aggregator: Aggregator
    teacher: Voter
    num_teachers: int | None
    student: Student

    def __post_init__(self) -> None:
        require_plain_name("aggregators", self.name)
        if self.num_teachers is not None or self.teacher.is_trained:
            # Trained teachers need a number: None is refused with the message for 0.
            require_count("teacher.num_teachers", self.num_teachers or 0)

    @property
    def key(self) -> str:
        """The name of the method, followed by @ and the number of teachers if that number is set."""
        return self.name if self.num_teachers is None else f"{self.name}@{self.num_teachers}"

    def columns(self, bench: Bench) -> dict[str, Any]:
        """Returns the cells of the method in comparison.csv: adjacency, teacher, num_teachers and student."""
        cell_by_column = self._kind_and_number_of_teachers(bench)
        cell_by_column["adjacency"] = str(self.aggregator.adjacency)
        cell_by_column["student"] = recipe_kind(self.student)
        return cell_by_column

    def identity(self, bench: Bench) -> list[Any]:
        """Returns the aggregator, the shape of its votes, the ensemble and the student, as plain values."""
        vote_shape = self._vote_shape(bench)
        return [
            self.aggregator.identity(vote_shape),
            vote_shape.num_queries,
            vote_shape.num_labels,
            vote_shape.num_teachers,
            self._ensemble_name(bench),
            unabridged_repr(self.student),
        ]

    def check(self, bench: Bench) -> None:
        """Raises `InvalidValue` if data, teacher, aggregator and student do not fit together."""
        require_compatible(self.teacher, self.aggregator)
        require_suitable(
            bench.dataset,
            teacher_recipe=self.teacher,
            aggregator=self.aggregator,
            student_recipe=self.student,
            num_teachers=self._vote_shape(bench).num_teachers,
            num_queries=bench.num_queries,
        )

    def warnings(self, bench: Bench) -> Iterator[str]:
        """Returns the warnings that `pate-train` prints for this teacher, aggregator and student."""
        return plan_warnings(
            bench.dataset,
            aggregator=self.aggregator,
            teacher_recipe=self.teacher,
            student_recipe=self.student,
            num_teachers=self._vote_shape(bench).num_teachers,
        )

    def prepare(self, bench: Bench, monitor: Monitor) -> None:
        """Trains the ensemble and computes its votes, once for all methods with the same teachers."""
        partition = self._partition(bench)
        progress_text = training_progress(
            self.teacher, partition=partition, ensemble_folder=self._ensemble_folder(bench)
        )
        if progress_text:
            monitor.say(f"output_dir={bench.folder}: {self.key}: {progress_text}")
        # This writes the votes into the ensemble's folder, where all methods find them.
        self.votes(bench, monitor)

    def votes(self, bench: Bench, monitor: Monitor | None = None) -> VoteSource:
        """Returns the votes of the ensemble, which are read from its folder if they are there.

        Otherwise teachers without a checkpoint in the folder are trained first, and the votes are kept in the folder.
        Teachers that need no training compute their votes from the private records each time.

        Args:
            bench: the data, queries and engine that all methods share.
            monitor: receives the progress of training and voting; None shows nothing.
        """
        ensemble_folder = self._ensemble_folder(bench)
        random_streams = RandomStreams.of_run(
            secret_file=ensemble_folder.training_secret, seed=bench.ensemble_seed
        )
        ensemble = Ensemble.train(
            self.teacher,
            bench.dataset,
            self._partition(bench),
            num_queries=bench.num_queries,
            seeds=random_streams.seeds("teachers", num_seeds=self._vote_shape(bench).num_teachers),
            engine=bench.engine,
            ensemble_folder=ensemble_folder,
            monitor=monitor or Monitor(),
        )
        return ensemble.vote()

    def at(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> Contender:
        """Returns the method with an aggregator whose noise meets a budget; see `Method.at`."""
        # The steps are those of `pate.run.train.train`.
        # 1. The price.
        priced_release = self.priced(budget, bench, parameters)
        # 2. The votes of the teachers, which `prepare` has trained: read when the first seed is tried.
        read_votes = cache(partial(self.votes, bench))

        def train_student(seed: int) -> Trained:
            """Draws the release of a seed, and trains the student on it."""
            # 3. The release. Nobody is shown it but the owner: no ledger is charged.
            vote_source = read_votes()
            release = self.release(priced_release, bench=bench, vote_source=vote_source, seed=seed)
            # 4. The student.
            student_model = self.student.learn(
                release.training_set(bench.queries.inputs),
                pool=bench.pool,
                seed=RandomStreams(seed).seed("student"),
            )
            return Trained(
                student_model,
                num_answered=release.num_answered,
                label_accuracy=bench.label_accuracy(release.labels, release.answered),
            )

        return Contender(
            epsilon=priced_release.epsilon,
            parameters=parameters or priced_release.solved_for,
            train=train_student,
            refusal=partial(self._refusal, priced_release, budget, bench),
        )

    def priced(
        self, budget: Budget, bench: Bench, parameters: Mapping[str, Any] | None = None
    ) -> PricedRelease:
        """Returns the release that meets a budget, with its price.

        With `parameters` it is the release with this noise, whose price may be above the budget.

        Args:
            budget: the budget, with an epsilon.
            bench: the data, queries and student that all methods share.
            parameters: the noise that an earlier call solved for, which is priced again; None to solve for it.
        """
        aggregator = self.aggregator
        if parameters is not None:
            aggregator = replace(aggregator, **parameters)
            budget = replace(budget, epsilon=None)
        return plan_release(aggregator, shape=self._vote_shape(bench), budget=budget)

    def release(
        self, priced_release: PricedRelease, bench: Bench, vote_source: VoteSource, seed: int
    ) -> Release:
        """Draws the release for a seed. No ledger is charged, as a comparison is for the owner of the data alone."""
        random_streams = RandomStreams(seed)
        student_prior = StudentPrior(
            student_recipe=self.student,
            inputs=bench.queries.inputs,
            seed=random_streams.seed("student"),
            never_empty=priced_release.aggregator.never_empty,
        )
        aggregator_with_prior = priced_release.aggregator.with_prior(student_prior)
        return aggregator_with_prior.release(
            vote_source, rng=random_streams.generator("noise"), record=MemoryRecord()
        )

    def references(self, bench: Bench) -> Iterator[Reference]:
        """Yields the student of the teachers' majority votes, without privacy; nothing if votes cannot be counted.

        Votes can be counted if they are `CountableVotes`, which those of kernel teachers are not.
        """
        if issubclass(self.teacher.gives, CountableVotes):
            cell_by_column = self._kind_and_number_of_teachers(bench)
            cell_by_column["student"] = recipe_kind(bench.student_recipe)
            yield Reference(
                name="majority_vote_student",
                train=partial(self._majority_student, bench),
                identity=[
                    bench.num_queries,
                    unabridged_repr(bench.student_recipe),
                    self._ensemble_name(bench),
                ],
                columns=cell_by_column,
            )

    def _majority_student(self, bench: Bench, seed: int) -> Trained:
        """Trains the student of the comparison on the majority labels of the queries, without privacy.

        These are the labels for which more than half of the teachers vote, without those that abstain.
        """
        countable_votes = self.votes(bench).require_type(CountableVotes)
        majority_labels = (
            2 * countable_votes.counts() + countable_votes.num_abstaining()
            > countable_votes.num_teachers
        )
        return bench.student_of_labels(majority_labels, seed=seed)

    def _ensemble_folder(self, bench: Bench) -> EnsembleFolder:
        """Returns the folder of this method's ensemble, which all methods with the same teachers share."""
        ensemble_folder = bench.folder / "ensembles" / self._ensemble_name(bench)
        return EnsembleFolder(make_folder(ensemble_folder, existing_parent=bench.folder))

    def _partition(self, bench: Bench) -> Partition:
        """Returns the assignment of private records to teachers; the first call writes it to the ensemble's folder."""
        ensemble_folder = self._ensemble_folder(bench)
        random_streams = RandomStreams.of_run(
            secret_file=ensemble_folder.training_secret, seed=bench.ensemble_seed
        )
        return draw_partition(
            bench.dataset.private,
            num_teachers=self._vote_shape(bench).num_teachers,
            partition_file=ensemble_folder.partition,
            rng=random_streams.generator("partition"),
        )

    def _refusal(self, priced_release: PricedRelease, budget: Budget, bench: Bench) -> str:
        """Returns the reason for which `require_useful` refuses the release; an empty string if it does not refuse it.

        It refuses a release whose noise would hide what teachers agree on, and any release at a delta of 0.01 or more.
        If each private group has a vote of its own, it takes the number of groups in place of the number of teachers.
        """
        num_groups = bench.dataset.private.num_groups
        num_protected_units = self.teacher.num_protected(
            priced_release.shape.num_teachers, num_groups=num_groups
        )
        shape_with_protected_units = replace(priced_release.shape, num_teachers=num_protected_units)
        protected_release = replace(priced_release, shape=shape_with_protected_units)
        try:
            require_useful(
                self.aggregator,
                priced_release=protected_release,
                budget=budget,
                num_groups=num_groups,
                search=_REMEDY_SEARCH,
            )
        except InvalidValue as error:
            return comparison_spelling(aggregator_name=self.name).error_line(error)
        return ""

    def _vote_shape(self, bench: Bench) -> VoteShape:
        """Returns the shape of the votes on the queries of the comparison."""
        return VoteShape(
            num_queries=bench.num_queries,
            num_labels=bench.dataset.num_labels,
            num_teachers=self.num_teachers or bench.dataset.private.num_groups,
        )

    def _ensemble_name(self, bench: Bench) -> str:
        """Returns the name of the ensemble's folder, equal for equal ensembles only.

        It depends on the teacher's settings, the numbers of teachers and queries, and the seed of the ensemble.
        """
        num_teachers = self._vote_shape(bench).num_teachers
        ensemble_settings = [
            unabridged_repr(self.teacher),
            num_teachers,
            bench.ensemble_seed,
            bench.num_queries,
        ]
        return f"{recipe_kind(self.teacher)}-{num_teachers}-{digest(ensemble_settings)}"

    def _kind_and_number_of_teachers(self, bench: Bench) -> dict[str, Any]:
        """Returns the cells of the ensemble in comparison.csv: the kind and the number of teachers."""
        num_teachers = self._vote_shape(bench).num_teachers
        return {"teacher": recipe_kind(self.teacher), "num_teachers": num_teachers}
