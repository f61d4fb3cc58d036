import numpy as np
import pytest


def draw_rows(size, num_features=15, num_labels=6, seed=0):
    """Inputs and labels that depend on them, from frequent to rare."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(99).standard_normal((num_features, num_labels))
    inputs = rng.standard_normal((size, num_features)).astype(np.float32)
    noise = rng.standard_normal((size, num_labels))
    return inputs, inputs @ directions + np.linspace(1, -6, num_labels) + noise > 0


@pytest.fixture(scope="session")
def make_rows():
    return draw_rows


@pytest.fixture(scope="session")
def rows():
    return draw_rows(120)


@pytest.fixture(scope="session")
def held_out():
    return draw_rows(1000, seed=1)
