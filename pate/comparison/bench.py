"""The bench of a comparison: the data, queries, training engine and student that all methods of a comparison share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from pate.aggregators import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.comparison.trained import Reference, Trained, recipe_kind
from pate.data import Dataset, Split
from pate.files.digests import unabridged_repr
from pate.models import Engine, Student
from pate.run.ceiling import ceiling_recipes, train_on_all_records
from pate.run.random_streams import RandomStreams
from pate.validation import require

# The data set that this process has read, by its digest.
_DATASET_BY_DIGEST: dict[str, Dataset] = {}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The data, queries, engine and student that all methods of a comparison share.

    A bench holds no data, so it can be sent to worker processes, each of which reads the data itself.

    Attributes:
        load_dataset: reads the data set; called at most once in every process.
        digest: the digest of the data set; a process that reads other data raises an error.
        num_queries: the number of queries Q, which are the first Q samples of the public pool.
        engine: trains the teachers.
        student_recipe: the recipe for students without privacy, such as the student of the true labels.
        ensemble_seed: the seed of partitions, teachers and models without privacy.
        folder: the folder of the comparison.
    """

    load_dataset: Callable[[], Dataset]
    digest: str
    num_queries: int
    engine: Engine
    student_recipe: Student
    ensemble_seed: int
    folder: Path

    @classmethod
    def for_dataset(
        cls,
        dataset: Dataset,
        *,
        load_dataset: Callable[[], Dataset],
        num_queries: int,
        engine: Engine,
        student_recipe: Student,
        ensemble_seed: int,
        folder: Path,
    ) -> Self:
        """Returns the bench for a data set that this process has already read; arguments are the class's fields."""
        dataset_digest = dataset.digest()
        _DATASET_BY_DIGEST.clear()
        _DATASET_BY_DIGEST[dataset_digest] = dataset
        return cls(
            load_dataset=load_dataset,
            digest=dataset_digest,
            num_queries=num_queries,
            engine=engine,
            student_recipe=student_recipe,
            ensemble_seed=ensemble_seed,
            folder=folder,
        )

    @property
    def dataset(self) -> Dataset:
        """The data set, which each process reads once.

        Raises `InvalidValue` if the data differ from those with which the comparison began.
        """
        if self.digest not in _DATASET_BY_DIGEST:
            dataset = self.load_dataset()
            dataset_digest = dataset.digest()
            rule = "the data that this comparison began with"
            require(dataset_digest == self.digest, "data", dataset_digest[:12], rule=rule)
            _DATASET_BY_DIGEST[dataset_digest] = dataset
        return _DATASET_BY_DIGEST[self.digest]

    @property
    def queries(self) -> Split:
        """The public samples that are the queries."""
        return self.dataset.public.take(slice(0, self.num_queries))

    @property
    def pool(self) -> Float32Array:
        """The inputs of the public samples that are no queries, from which a student may learn without labels."""
        return self.dataset.public.take(slice(self.num_queries, None)).inputs

    def label_accuracy(self, released_labels: BoolArray, is_answered: BoolArray) -> float | None:
        """Returns the fraction of correct bits in the answers, among bits whose true label is known.

        Returns None if no query was answered, or if the answered queries have no known true labels.

        Args:
            released_labels: the released labels, `[Q, L]`.
            is_answered: True for an answered query, `[Q]`.
        """
        if not (is_answered.any() and self.dataset.public_labeled):
            return None
        is_correct = (released_labels == self.queries.labels)[is_answered]
        if self.queries.known is not None:
            is_correct = is_correct[self.queries.known[is_answered]]
        return float(is_correct.mean()) if is_correct.size > 0 else None

    def student_of_labels(
        self, labels_without_privacy: BoolArray, seed: int, is_known: BoolArray | None = None
    ) -> Trained:
        """Trains the student of the comparison on labels of all queries, without privacy.

        Args:
            labels_without_privacy: the labels of the queries, `[Q, L]`.
            seed: the seed of the training.
            is_known: whether each label is known, `[Q, L]`; None where all are.
        """
        model = self.student_recipe.learn(
            TrainingSet(self.queries.inputs, labels_without_privacy, known=is_known),
            pool=self.pool,
            seed=RandomStreams(seed).seed("student"),
        )
        is_answered = np.ones(len(labels_without_privacy), dtype=np.bool_)
        return Trained(
            model,
            num_answered=len(labels_without_privacy),
            label_accuracy=self.label_accuracy(labels_without_privacy, is_answered=is_answered),
        )

    def true_label_student(self, seed: int) -> Trained:
        """Trains the student of the comparison on the known true labels of the queries, without privacy."""
        return self.student_of_labels(self.queries.labels, seed=seed, is_known=self.queries.known)

    def ceiling(self, reference_name: str) -> Reference:
        """Returns, as a reference, the best of a few models that are trained on all private records without privacy.

        Args:
            reference_name: the name of the reference in tables.
        """
        student_recipes = ceiling_recipes(self.student_recipe)
        cell_by_column = {"student": " or ".join(map(recipe_kind, student_recipes))}
        return Reference(
            name=reference_name,
            train=self.all_records_model,
            identity=[unabridged_repr(student_recipe) for student_recipe in student_recipes],
            columns=cell_by_column,
        )

    def all_records_model(self, seed: int) -> Trained:
        """Returns the best of a few models, trained on all private records and their true labels without privacy.

        Part of the records choose the best kind of model, which is then trained on all. If all inputs together hold
        more than 2**24 numbers, the first kind is taken; see `train_on_all_records`.
        """
        student_seed = RandomStreams(seed).seed("student")
        return Trained(
            train_on_all_records(
                self.student_recipe, records=self.dataset.private, seed=student_seed
            )
        )
