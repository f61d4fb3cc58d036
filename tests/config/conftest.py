"""Composes configurations as the commands do, without calling a command."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from pate.config import CONFIG_FOLDER, register_configs
from tests.e2e.commands import Arguments

Composed = Callable[..., DictConfig]


@pytest.fixture
def composed() -> Iterator[Composed]:
    """Yields a function that composes the configuration of a command of the core package."""
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):

        def compose_command(
            arguments: Arguments = (), command: str = "train", *, return_hydra_config: bool = False
        ) -> DictConfig:
            """Composes the configuration of `pate-COMMAND` with these settings from the command line."""
            return compose(command, list(arguments), return_hydra_config=return_hydra_config)

        yield compose_command


@contextmanager
def with_files(
    folder: Path, texts: dict[str, str], allowed_targets: Sequence[str] = ()
) -> Iterator[None]:
    """Writes YAML files into a folder, and initializes Hydra with it as for a command with `--config-dir`.

    Args:
        folder: the folder of the configuration files.
        texts: the content of each file by its path in the folder, without `.yaml`.
        allowed_targets: the packages that `_target_` may name, as in `allowed_targets=`.
    """
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)
    register_configs(allowed_targets=allowed_targets, config_folders=[folder])
    try:
        with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
            yield
    finally:
        register_configs()
