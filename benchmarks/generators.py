"""Releases with secret noise (ChaCha20) next to the same releases with numpy's PCG64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.jobs import NUM_LABELS, NUM_TEACHERS, Job, aggregators
from pate.aggregators import CenteredVotes
from pate.mechanisms import cipher_generator

NUM_QUERIES = 600
_BLOCK_TEACHERS = 10
_NORMALS = 1_000_000


def generator_jobs() -> list[Job]:
    """Returns jobs of milliseconds, whose ratio is the cost of the cipher."""
    votes = np.random.default_rng(0).integers(
        0, NUM_TEACHERS + 1, size=(NUM_QUERIES, NUM_LABELS), dtype=np.uint16
    )
    jobs = [
        _beside(
            f"{name}, {NUM_QUERIES} x {NUM_LABELS}",
            release=lambda rng, aggregator=aggregator: aggregator.aggregate(
                votes, num_teachers=NUM_TEACHERS, rng=rng
            ),
        )
        for name, aggregator in aggregators().items()
    ]
    centered = CenteredVotes(noise_multiplier=1.0, center=0.5, prevalence_share=0.0)
    confidences = np.random.default_rng(0).random((_BLOCK_TEACHERS, NUM_QUERIES, NUM_LABELS))
    return [
        *jobs,
        _beside(
            f"CenteredVotes, {NUM_QUERIES} x {NUM_LABELS}",
            release=lambda rng: centered.aggregate(
                confidences, num_teachers=_BLOCK_TEACHERS, rng=rng
            ),
        ),
        _beside(
            name="1,000,000 standard normals", release=lambda rng: rng.standard_normal(_NORMALS)
        ),
        _beside(
            name="1,000,000 words of 64 bits",
            release=lambda rng: rng.integers(2**64, size=_NORMALS, dtype=np.uint64),
        ),
    ]


def _beside(name: str, release: Callable[[np.random.Generator], object]) -> Job:
    cipher = cipher_generator(bytes(32))
    pcg = np.random.default_rng(1)
    return Job(
        name=f"{name}, ChaCha20",
        run=lambda: release(cipher),
        floor=lambda: release(pcg),
        floor_name="the same by PCG64",
        left_out="a generator that nobody can solve for",
    )
