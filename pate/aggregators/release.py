"""Releases: the answers that an aggregator publishes, with their price.

A `Release` may be published as a whole, except for one without noise (`Aggregator.noiseless_from`). A student learns
from its `TrainingSet`. Subclasses hold more than labels: the scores of centered votes, or the hits of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, AutoAccountant, Event
from pate.accounting.accountant import abbreviated
from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.files.arrays import ArrayForm, read_arrays, write_arrays
from pate.files.paths import make_folder
from pate.files.reading import FROM_BACKUP, damaged

REMEDY = f"{FROM_BACKUP}: it was charged and drawn, and drawing it again costs its price again"


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PublicNames:
    """The names of queries and labels, which are public and do not change a release.

    Attributes:
        record_ids: integers or strings `[num_queries]`, the name of each query.
        label_names: the name of each label.
    """

    record_ids: NDArray[Any]
    label_names: tuple[str, ...]

    FORMS: ClassVar[dict[str, ArrayForm]] = {
        "record_ids": ArrayForm(dtype_kinds="iuU", shape=(None,)),
        "label_names": ArrayForm(dtype_kinds="U", shape=(None,)),
    }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the names as arrays by field name, for an .npz file."""
        return {"record_ids": self.record_ids, "label_names": np.array(self.label_names, np.str_)}


@dataclass(frozen=True, repr=False)
class Release:
    """The outcome of aggregating the votes on Q queries.

    >>> from pate.accounting import GaussianEvent
    >>> labels = np.ones((200, 4), dtype=bool)
    >>> release = Release(labels, labels[:, 0], GaussianEvent(2.0), Adjacency.REPLACE_ONE)
    >>> release
    Release(num_queries=200, num_answered=200, num_labels=4, event=GaussianEvent(noise_multiplier=2.0), \
adjacency=replace_one)
    >>> round(release.get_epsilon(1e-6), 2)
    2.25

    Attributes:
        labels: bool `[Q, L]`; rows of refused queries are all False and carry no answer.
        answered: bool `[Q]`.
        event: the price: independent of the votes, of the generator and of which queries were refused.
        adjacency: the relation of neighbors that the event is priced for.
    """

    labels: BoolArray
    answered: BoolArray
    event: Event
    adjacency: Adjacency

    _FORMS: ClassVar[dict[str, ArrayForm]] = {
        "labels": ArrayForm(dtype_kinds="b", shape=(None, None)),
        "answered": ArrayForm(dtype_kinds="b", shape=(None,)),
    }
    # The forms of fields that are arrays in some releases, and None in others.
    _OPTIONAL_FORMS: ClassVar[dict[str, ArrayForm]] = {}

    def __repr__(self) -> str:
        """Returns one line with the sizes of the release in place of its arrays."""
        texts = {
            "num_queries": self.num_queries,
            "num_answered": self.num_answered,
            "num_labels": self.labels.shape[1],
            "event": abbreviated(repr(self.event)),
            "adjacency": self.adjacency,
        }
        for dataclass_field in fields(self):
            field_value = getattr(self, dataclass_field.name)
            if dataclass_field.name in ("labels", "answered", "event", "adjacency"):
                continue
            is_array = isinstance(field_value, np.ndarray) and field_value.ndim > 0
            texts[dataclass_field.name] = (
                f"{field_value.dtype}{list(field_value.shape)}" if is_array else field_value
            )
        field_texts = [f"{name}={text}" for name, text in texts.items()]
        return f"{type(self).__name__}({', '.join(field_texts)})"

    def get_epsilon(
        self, target_delta: float, *, accountant: Callable[[], Accountant] = AutoAccountant
    ) -> float:
        """Returns an upper bound on the epsilon of this release alone, at `target_delta`, for its adjacency.

        A ledger or an accountant adds up the prices of several releases.

        Args:
            target_delta: the delta of the guarantee, in (0, 1).
            accountant: a function without arguments that returns an empty accountant.
        """
        return accountant().compose(self.event).get_epsilon(target_delta)

    @property
    def num_queries(self) -> int:
        """The number of queries, answered or refused."""
        return len(self.answered)

    @property
    def num_answered(self) -> int:
        """The number of answered queries."""
        return int(self.answered.sum())

    def training_set(self, inputs: Float32Array) -> TrainingSet:
        """Returns the answered queries as data for a student, given the inputs of all queries, `[num_queries, ...]`."""
        return TrainingSet(inputs=inputs[self.answered], labels=self.labels[self.answered])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the published arrays by field name, for an .npz file."""
        arrays = {field_name: np.asarray(getattr(self, field_name)) for field_name in self._FORMS}
        for field_name in self._OPTIONAL_FORMS:
            array = getattr(self, field_name)
            if array is not None:
                arrays[field_name] = np.asarray(array)
        return arrays

    def save(self, path: str | PathLike[str], *, names: PublicNames | None = None) -> None:
        """Writes the published arrays to an .npz file; equal releases give equal bytes.

        Args:
            path: the file to write.
            names: the names of queries and labels, which are written too; None to leave them out.
        """
        path = Path(path)
        make_folder(path.parent, existing_parent=path.parent.parent)
        arrays = self.arrays()
        if names is not None:
            arrays |= names.arrays()
        write_arrays(path, **arrays)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        event: Event,
        adjacency: Adjacency,
        **other_fields: Any,
    ) -> Self:
        """Returns the release in a file that `save` of the same class wrote.

        Args:
            path: the file. It holds the arrays, but not the next two arguments and the other fields.
            event: the price of the release.
            adjacency: the adjacency that the event is priced for.
            **other_fields: the fields of a subclass that are no arrays, by name, such as `target_hits` of a
                `ChargedRelease`.

        Raises:
            DamagedFile: the file is no release of this class.
        """
        path = Path(path)
        arrays = read_arrays(
            path,
            forms=cls._FORMS,
            remedy=REMEDY,
            optional_forms=PublicNames.FORMS | cls._OPTIONAL_FORMS,
        )
        own_forms = cls._FORMS | cls._OPTIONAL_FORMS
        arrays = {name: arrays[name] for name in own_forms if name in arrays}
        # Of the arrays that every release of the class has, all but numbers and the weights of a student have a row for
        # each query. All matrices have a column for each label.
        names_by_query = [name for name in cls._FORMS if name != "student"]
        row_counts = {len(arrays[name]) for name in names_by_query if arrays[name].ndim}
        column_counts = {array.shape[1] for array in arrays.values() if array.ndim == 2}
        if len(row_counts) != 1 or len(column_counts) != 1:
            raise damaged(
                path,
                rule="arrays of one length",
                finding=f"{sorted(row_counts)} and {sorted(column_counts)}",
                remedy=REMEDY,
            )
        return cls.from_arrays(arrays, event=event, adjacency=adjacency, **other_fields)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        *,
        event: Event,
        adjacency: Adjacency,
        **other_fields: Any,
    ) -> Self:
        """Returns a release with these arrays.

        Args:
            arrays: the published arrays by field name.
            event: the price of the release.
            adjacency: the adjacency that the event is priced for.
            **other_fields: the fields of a subclass that are no arrays, by name.
        """
        array_fields = {
            name: array if array.ndim else array.item() for name, array in arrays.items()
        }
        return cls(event=event, adjacency=adjacency, **array_fields, **other_fields)


@dataclass(frozen=True, repr=False)
class ChargedRelease(Release):
    """A release of a session under target charging; every field may be published.

    Attributes:
        hits: bool `[num_queries]`, True for the queries that were hits; each uses up one of `target_hits`.
        num_asked: the number of queries up to and including the hit at which the session halted; all later queries are
            refused. It is `num_queries` for a session that did not halt.
        target_hits: the number of hits after which the session halts.
    """

    hits: BoolArray
    num_asked: int
    target_hits: int

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "hits": ArrayForm(dtype_kinds="b", shape=(None,)),
        "num_asked": ArrayForm(dtype_kinds="iu", shape=()),
    }

    @property
    def num_hits(self) -> int:
        """The number of hits: the queries that each used up one of `target_hits`."""
        return int(self.hits.sum())

    @property
    def remaining_hits(self) -> int:
        """The number of hits that the session had left when its queries ended."""
        return self.target_hits - self.num_hits

    @property
    def num_abstained(self) -> int:
        """The number of hits that were not answered."""
        return int((self.hits & ~self.answered).sum())
