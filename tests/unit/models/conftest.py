"""Random inputs with frequent and rare labels, which are true where a noisy linear function of inputs is above 0."""

from typing import NamedTuple

import numpy as np
import pytest

from pate.models import Shard


def draw_shards(sizes, num_features=12, num_labels=5, seed=0):
    """Draws shards with rare to frequent labels, which are true where a noisy linear function of inputs is above 0."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((num_features, num_labels))
    offsets = np.linspace(-5, 1, num_labels)
    shards = []
    for size in sizes:
        inputs = rng.standard_normal((size, num_features)).astype(np.float32)
        noise = rng.standard_normal((size, num_labels))
        shards.append(Shard(inputs=inputs, labels=inputs @ directions + offsets + noise > 0))
    return shards


@pytest.fixture(scope="session")
def shards():
    """Returns six shards of 5 to 41 records, with 12 features and 5 labels."""
    return draw_shards(sizes=[30, 22, 41, 5, 30, 17])


@pytest.fixture(scope="session")
def queries():
    """Returns 50 inputs of 12 features."""
    return np.random.default_rng(9).standard_normal((50, 12)).astype(np.float32)


@pytest.fixture(scope="session")
def make_shards():
    """Returns a function that draws shards, one of each given size: see `draw_shards`."""
    return draw_shards


class Sample(NamedTuple):
    """Inputs, `[num_rows, num_features]`, and their labels, `[num_rows, num_labels]`."""

    inputs: np.ndarray
    labels: np.ndarray


def draw_rows(size, num_features=15, num_labels=6, seed=0):
    """Draws inputs, and labels that depend on them, from frequent to rare labels."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(99).standard_normal((num_features, num_labels))
    inputs = rng.standard_normal((size, num_features)).astype(np.float32)
    noise = rng.standard_normal((size, num_labels))
    return Sample(inputs, labels=inputs @ directions + np.linspace(1, -6, num_labels) + noise > 0)


@pytest.fixture(scope="session")
def make_rows():
    """Returns the function `draw_rows`."""
    return draw_rows


@pytest.fixture(scope="session")
def rows():
    """Returns 120 inputs of 15 features, with their 6 labels."""
    return draw_rows(size=120)


@pytest.fixture(scope="session")
def held_out():
    """Returns 1,000 other inputs of 15 features, with their 6 labels."""
    return draw_rows(size=1000, seed=1)
