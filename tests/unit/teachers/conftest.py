import numpy as np
import pytest

from pate.teachers import Shard


def draw_parts(sizes, num_features=12, num_labels=5, seed=0):
    """Parts whose labels depend linearly on the inputs, with prevalences from rare to frequent."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((num_features, num_labels))
    offsets = np.linspace(-5, 1, num_labels)
    parts = []
    for size in sizes:
        inputs = rng.standard_normal((size, num_features)).astype(np.float32)
        noise = rng.standard_normal((size, num_labels))
        parts.append(Shard(inputs, inputs @ directions + offsets + noise > 0))
    return parts


@pytest.fixture(scope="session")
def parts():
    return draw_parts([30, 22, 41, 5, 30, 17])


@pytest.fixture(scope="session")
def queries():
    return np.random.default_rng(9).standard_normal((50, 12)).astype(np.float32)


@pytest.fixture(scope="session")
def make_parts():
    return draw_parts
