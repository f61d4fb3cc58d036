import pytest
import torch

from pate.networks.device import DeviceFull, device_memory, one_thread, require_device
from pate.validation import InvalidValue


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
