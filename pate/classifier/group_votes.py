"""The plan of a fit without estimators, which votes as `pate-train experiment=centered_votes` does.

By default each private group votes with its own records, along directions of the public pool and components of a kernel
that public inputs determine. The votes are summed with noise in 20 rounds, or at once with fewer than 200 teachers, at
the price of one release. Plan, price and votes are those of `pate.run.plan` and `pate.models`, so equal records and
seeds give the release of `pate-train`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pate.accounting import Adjacency, PrivacyUnit
from pate.aggregators import CenteredVotes, Release
from pate.array_types import Float32Array
from pate.classifier.fit_plan import FitPlan
from pate.classifier.frames import encode_records
from pate.classifier.held_out import FitScores, HeldOutRecords
from pate.classifier.inputs import dense
from pate.classifier.label_models import Model, OneClassModel
from pate.classifier.publication import FitFacts, FitPrice, Publication
from pate.classifier.tasks import OneClass
from pate.data import Dataset, Split, TableSchema
from pate.data.partition import Partition
from pate.data.table.column import Encoded
from pate.data.table.table_dataset import remarks_on_lost_columns
from pate.models import KernelTeacher, LowRankStudent, SequentialEngine
from pate.models.student_model import Predictor, StudentModel
from pate.pricing import PricedRelease
from pate.progress import Monitor
from pate.run.plan import Plan, price_release
from pate.run.plan_warnings import uneven_inputs_doubts
from pate.run.score_release import ScorePrice
from pate.validation import InvalidValue
from pate.votes.label_gaps import UNKNOWN, GapLabels
from pate.votes.source import VoteSource

# Two settings of conf/experiment/centered_votes.yaml and conf/aggregator/centered_votes.yaml, which
# tests/config/test_classifier.py compares with these. The search for the noise begins at the multiplier, and the last
# bits of its result depend on where it begins.
_FIRST_NOISE_MULTIPLIER = 5.0
_PREVALENCE_SHARE = 0.05
# The distance between the ids of two splits, as in files of arrays.
_SPLIT_ID_STEP = 2**48


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class GroupVotesPlan(FitPlan):
    """The plan of a fit without estimators, whose teachers vote without training.

    By default there is one teacher for each private group. With 200 teachers or more, votes are released in rounds.

    Attributes:
        adjacency: the neighboring relation of data sets that the price is for.
        num_queries: the number of public samples whose labels are released, from the first; None for the default of
            `pate-train`. The student learns from all public samples in any case.
        label_names: the name of each label, public.
        classes_from_labels: whether the names of classes were read from private labels and may reveal one.
        classes_are_stated: whether the names of classes were passed to the classifier, as public.
        table_schema: encodes the rows of DataFrames as numbers; None if the inputs are arrays.
        public_labels: the labels of the first public samples, from which the student starts,
            `[num_labeled, num_labels]`, bool, or int8 if they have gaps; None for none.
        held_out_records: the private test records, with the epsilon of the student's scores on them; None for no
            scores.
    """

    adjacency: Adjacency
    num_queries: int | None
    label_names: tuple[str, ...]
    classes_from_labels: bool
    classes_are_stated: bool
    table_schema: TableSchema | None
    public_labels: GapLabels | None = None
    held_out_records: HeldOutRecords | None = None

    @property
    def schema(self) -> TableSchema | None:
        """The schema that turns rows of DataFrames into numbers; None if the inputs are arrays."""
        return self.table_schema

    @cached_property
    def dataset(self) -> Dataset:
        """The private records and the public samples as a data set of `pate-train`.

        Its test set has the private test records; without them, a placeholder that nothing reads.
        """
        public_split = self._public_set()
        return Dataset(
            name="arrays" if self.schema is None else "table",
            real=True,
            kind="features",
            label_names=self.label_names,
            private=Split(
                inputs=self._encoded_records.features,
                labels=self.data_pools.private_targets,
                record_ids=np.arange(len(self.data_pools.private_targets)),
                group_ids=self.data_pools.private_group_ids,
                known=self.data_pools.known_label_mask,
            ),
            public=public_split,
            test=self._test_set(num_features=public_split.inputs.shape[1]),
            preprocessing=self.schema,
        )

    @cached_property
    def run_plan(self) -> Plan:
        """The plan of `pate-train` with the settings of `experiment=centered_votes`, without a folder and a ledger."""
        aggregator = CenteredVotes(
            noise_multiplier=_FIRST_NOISE_MULTIPLIER,
            prevalence_share=_PREVALENCE_SHARE,
            adjacency=self.adjacency,
        )
        run_plan = Plan(
            load_dataset=lambda: self.dataset,
            teacher=KernelTeacher(),
            num_teachers=self.num_teachers,
            num_public_labels=None if self.public_labels is None else len(self.public_labels),
            engine=SequentialEngine(),
            student=LowRankStudent(),
            aggregator=aggregator,
            target_epsilon=self.budget.epsilon,
            target_delta=self.budget.delta,
            accountant=self.budget.accountant,
            allow_useless=self.allow_useless,
            score_epsilon=None
            if self.held_out_records is None
            else self.held_out_records.score_epsilon,
        )
        if self.num_queries is not None:
            run_plan = replace(run_plan, num_queries=self.num_queries)
        return run_plan.for_dataset(self.dataset, Monitor())

    @property
    def student_recipe(self) -> LowRankStudent:
        """The recipe of the student, whose weights are the released numbers."""
        assert isinstance(self.run_plan.student, LowRankStudent)
        return self.run_plan.student

    @property
    def query_inputs(self) -> Float32Array:
        """The inputs of the queries, `[num_queries, num_features]`."""
        return self.dataset.public.inputs[: self.run_plan.num_queries]

    @property
    def pool_inputs(self) -> Float32Array:
        """The inputs of all public samples that are no queries, `[num_others, num_features]`."""
        return self.dataset.public.inputs[self.run_plan.num_queries :]

    def price(self) -> PricedRelease:
        """Checks the plan, solves for the noise, and returns the priced release; see `pate.run.plan.price_release`.

        If inputs are an array with a column far wider than the others, the result has a doubt, a warning for the user,
        because directions of the public pool follow the widest column. With one of eight Gaussian columns made 100
        times as wide, accuracy fell from 98% to 58% (2,000 records, three labels, epsilon 8).

        Raises:
            InvalidValue: all public samples are alike; or no noise meets the budget; or the release would be useless,
                and `allow_useless` is False.
        """
        public_inputs = self.dataset.public.inputs
        if (public_inputs == public_inputs[0]).all():
            raise InvalidValue("X_public", "all alike", rule="at least two different samples")
        is_one_each = self.num_teachers == self.data_pools.num_groups
        priced_release = price_release(
            self.run_plan,
            dataset=self.dataset,
            monitor=Monitor(),
            noun_for_voters="private groups" if is_one_each else "teachers",
        )
        if self.schema is not None:
            return priced_release
        doubts = uneven_inputs_doubts(linear_parts_in_words="votes", public_inputs=public_inputs)
        return replace(priced_release, doubts=(*priced_release.doubts, *doubts))

    def vote(
        self, priced_release: PricedRelease, partition: Partition, *, seeds: list[int]
    ) -> VoteSource:
        """Returns the votes of the teachers, which are computed from their records when the release asks for them.

        Args:
            priced_release: the priced release.
            partition: the assignment of private records to teachers.
            seeds: the seeds of the teachers, which are not used: their votes are not random.
        """
        return self.run_plan.teacher.votes_of(
            self.dataset, partition, priced_release.shape.num_queries
        )

    def price_scores(self, unit: PrivacyUnit) -> FitScores | None:
        """Returns the student's scores on private test records, priced and not drawn; None if none are released.

        Args:
            unit: the unit of privacy among the test records.
        """
        score_price = ScorePrice.of_plan(self.run_plan, dataset=self.dataset)
        if score_price is None or self.held_out_records is None:
            return None
        return FitScores(
            score_price=replace(score_price, unit=unit),
            held_out_records=self.held_out_records,
            dataset=self.dataset,
            num_queries=self.run_plan.num_queries,
        )

    def publication(self, model: Model, release: Release, fit_price: FitPrice) -> Publication:
        """Returns all that a fit may publish: the release, its price, the student and public facts.

        Args:
            model: the result of `fitted_model`.
            release: the drawn release.
            fit_price: the price of the release.
        """
        student = model.student if isinstance(model, OneClassModel) else model
        assert isinstance(student, StudentModel)  # as LowRankStudent trains it
        has_teacher_per_group = self.num_teachers == self.data_pools.num_groups
        fit_facts = FitFacts(
            aggregator_name="centered_votes",
            teacher_recipe=self.run_plan.teacher,
            num_teachers=None if has_teacher_per_group else self.num_teachers,
            student_recipe=self.run_plan.student,
            label_names=self.label_names,
            one_class=isinstance(self.label_task, OneClass),
            classes_from_labels=self.classes_from_labels,
            classes_are_stated=self.classes_are_stated,
            labels_have_gaps=self.data_pools.known_label_mask is not None,
            num_public_labels=self.run_plan.num_public_labels,
            data_name=self.dataset.name,
            dataset_class_path="pate.data.Arrays" if self.schema is None else "pate.data.Table",
            preprocessing=self.schema,
        )
        return Publication(
            release=release, fit_price=fit_price, student=student, fit_facts=fit_facts
        )

    def fitted_model(self, student: Predictor) -> Model:
        """Returns the trained student; if each sample has one class, wrapped so that it predicts one class."""
        return OneClassModel(student) if isinstance(self.label_task, OneClass) else student

    def remarks(self) -> Iterator[str]:
        """Yields a remark for each column of a DataFrame whose private cells are all missing or unknown to `schema`.

        With fewer than 100 private records there are no remarks.
        """
        if self.schema is not None:
            encoded_records = self._encoded_records
            yield from remarks_on_lost_columns(
                "X",
                self.schema.columns,
                encoded_records.num_unknown_and_missing,
                num_records=len(encoded_records.features),
            )

    def _public_set(self) -> Split:
        """Returns the public samples, with the labels at which the student begins, if there are any.

        The labels of samples behind the first labeled ones are 0, count as known, and are not read. Of the labeled
        ones, the result says which labels are known.
        """
        inputs = self._encode(self.data_pools.public_inputs, name="X_public").features
        labels = np.zeros((len(inputs), self.label_task.num_labels), np.bool_)
        known_label_mask = None
        if self.public_labels is not None:
            num_labeled = len(self.public_labels)
            labels[:num_labeled] = self.public_labels == 1
            known_label_mask = np.ones_like(labels)
            known_label_mask[:num_labeled] = self.public_labels != UNKNOWN
        return Split(
            inputs=inputs,
            labels=labels,
            record_ids=np.arange(len(inputs)) + _SPLIT_ID_STEP,
            group_ids=self.data_pools.public_group_ids + _SPLIT_ID_STEP,
            known=known_label_mask,
        )

    def _test_set(self, num_features: int) -> Split:
        """Returns the private test records; a placeholder, one sample of zeros, if there are none.

        Without test records, no step of a fit reads the test set.
        """
        first_id = 2 * _SPLIT_ID_STEP
        held_out_records = self.held_out_records
        if held_out_records is None:
            only_id = np.array([first_id])
            return Split(
                inputs=np.zeros((1, num_features), np.float32),
                labels=np.zeros((1, self.label_task.num_labels), np.bool_),
                record_ids=only_id,
                group_ids=only_id,
            )
        return Split(
            inputs=self._encode(held_out_records.inputs, name="X_test").features,
            labels=held_out_records.targets,
            record_ids=np.arange(len(held_out_records.targets)) + first_id,
            group_ids=held_out_records.group_ids + first_id,
            known=held_out_records.known_label_mask,
        )

    @cached_property
    def _encoded_records(self) -> Encoded:
        """The features of the private records, and how many of their cells have a value that no public row has."""
        return self._encode(self.data_pools.private_inputs, name="X")

    def _encode(self, inputs: Any, name: str) -> Encoded:
        """Returns inputs as features, float32 `[num_rows, num_features]`; a sparse matrix becomes dense as a whole.

        For a DataFrame, the result also counts the cells whose value no public row has.

        Args:
            inputs: an array, a sparse matrix or a DataFrame.
            name: the name of the parameter that holds the inputs, for errors.
        """
        if self.schema is not None:
            return encode_records(frame=inputs, schema=self.schema, name=name)
        return Encoded(
            features=np.asarray(dense(inputs), np.float32),
            wrong=np.zeros(0, np.bool_),
            num_unknown_and_missing=np.zeros((0, 2), np.int64),
        )
