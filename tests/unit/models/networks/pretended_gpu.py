"""A simulated GPU for tests on machines without one: its tensors report the device `cuda` and compute on the CPU.

Arithmetic that mixes these tensors with tensors of the CPU raises an error, as on a real GPU. So code for a GPU is
tested from end to end: it fails with an array on the wrong device, or with one that NumPy reads without `.cpu()`.
Copies between the devices, and single numbers and indices on the CPU, are accepted. Speed, memory and rounding are
those of the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_AUTOCAST = torch.autocast
_COPY_OPERATIONS = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
_INDEX_OPERATION = torch.ops.aten.index.Tensor  # may take its indices from the CPU
_READ_OF_ONE_NUMBER = torch.ops.aten._local_scalar_dense.default
_ADAMW_OPERATION = torch.ops.aten._fused_adamw_.default


@contextmanager
def pretended_gpu(capability: tuple[int, int] = (9, 0)) -> Iterator[None]:
    """Simulates a GPU of a compute capability during a `with` block."""
    properties = mock.Mock(major=capability[0], minor=capability[1])
    with (
        mock.patch.multiple(
            torch.cuda,
            is_available=mock.Mock(return_value=True),
            current_device=mock.Mock(return_value=0),
            get_device_capability=mock.Mock(return_value=capability),
            get_device_properties=mock.Mock(return_value=properties),
            _lazy_init=mock.Mock(return_value=None),
        ),
        mock.patch.object(torch, "autocast", _autocast),
        _Calls(),
        _Pretending(),
    ):
        yield


class OnGpu(torch.Tensor):
    """A tensor of the simulated GPU, whose numbers are in `cpu_tensor`, a tensor of the CPU."""

    cpu_tensor: torch.Tensor
    device = property(lambda self: GPU)
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, cpu_tensor: torch.Tensor) -> OnGpu:
        tensor: OnGpu = torch.Tensor._make_wrapper_subclass(
            cls,
            cpu_tensor.size(),
            strides=cpu_tensor.stride(),
            storage_offset=cpu_tensor.storage_offset(),
            dtype=cpu_tensor.dtype,
        )
        tensor.cpu_tensor = cpu_tensor
        return tensor

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run_on_cpu(function, args, kwargs or {})


class _Pretending(TorchDispatchMode):
    """A mode of torch in which `_run_on_cpu` computes each operation, also one without a tensor of the GPU."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run_on_cpu(function, args, kwargs or {})


class _Calls(TorchFunctionMode):
    """A mode of torch that handles calls which torch would answer before `_Pretending` sees them, as `Tensor.cpu`."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        args, kwargs = tree_map(_with_gpu_number, (args, kwargs or {}))
        if function is torch.tensor and kwargs.get("device") == GPU:
            return torch.tensor(*args, **(kwargs | {"device": None})).to(GPU)
        if isinstance(args[0] if args else None, OnGpu) and (
            function is torch.Tensor.cpu or _CPU in args[1:]
        ):
            return args[0].cpu_tensor.clone()
        return function(*args, **kwargs)


def _with_gpu_number(value: Any) -> Any:
    """Returns `cuda:0` for the device `cuda`, as a torch without CUDA cannot find the current GPU.

    Other values are returned as they are.
    """
    device = value if isinstance(value, str | torch.device) else None
    return GPU if device is not None and str(device).partition(":")[0] == "cuda" else value


def _run_on_cpu(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Computes an operation on the CPU; the result is on the GPU if an operand or the requested device is."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    gpu_tensors = [tensor for tensor in tensors if isinstance(tensor, OnGpu)]
    _require_one_device(function, tensors=tensors, gpu_tensors=gpu_tensors, operands=args)
    # torch itself asks for "cpu" for what is made from `OnGpu`
    on_gpu = bool(gpu_tensors) or kwargs.get("device") == GPU
    if kwargs.get("device") is not None:
        kwargs = kwargs | {"device": _CPU}
    result = function(*tree_map(_cpu_value, args), **tree_map(_cpu_value, kwargs))
    # An operation in place returns one of its operands.
    gpu_tensors_by_id = {id(tensor.cpu_tensor): tensor for tensor in gpu_tensors}

    def move_to_gpu(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not on_gpu:
            return value
        return gpu_tensors_by_id[id(value)] if id(value) in gpu_tensors_by_id else OnGpu(value)

    return result if function is _READ_OF_ONE_NUMBER else tree_map(move_to_gpu, result)


def _autocast(device_type: str, **settings: Any) -> torch.autocast:
    """Returns the autocast of the CPU in place of the GPU's, and one without effect in place of the CPU's."""
    if device_type == "cpu":
        settings["enabled"] = False
    return _AUTOCAST("cpu", **settings)


def _cpu_value(value: Any) -> Any:
    """Returns the tensor of the CPU that a tensor of the simulated GPU holds, and returns other values as they are."""
    return value.cpu_tensor if isinstance(value, OnGpu) else value


def _require_one_device(
    function: Any,
    *,
    tensors: list[torch.Tensor],
    gpu_tensors: list[OnGpu],
    operands: Any,
) -> None:
    """Raises RuntimeError if an operation mixes tensors of both devices, as CUDA does.

    Copies may mix them. Indices and single numbers may come from the CPU, but no number in the fused step of AdamW,
    which also needs parameters, gradients and averages of equal shape, strides and type.
    """
    if function is _ADAMW_OPERATION:
        for group in zip(*operands[:4], strict=True):
            if len({(tensor.size(), tensor.stride(), tensor.dtype) for tensor in group}) != 1:
                raise RuntimeError(
                    "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout"
                )
    if not gpu_tensors or function in _COPY_OPERATIONS or function is _INDEX_OPERATION:
        return
    if any(
        not isinstance(tensor, OnGpu) and (tensor.ndim or function is _ADAMW_OPERATION)
        for tensor in tensors
    ):
        raise RuntimeError(f"Expected all tensors to be on the same device ({function})")
