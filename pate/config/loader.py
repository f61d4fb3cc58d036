"""What no file may say: settings that choose which code runs, or where private records go, are the command line's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import Any

import hydra._internal.hydra
import omegaconf._utils
import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf

from pate.config.location import CONFIG_FOLDER, FILE_COMMANDS
from pate.files.plain_yaml import plain_loader
from pate.validation import InvalidValue

_OURS = (f"file://{CONFIG_FOLDER}", f"file://{FILE_COMMANDS}", "pkg://hydra.conf", "structured://")
_PLUGINS = "pkg://hydra_plugins."
_HERE = (None, "auto", "local")


class FileGuard(ConfigLoaderImpl):
    """Hydra's loader, which refuses files that say what is the command line's alone.

    Files are all but those of this package, of Hydra and of its plugins. They may not set

    * `hydra`: callbacks, launchers, sweepers, loggers and environment variables in it are code that Hydra runs;
    * `allowed_targets`: it says which modules are loaded;
    * `engine.address`, but auto and local: private records are sent there, and what it answers is unpickled.

    Each file is judged as it lies in the whole configuration, whatever `@package` it names, before Hydra uses any.
    """

    def _load_single_config(self, default: Any, repo: Any) -> ConfigResult:
        loaded = super()._load_single_config(default, repo)
        _require_harmless(loaded, default.config_path)
        return loaded

    def _process_config_searchpath(self, config_name: str | None, parsed_overrides: Any, repo: Any) -> None:
        primary = None if config_name is None else repo.load_config(config_path=config_name)
        if config_name is not None and primary is not None:
            _require_harmless(primary, config_name)
        super()._process_config_searchpath(config_name, parsed_overrides, repo)


@contextmanager
def guarded_files() -> Iterator[None]:
    """Hydra's apps that start meanwhile compose through `FileGuard`, in the processes of launchers too.

    A file that is no settings is refused by its name: Hydra lets the errors of whoever reads it through, as they come.
    """
    load = ConfigRepository.load_config

    def named(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
        try:
            return load(repository, config_path)
        except (yaml.YAMLError, ValueError, OSError, AssertionError, RecursionError) as error:
            source = repository._find_object_source(config_path, ObjectType.CONFIG)
            file = config_path if source is None else f"{source.path.removeprefix('file://')}/{config_path}.yaml"
            raise InvalidValue(f"file={file}: expected settings in YAML ({_reason(error)})") from error

    with _put(hydra._internal.hydra, "ConfigLoaderImpl", FileGuard), _put(ConfigRepository, "load_config", named):
        yield


def _reason(error: Exception) -> str:
    """What is wrong with a file, and in which line, where who read it says so."""
    if isinstance(error, yaml.MarkedYAMLError):
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        return f"{line}{error.problem or error.context}"
    if isinstance(error, RecursionError):
        return "values within values, too deep"
    return " ".join(str(error).split()) or "defaults are names, or NAME: MEMBER"


@contextmanager
def plain_files() -> Iterator[None]:
    """Files of settings are read by `plain_loader` meanwhile: a short one takes little memory and time."""
    loader = omegaconf._utils.get_yaml_loader
    with _put(omegaconf._utils, "get_yaml_loader", lambda: plain_loader(loader())):
        yield


@contextmanager
def quick_start(words: Sequence[str]) -> Iterator[None]:
    """Hydra's apps that start meanwhile leave out what takes long and tells nothing.

    * The list of all groups for `--help`: ours are listed with what they are.
    * Composing everything once only to read `hydra.mode`, which the command line alone can set.

    Args:
        words: of the command line.
    """
    app = hydra._internal.hydra.Hydra
    needless = [("format_config_groups", "", "--hydra-help"), ("get_mode", None, "hydra.mode")]
    with ExitStack() as stack:
        for name, answer, unless in needless:
            if not any(unless in word for word in words):
                stack.enter_context(_put(app, name, lambda *_, _answer=answer, **__: _answer))
        yield


@contextmanager
def _put(place: Any, name: str, value: Any) -> Iterator[None]:
    """Puts a value in the place of an attribute meanwhile; `unittest.mock` would load asyncio for that."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def _require_harmless(loaded: ConfigResult, name: str) -> None:
    """Raises `InvalidValue` where a file that is not ours says what none may."""
    path = PurePath(name)
    inside = not path.is_absolute() and ".." not in path.parts
    if inside and (loaded.path in _OURS or loaded.path.startswith(_PLUGINS)):
        return
    content = OmegaConf.to_container(loaded.config, resolve=False)
    if not isinstance(content, dict):
        return
    file = f"{loaded.path.removeprefix('file://')}/{name}.yaml"
    rule = f"expected it on the command line alone, found it in {file}"
    if "hydra" in content:
        inner = content["hydra"]
        key = f"hydra.{min(map(str, inner))}" if isinstance(inner, dict) and inner else "hydra"
        raise InvalidValue(f"{key}: {rule}: what it names is code that Hydra runs")
    if allowed := content.get("allowed_targets"):
        shown = ",".join(map(str, allowed)) if isinstance(allowed, list) else allowed
        raise InvalidValue(f"allowed_targets=[{shown}]: {rule}: it says which modules may be loaded")
    engine = content.get("engine")
    if isinstance(engine, dict) and (address := engine.get("address")) not in _HERE:
        raise InvalidValue(f"engine.address={address}: {rule}: private records are sent there")
