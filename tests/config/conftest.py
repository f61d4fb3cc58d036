"""Configurations composed as a command composes them, but without one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from pate.config import CONFIG_FOLDER, register_configs

Composed = Callable[..., DictConfig]


@pytest.fixture
def composed() -> Iterator[Composed]:
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield lambda *words, app="train", **given: compose(app, list(words), **given)


@contextmanager
def with_files(folder: Path, texts: dict[str, str], *allowed: str) -> Iterator[None]:
    """Initializes Hydra as a command does that is given a folder with the named YAML files."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)
    register_configs(allowed=allowed, folders=[folder])
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield
    register_configs()
