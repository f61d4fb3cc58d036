"""Composed configurations as plain values of Python."""

from __future__ import annotations

from typing import Any, cast

from omegaconf import DictConfig, OmegaConf


def plain_values(config: DictConfig, *, resolve: bool) -> dict[str, Any]:
    """Returns a configuration as nested dictionaries and lists.

    Args:
        config: the configuration, or a part of it.
        resolve: True puts values in the places of references such as `${target_delta}`; False leaves the references.
    """
    return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=resolve))
