"""Configurations composed as a command composes them, but without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from pate.config import CONFIG_FOLDER, register_configs


@pytest.fixture
def composed() -> Iterator[Callable[..., DictConfig]]:
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield lambda *words, app="train", **given: compose(app, list(words), **given)
