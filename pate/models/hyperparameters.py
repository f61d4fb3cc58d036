"""Checks of hyper-parameters that several models and engines share, by the name of the hyper-parameter."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from pate.device import require_device
from pate.validation import (
    require,
    require_choice,
    require_count,
    require_non_negative,
    require_positive,
)

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
"""The values of `precision`: the type of the products inside a network."""
NORMS = ("group", "batch")
"""The values of `norm`: the way in which the layers of a network are normalized."""
# The hyper-parameters that are whole numbers >= 1.
_COUNT_SETTINGS = (
    "hidden",
    "epochs",
    "batch_size",
    "chunk_size",
    "num_workers",
    "max_in_flight",
    "width",
    "patch",
    "grid",
    "kernel_size",
    "image_size",
    "num_directions",
    "rank",
)


def _require_count_or_zero(setting_name: str, setting_value: Any) -> None:
    require_count(setting_name, setting_value, minimum=0)


def _require_folds(setting_name: str, setting_value: Any) -> None:
    require_count(setting_name, setting_value, minimum=2)


def _require_precision(setting_name: str, setting_value: Any) -> None:
    require_choice(setting_name, setting_value, choices=PRECISIONS)


def _require_norm(setting_name: str, setting_value: Any) -> None:
    require_choice(setting_name, setting_value, choices=NORMS)


def _require_device(setting_name: str, setting_value: Any) -> None:
    require_device(setting_value)


# The check of each hyper-parameter, by its name.
_CHECKS: dict[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(_COUNT_SETTINGS, require_count),
    **dict.fromkeys(
        ("blocks", "max_unlabeled", "max_deaths", "max_retries"), _require_count_or_zero
    ),
    "folds": _require_folds,
    **dict.fromkeys(("learning_rate", "penalty", "labels_per_sample"), require_positive),
    **dict.fromkeys(("weight_decay", "num_cpus", "num_gpus"), require_non_negative),
    "precision": _require_precision,
    "norm": _require_norm,
    "device": _require_device,
}


def require_settings(settings_object: Any) -> None:
    """Raises `InvalidValue` if a field of a dataclass object is outside of its range.

    The range depends on the field's name alone: `epochs` is a whole number >= 1 in every class, for example. Fields
    whose names have no range are not checked. None is allowed for a field whose default is None.
    """
    for field in fields(settings_object):
        setting_value = getattr(settings_object, field.name)
        is_default_none = setting_value is None and field.default is None
        if field.name in _CHECKS and not is_default_none:
            _CHECKS[field.name](field.name, setting_value)


def require_penalties(penalties: Any) -> None:
    """Raises `InvalidValue` unless `penalties` is a list or tuple of at least one number, each > 0."""
    is_list = isinstance(penalties, (tuple, list)) and len(penalties) > 0
    require(is_list, "penalties", penalties, "a list of numbers > 0")
    for penalty in penalties:
        require_positive("penalties", penalty)
