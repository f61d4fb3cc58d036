"""Shards: the private records of each teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pate.array_types import BoolArray, Float32Array
from pate.device import torch
from pate.files.array_rows import take_rows
from pate.validation import require, require_array, require_features

if TYPE_CHECKING:
    from pate.data import Partition


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class Shard:
    """The private records of one teacher.

    The constructor raises `InvalidValue` if there is no record, if the labels are not bits `[n, num_labels]` for n
    records, if `known` has another shape, or if an input is not in [-1e12, 1e12].

    Attributes:
        inputs: `[n, …]`, one entry for each record.
        labels: bool `[n, num_labels]`; False where they are unknown.
        known: which labels are known, bool `[n, num_labels]`; None if all are.
    """

    inputs: Float32Array
    labels: BoolArray
    known: BoolArray | None = None

    def __post_init__(self) -> None:
        require_features("inputs", self.inputs)
        require_array("labels", self.labels, dtype_kinds=None)
        require(len(self) > 0, "len(inputs)", len(self), "at least one record per teacher")
        require(self.labels.dtype == np.bool_, "labels.dtype", self.labels.dtype, "bool")
        fits = self.labels.ndim == 2 and len(self.labels) == len(self) and self.labels.shape[1] > 0
        require(fits, "labels.shape", self.labels.shape, f"[{len(self)}, num_labels]")
        if self.known is not None:
            rule = f"{self.labels.shape}, as labels"
            require(self.known.shape == self.labels.shape, "known.shape", self.known.shape, rule)

    def __len__(self) -> int:
        return len(self.inputs)


class Shards(Protocol):
    """The private records of all teachers, by the index of the teacher.

    An engine reads the records of a few teachers at a time.
    """

    def __getitem__(self, teacher_index: int, /) -> Shard:
        """Returns the records of the teacher with this index."""


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PartitionedRecords:
    """Records with a partition into shards; the records of a shard are read when the shard is requested.

    Attributes:
        inputs: `[n, …]`, one entry for each record; they may be on a disk.
        labels: bool `[n, num_labels]`.
        partition: the assignment of records to shards.
        known: which labels are known, bool `[n, num_labels]`; None if all are.
    """

    inputs: Float32Array
    labels: BoolArray
    partition: Partition
    known: BoolArray | None = None

    def __getitem__(self, teacher_index: int) -> Shard:
        record_rows = self.partition.indices(teacher_index)
        return Shard(
            inputs=take_rows(array=self.inputs, rows=record_rows),
            labels=self.labels[record_rows],
            known=None if self.known is None else self.known[record_rows],
        )


def targets_of(shard: Shard) -> Float32Array:
    """Returns the labels of a shard as 0 or 1, and as NaN where they are unknown, `[n, num_labels]`."""
    targets = shard.labels.astype(np.float32)
    if shard.known is not None:
        targets[~shard.known] = np.nan
    return targets


def require_shards(shards: Sequence[Shard], *, seeds: Sequence[int]) -> None:
    """Raises `InvalidValue` unless there is a shard, each has a seed, and all inputs have one shape.

    It is also raised unless all shards have the same number of labels. The numbers of records may differ.
    """
    require(len(shards) > 0, "len(shards)", len(shards), "at least one shard")
    rule = f"{len(shards)}, one for each shard"
    require(len(seeds) == len(shards), "len(seeds)", len(seeds), rule)
    expected_shape = shards[0].inputs.shape[1:]
    num_labels = shards[0].labels.shape[1]
    for shard in shards:
        shard_shape = shard.inputs.shape[1:]
        require(
            shard_shape == expected_shape,
            "inputs.shape[1:]",
            shard_shape,
            f"{expected_shape} in every shard",
        )
        shard_num_labels = shard.labels.shape[1]
        rule = f"{num_labels} in every shard"
        require(shard_num_labels == num_labels, "labels.shape[1]", shard_num_labels, rule)


def as_rows(inputs: Float32Array) -> Float32Array:
    """Returns the inputs of n >= 0 records, flattened to float32 `[n, num_features]`."""
    return np.asarray(inputs, np.float32).reshape(len(inputs), int(np.prod(inputs.shape[1:])))


class PaddedBatch:
    """Several shards as tensors on a device, padded with zeros to n records, the number of the largest shard.

    Attributes:
        inputs: the flattened inputs, `[num_shards, n, num_features]`.
        labels: the label bits as 0 or 1, `[num_shards, n, num_labels]`.
        record_mask: 1 for a record and 0 for padding, `[num_shards, n, 1]`.
        known_label_mask: 1 for a known label and 0 for an unknown one or padding, `[num_shards, n, num_labels]`; None
            if `known` is None in all shards.
        sizes: the number of records of each shard, `[num_shards, 1, 1]`.
    """

    def __init__(
        self, shards: Sequence[Shard], *, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Copies the records of shards to a device.

        Args:
            shards: the records of each teacher.
            device: the device of the tensors.
            dtype: the type of their numbers.
        """
        most_records = max(map(len, shards))
        num_features = int(np.prod(shards[0].inputs.shape[1:]))
        padded_inputs = np.zeros((len(shards), most_records, num_features), np.float32)
        label_bits_of_shards = np.zeros(
            (len(shards), most_records, shards[0].labels.shape[1]), np.bool_
        )
        for row, shard in enumerate(shards):
            padded_inputs[row, : len(shard)] = as_rows(shard.inputs)
            label_bits_of_shards[row, : len(shard)] = shard.labels
        shard_sizes = torch.tensor([len(shard) for shard in shards], device=device)
        is_record = torch.arange(most_records, device=device) < shard_sizes[:, None]
        self.inputs = torch.from_numpy(padded_inputs).to(device, dtype)
        self.labels = torch.from_numpy(label_bits_of_shards).to(device, dtype)
        self.record_mask = is_record.to(dtype)[..., None]
        self.known_label_mask = None
        if any(shard.known is not None for shard in shards):
            known_masks_of_shards = np.zeros(label_bits_of_shards.shape, np.bool_)
            for row, shard in enumerate(shards):
                known_masks_of_shards[row, : len(shard)] = (
                    True if shard.known is None else shard.known
                )
            self.known_label_mask = torch.from_numpy(known_masks_of_shards).to(device, dtype)
        self.sizes = shard_sizes.to(dtype)[:, None, None]

    def mean_over_records(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the mean over the records of each shard, `[num_shards, 1, num_columns]`.

        Args:
            values: numbers `[num_shards, n, num_columns]`, which must be 0 for padding.
        """
        return values.sum(dim=1, keepdim=True) / self.sizes
