import numpy as np
import pytest
import torch

from pate.networks.training import StackedAdamW

RATE, DECAY = 0.1, 0.2


def walk(steps, active=None, scale=1.0):
    """Two parts of five numbers after some steps; each step's gradients are drawn from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    parameter = torch.randn(2, 5, generator=generator)
    optimizer = StackedAdamW([parameter], learning_rate=RATE, weight_decay=DECAY)
    for step in range(steps):
        gradient = torch.randn(2, 5, generator=generator) * 10.0 ** (-step)
        moving = torch.ones(2, 1, dtype=torch.bool) if active is None else active[step]
        optimizer.step([gradient], moving, scale)
    return parameter


def by_torch(steps, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    parameter = torch.randn(2, 5, generator=generator)
    optimizer = torch.optim.AdamW([parameter], lr=RATE * scale, weight_decay=DECAY)
    for step in range(steps):
        parameter.grad = torch.randn(2, 5, generator=generator) * 10.0 ** (-step)
        optimizer.step()
    return parameter


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_equals_torchs_own(scale):
    wanted = by_torch(6, scale)
    np.testing.assert_allclose(walk(6, scale=scale), wanted, atol=1e-6)
    each = torch.full((2, 1), scale)
    np.testing.assert_allclose(walk(6, scale=each), wanted, atol=1e-6)  # with a rate for each part


def test_a_part_that_rests_stays_and_the_other_does_not_notice():
    both, first = torch.tensor([[True], [True]]), torch.tensor([[True], [False]])
    found = walk(4, [both, both, first, first])
    np.testing.assert_allclose(found[0], by_torch(4)[0], atol=1e-6)
    np.testing.assert_array_equal(found[1], walk(2)[1])
