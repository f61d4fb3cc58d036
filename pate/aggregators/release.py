"""Releases: the labels that an aggregator releases, and their price.

A `Release` may be published whole. A student learns from its `TrainingSet`. Aggregators that release more than labels
have a subclass: scores of centered votes, hits of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, AutoAccountant, Event
from pate.accounting.accountant import abbreviated
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import FROM_BACKUP, damaged, make_folder, write_arrays
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

REMEDY = f"{FROM_BACKUP}: it was charged and drawn, and drawing it again costs its price again"


@dataclass(frozen=True, eq=False)
class NoisyScores:
    """Real numbers that were released for queries, and the noise that they carry.

    Attributes:
        values: float64 `[Q, L]`, scores minus the center.
        noise_std: standard deviation of the noise in each value.
        prevalence: float64 `[L]`, public or released.
        num_directions: of the public basis that the votes lie in; None where votes may be any numbers.
    """

    values: NDArray[np.float64]
    noise_std: float
    prevalence: NDArray[np.float64]
    num_directions: int | None = None


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """The data that a student learns from: public inputs, and the answers released for them.

    Attributes:
        inputs: float32 `[n, …]`, the answered queries.
        labels: bool `[n, L]`.
        scores: of the same rows, where a release has them; a student may go by the labels alone.
        weights: `[D, L]`, where a release has them: logits on `PublicPCA.with_constant` of the directions of all
            public inputs.
        recipe: the constants by which scores or weights were released.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.bool_]
    scores: NoisyScores | None = None
    weights: NDArray[np.float64] | None = None
    recipe: Recipe = DEFAULT_RECIPE


class Answers(NamedTuple):
    """The outcome of a draw: the labels that hold, and the queries that are answered at all.

    Attributes:
        labels: bool `[Q, L]`, all False where a query is not answered.
        answered: bool `[Q]`.
    """

    labels: NDArray[np.bool_]
    answered: NDArray[np.bool_]

    @classmethod
    def to_all(cls, labels: NDArray[np.bool_]) -> Self:
        """Returns the answers of an aggregator that answers every query."""
        return cls(labels, np.ones(len(labels), dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class PublicNames:
    """The names of queries and labels; public, and without influence on a release.

    Attributes:
        record_ids: `[Q]`, whole numbers or texts.
        label_names: `[L]`, texts.
    """

    record_ids: NDArray[Any]
    label_names: tuple[str, ...]

    FORMS: ClassVar[dict[str, ArrayForm]] = {
        "record_ids": ArrayForm("iuU", (None,)),
        "label_names": ArrayForm("U", (None,)),
    }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the names as a file holds them."""
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

    labels: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    event: Event
    adjacency: Adjacency

    _FORMS: ClassVar[dict[str, ArrayForm]] = {
        "labels": ArrayForm("b", (None, None)),
        "answered": ArrayForm("b", (None,)),
    }

    def __repr__(self) -> str:
        """The counts and shapes in one line, in place of the arrays."""
        texts = {
            "num_queries": self.num_queries,
            "num_answered": self.num_answered,
            "num_labels": self.labels.shape[1],
            "event": abbreviated(repr(self.event)),
            "adjacency": self.adjacency,
        }
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("labels", "answered", "event", "adjacency"):
                continue
            is_array = isinstance(value, np.ndarray) and value.ndim > 0
            texts[item.name] = f"{value.dtype}{list(value.shape)}" if is_array else value
        parts = [f"{name}={text}" for name, text in texts.items()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def get_epsilon(
        self, target_delta: float, *, accountant: Callable[[], Accountant] = AutoAccountant
    ) -> float:
        """Computes the epsilon of this release alone at `target_delta`, an upper bound for its adjacency.

        A ledger or an accountant adds up several releases.
        """
        return accountant().compose(self.event).get_epsilon(target_delta)

    @property
    def num_queries(self) -> int:
        """The number of queries that were asked."""
        return len(self.answered)

    @property
    def num_answered(self) -> int:
        """The number of queries that were answered."""
        return int(self.answered.sum())

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        """Returns the data that a student learns from, given the inputs of the queries `[Q, …]`."""
        return TrainingSet(inputs[self.answered], self.labels[self.answered])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays of a file of the release, by the names of the fields."""
        return {name: np.asarray(getattr(self, name)) for name in self._FORMS}

    def save(self, path: str | PathLike[str], *, names: PublicNames | None = None) -> None:
        """Writes all that was released, and names of queries and labels, to an .npz file.

        Equal releases give equal bytes.
        """
        path = Path(path)
        make_folder(path.parent, within=path.parent.parent)
        arrays = self.arrays()
        if names is not None:
            arrays |= names.arrays()
        write_arrays(path, **arrays)

    @classmethod
    def load(cls, path: str | PathLike[str], *, event: Event, adjacency: Adjacency) -> Self:
        """Reads a file that `save` wrote; the price, which no file holds, comes from the caller.

        Raises `DamagedFile` for a file of anything else.
        """
        path = Path(path)
        arrays = read_arrays(path, cls._FORMS, remedy=REMEDY, beside=PublicNames.FORMS)
        arrays = {name: arrays[name] for name in cls._FORMS}
        lengths = {len(array) for name, array in arrays.items() if array.ndim and name != "student"}
        widths = {array.shape[1] for array in arrays.values() if array.ndim == 2}
        if len(lengths) != 1 or len(widths) != 1:
            raise damaged(
                path, "arrays of one length", f"{sorted(lengths)} and {sorted(widths)}", REMEDY
            )
        return cls.from_arrays(arrays, event=event, adjacency=adjacency)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        *,
        event: Event,
        adjacency: Adjacency,
        **other_fields: Any,
    ) -> Self:
        """Returns the release with these arrays, by the names of the fields, and with fields that no file holds."""
        values = {name: array if array.ndim else array.item() for name, array in arrays.items()}
        return cls(event=event, adjacency=adjacency, **values, **other_fields)


@dataclass(frozen=True, repr=False)
class ChargedRelease(Release):
    """A release under target charging; all of it may be published.

    Attributes:
        hits: bool `[Q]`, the queries that were paid for.
        num_asked: queries until the session halted; later ones are refused unasked.
        target_hits: hits after which the session halts.
    """

    hits: NDArray[np.bool_]
    num_asked: int
    target_hits: int

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "hits": ArrayForm("b", (None,)),
        "num_asked": ArrayForm("iu", ()),
    }

    @property
    def num_hits(self) -> int:
        """The number of queries that were paid for."""
        return int(self.hits.sum())

    @property
    def remaining_hits(self) -> int:
        """The number of further hits that would have halted the session."""
        return self.target_hits - self.num_hits

    @property
    def num_abstained(self) -> int:
        """The number of hits without an answer."""
        return int((self.hits & ~self.answered).sum())
