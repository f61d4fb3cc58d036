"""Aggregates votes of another PATE project: arrays, torch tensors, or batches of confidences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pate.accounting import AutoAccountant
from pate.aggregators import PowersetGNMax, StableTopK
from pate.mechanisms import secret_generator

NUM_TEACHERS = 200
NUM_QUERIES = 150
NUM_LABELS = 6
SHAPE = {"num_queries": NUM_QUERIES, "num_labels": NUM_LABELS, "num_teachers": NUM_TEACHERS}
TARGET = {"target_epsilon": 8.0, "target_delta": 1e-6}


def batches_of_votes() -> Iterator[np.ndarray]:
    """Yields votes bool `[10, Q, L]`, as teachers that are queried ten at a time would give."""
    rng = np.random.default_rng(0)
    true = rng.random((NUM_QUERIES, NUM_LABELS)) < 0.3
    for _ in range(NUM_TEACHERS // 10):
        yield rng.random((10, NUM_QUERIES, NUM_LABELS)) < np.where(true, 0.95, 0.03)


# The noise for a budget is solved for before there are any votes.
aggregator = StableTopK(selection_scale=1.0, test="table", table_order=4.0, table_budget=0.01)
aggregator = aggregator.calibrated(**TARGET, **SHAPE)

# 1. Batches: only counts are kept, integers [Q, L].
counts = sum(batch.sum(axis=0) for batch in batches_of_votes())
release = aggregator.aggregate(counts, num_teachers=NUM_TEACHERS, rng=secret_generator())
epsilon = AutoAccountant().compose(release.event).get_epsilon(target_delta=1e-6)
print(f"batches: {release.num_answered} of {NUM_QUERIES} answered at epsilon {epsilon:.2f}")

# 2. A torch tensor of counts goes in as it is; on a GPU, .cpu() comes first.
try:
    import torch
except ImportError:
    print("tensor: torch is not installed")
else:
    tensor = torch.from_numpy(counts)
    release = aggregator.aggregate(tensor, num_teachers=NUM_TEACHERS, rng=secret_generator())
    print(
        f"tensor: labels for a student {tuple(torch.from_numpy(release.labels[release.answered]).shape[1:])}"
    )

# 3. Aggregators that read what each teacher says take the batches themselves, one after the other.
powerset = PowersetGNMax(noise_std=1.0).calibrated(**TARGET, **SHAPE)
release = powerset.aggregate(batches_of_votes(), num_teachers=NUM_TEACHERS, rng=secret_generator())
print(f"each teacher: {release.num_answered} of {NUM_QUERIES} answered")
