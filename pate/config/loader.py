"""Hydra's app as it is, with a loader that judges files.

Settings that choose which code runs, or where private records go, are the command line's: no file may say them.
"""

import copy
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

import yaml
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.utils import JobReturn
from hydra.errors import SearchPathException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from pate.config.build import parts_of_others
from pate.config.command_line import expand_home, require_choices
from pate.config.help_page import CONFIGURATION, folded, page_width, settings_of_parts
from pate.config.schema import CONFIG_FOLDER, FILE_COMMANDS, folder_of
from pate.files.plain_yaml import plain_loader
from pate.validation import InvalidValue

_OURS = (f"file://{CONFIG_FOLDER}", f"file://{FILE_COMMANDS}", "pkg://hydra.conf", "structured://")
_NO_SETTINGS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
# of readers, and of lists of defaults
_STRANGE = (yaml.YAMLError, ValueError, OSError, AssertionError, RecursionError)


def start(
    task: Callable[[DictConfig], Any],
    command: str,
    words: Sequence[str],
    chosen: Sequence[str] = (),
) -> list[Any]:
    """What `hydra.main` does with `sys.argv`, but for the loader and choices beside the words."""
    version.setbase("1.3")
    parser = get_args_parser()
    args = parser.parse_intermixed_args(words)
    path = create_config_search_path(
        os.path.abspath(os.path.expanduser(args.config_path or folder_of(command)))
    )
    if args.config_dir is not None:
        own = os.path.abspath(os.path.expanduser(args.config_dir))
        if not os.path.isdir(own):
            raise SearchPathException(f"Additional config directory '{own}' not found")
        path.prepend("command-line", f"file://{own}", SearchPathQuery(provider="schema"))
    hydra = Hydra(command, FileGuard(path))
    name = args.config_name or command
    words = [*args.overrides, *chosen]
    GlobalHydra.instance().initialize(hydra)
    jobs: list[JobReturn] = []
    try:
        if args.help:  # our pages list our groups, with what they are; to list all takes a while
            hydra.format_config_groups = lambda *_, **__: ""  # type: ignore[method-assign]
            print_help(hydra, name, parser, args)
        elif args.hydra_help:
            hydra.hydra_help(name, parser, args)
        elif args.cfg:
            hydra.show_cfg(name, words, args.cfg, args.package, args.resolve)
        elif args.shell_completion:
            hydra.shell_completion(name, words)
        elif args.info:
            hydra.show_info(args.info, name, words)
        elif args.multirun or any(word.lstrip("+") == "hydra.mode=MULTIRUN" for word in words):
            jobs = [
                job
                for jobs in hydra.multirun(name, task, [*words, "hydra.mode=MULTIRUN"])
                for job in jobs
            ]
        else:
            jobs = [hydra.run(name, task, [*words, "hydra.mode=RUN"])]
    finally:
        GlobalHydra.instance().clear()
        HydraConfig.instance().cfg = None  # of the last job
    return [job.return_value for job in jobs]


def print_help(hydra: Hydra, name: str, parser: ArgumentParser, args: Namespace) -> None:
    """Prints a command's help as wide as the terminal, with the settings of the parts that its words choose."""
    config = hydra.compose_config(
        config_name=name,
        overrides=args.overrides,
        run_mode=RunMode.RUN,
        with_log_configuration=True,
    )
    HydraConfig.instance().set_config(config)
    own = hydra.get_sanitized_cfg(copy.deepcopy(config), "job")
    page = hydra.get_help(config.hydra.help, own, parser, resolve=args.resolve)
    parts = settings_of_parts(own)
    if parts:
        page = page.replace(
            CONFIGURATION, f"\nSettings of the chosen parts\n{parts}\n{CONFIGURATION}", 1
        )
    sys.stdout.write(f"{folded(page, page_width())}\n")


class FileGuard(ConfigLoaderImpl):
    """Hydra's loader, which refuses files that say what is the command line's alone.

    Files but those of this package, of Hydra and of its plugins may not set `hydra`, in which much is code that Hydra
    runs. Nor may they set `allowed_targets`, which says what modules are loaded. Nor `engine.address`, but auto and
    local: private records are sent there, and what it answers is unpickled. Each file is judged as it lies in the whole
    configuration, whatever `@package` it names, before Hydra uses any.
    Launchers send the loader to the processes of their jobs.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = _Files(config_search_path)

    def load_configuration(
        self, config_name: str | None, overrides: list[str], *how: Any, **named: Any
    ) -> DictConfig:
        try:
            config = super().load_configuration(config_name, overrides, *how, **named)
        except RecursionError as error:
            rule = "files that do not include themselves, nor values too deep"
            raise InvalidValue("defaults", rule=rule) from error
        except _NO_SETTINGS as error:  # files or words that are not what Hydra takes them for
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            if isinstance(error, InvalidValue) or str(frame.f_globals.get("__name__")).startswith(
                "pate."
            ):
                raise
            if str(error).startswith("Config group override"):
                require_choices(overrides)
            rule = f"what Hydra can compose ({type(error).__name__}: {error})"
            raise InvalidValue("settings", rule=rule) from error
        expand_home(config)
        return config

    def _load_single_config(self, default: Any, repo: Any) -> ConfigResult:
        loaded = super()._load_single_config(default, repo)
        _require_harmless(loaded, default.config_path)
        return loaded

    def _process_config_searchpath(
        self, config_name: str | None, parsed_overrides: Any, repo: Any
    ) -> None:
        if (
            config_name is not None
            and (primary := repo.load_config(config_path=config_name)) is not None
        ):
            _require_harmless(primary, config_name)
        super()._process_config_searchpath(config_name, parsed_overrides, repo)


class _Files(ConfigRepository):
    """Hydra's files, refused by name and line where `plain_loader` reads more; or a part of an installed package."""

    def load_config(self, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None:
            group, _, name = config_path.rpartition("/")
            if (target := parts_of_others(group).get(name)) is None:
                return None
            # as a file would that names a class and nothing else
            said = OmegaConf.create({"_target_": target})
            return ConfigResult("entry point", "structured://", said, {"package": None}, [])
        file = Path(source.path.removeprefix("file://"), source._normalize_file_name(config_path))
        try:
            if source.scheme() == "file" and not _is_ours(f"file://{source.path}", config_path):
                yaml.compose(file.read_text(encoding="utf-8"), plain_loader())
            return super().load_config(config_path)
        except _STRANGE as error:
            mark = getattr(error, "problem_mark", None)
            reason = (
                " ".join(str(getattr(error, "problem", None) or error).split())
                or type(error).__name__
            )
            line = "" if mark is None else f"line {mark.line + 1}: "
            raise InvalidValue("file", file, rule=f"settings in YAML ({line}{reason})") from error


def _is_ours(source: str, path: str) -> bool:
    """Whether a file is of this package, of Hydra or of its plugins: its path stays within the source's folder."""
    inside = not PurePath(path).is_absolute() and ".." not in PurePath(path).parts
    return inside and (source in _OURS or source.startswith("pkg://hydra_plugins."))


def _require_harmless(loaded: ConfigResult, name: str) -> None:
    """Raises `InvalidValue` where a file that is not ours says what none may."""
    if _is_ours(loaded.path, name):
        return
    plain = OmegaConf.to_container(loaded.config, resolve=False)
    content: dict[Any, Any] = plain if isinstance(plain, dict) else {}
    file = f"{loaded.path.removeprefix('file://')}/{name}.yaml"
    rule = f"it on the command line alone, found it in {file}"
    if "hydra" in content:
        inner = content["hydra"]
        key = f"hydra.{min(map(str, inner))}" if isinstance(inner, dict) and inner else "hydra"
        raise InvalidValue(key, rule=f"{rule}: what it names is code that Hydra runs")
    if allowed := content.get("allowed_targets"):
        shown = ",".join(map(str, allowed)) if isinstance(allowed, list) else allowed
        rule = f"{rule}: it says which modules may be loaded"
        raise InvalidValue("allowed_targets", f"[{shown}]", rule=rule)
    engine = content.get("engine")
    if isinstance(engine, dict) and (address := engine.get("address")) not in (
        None,
        "auto",
        "local",
    ):
        rule = f"{rule}: private records are sent there"
        raise InvalidValue("engine.address", address, rule=rule)
