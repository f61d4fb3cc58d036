"""The optimizer, and the device that it works on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pate.networks.device import DeviceFull, device_memory, one_thread, require_device
from pate.networks.network import StackedAdamW
from pate.validation import InvalidValue

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


def test_auto_takes_the_gpu_where_there_is_one():
    assert require_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert require_device("cpu").type == "cpu"


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert require_device("auto").type == "cpu"
    with pytest.raises(InvalidValue, match="device=cuda: expected a GPU that torch can use"):
        require_device("cuda")


def test_one_thread_is_undone_also_after_an_error():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError, match="inside"), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError("inside")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_full_gpu_is_said_in_one_line_and_other_faults_are_not_touched():
    said = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.79 GiB. See documentation"
    line = r"^CUDA out of memory\. Tried to allocate 2\.00 GiB \(a smaller chunk takes less\)$"
    with pytest.raises(DeviceFull, match=line), device_memory("a smaller chunk takes less"):
        raise torch.cuda.OutOfMemoryError(said)
    with pytest.raises(RuntimeError, match="no kernel"), device_memory("a smaller chunk takes less"):
        raise RuntimeError("no kernel")
