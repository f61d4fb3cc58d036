"""Configurations composed as a command composes them, but without one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from pate.config import CONFIG_FOLDER, register_configs
from pate.config.loader import FileGuard

Composed = Callable[..., DictConfig]


@pytest.fixture
def composed() -> Iterator[Composed]:
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield lambda *words, app="train", **given: compose(app, list(words), **given)


@contextmanager
def with_files(folder: Path, texts: dict[str, str], *allowed: str) -> Iterator[None]:
    """Hydra as a command has it that was given a folder, with these YAML files in it."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)
    register_configs(allowed=allowed)
    path = create_config_search_path(str(CONFIG_FOLDER))
    path.append("command-line", str(folder))
    path.get_path().append(path.get_path().pop(-2))  # schemas are the last
    GlobalHydra.instance().initialize(Hydra("test", FileGuard(path)))
    yield
    GlobalHydra.instance().clear()
