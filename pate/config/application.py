"""This module runs a command as a Hydra application, as `hydra.main` does, with some differences.

Hydra refuses settings on both sides of an option, as in `a=1 --multirun b=2`; here they may stand there. `--help`
prints our own page, which explains the settings of the chosen parts. And an error that Hydra would print is raised.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from pate.config.help_page import CONFIGURATION, fold_page, page_width, settings_of_parts
from pate.config.schema import folder_of
from pate.config.sources import register_configs
from pate.validation import require

_VERSION_BASE = "1.3"
# an environment variable: Hydra raises errors that it would print otherwise
_FULL_ERROR = "HYDRA_FULL_ERROR"
_INFO_CHOICES = ["all", "config", "defaults", "defaults-tree", "plugins", "searchpath"]


def options_parser() -> ArgumentParser:
    """Returns a parser of Hydra's options, as https://hydra.cc/docs/advanced/hydra-command-line-flags lists them.

    The option for a pickled configuration, `--experimental-rerun`, is left out.
    """
    parser = ArgumentParser(add_help=False)
    parser.add_argument("overrides", nargs="*")
    for option_names in OPTIONS_WITHOUT_VALUE:
        parser.add_argument(*option_names, action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--package", "-p")
    parser.add_argument("--config-path", "-cp")
    parser.add_argument("--config-name", "-cn")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--info", "-i", const="all", nargs="?", choices=_INFO_CHOICES)
    return parser


# The long and short names of Hydra's options that take no value.
OPTIONS_WITHOUT_VALUE = (
    ("--help", "-h"),
    ("--hydra-help",),
    ("--version",),
    ("--resolve",),
    ("--run", "-r"),
    ("--multirun", "-m"),
    ("--shell-completion", "-sc"),
)
OPTIONS = (
    *(name for names in OPTIONS_WITHOUT_VALUE for name in names),
    "--cfg",
    "-c",
    "--package",
    "-p",
    "--info",
    "-i",
    "--config-path",
    "-cp",
    "--config-name",
    "-cn",
    "--config-dir",
    "-cd",
)
"""Hydra's options that a command takes; the one for a pickled configuration is not among them."""


def run_application(
    task: Callable[[DictConfig], Any],
    *,
    command: str,
    arguments: Sequence[str],
    chosen_settings: Sequence[str] = (),
    allowed_targets: Sequence[str] = (),
) -> None:
    """Composes a command's configuration with `hydra.main`, and runs a task on it.

    An error that Hydra would print is raised. With `--help`, the help page is printed and no task is run.

    Args:
        task: is called with the composed configuration; in a sweep, once for each of its configurations.
        command: the name of the command, and of the YAML file that is composed unless `--config-name` names another.
        arguments: the arguments of the command line, options and settings in any order.
        chosen_settings: the settings `NAME=VALUE` that the command itself chooses, as the command line leaves them
            open.
        allowed_targets: the user's own modules whose classes may be loaded.
    """
    parsed_options = options_parser().parse_intermixed_args(arguments)
    config_folders = []
    if parsed_options.config_dir is not None:
        config_folders.append(Path(parsed_options.config_dir).expanduser().absolute())
        require(config_folders[0].is_dir(), "--config-dir", config_folders[0], "a folder")
    register_configs(allowed_targets=allowed_targets, config_folders=config_folders)
    main_config_folder = (
        Path(parsed_options.config_path or folder_of(command)).expanduser().absolute()
    )
    config_name = parsed_options.config_name or command
    if parsed_options.help:
        print_help(main_config_folder, config_name, parsed_options)
        return
    typed_arguments = sys.argv

    def task_with_typed_arguments(config: DictConfig) -> Any:
        """Runs the task with `sys.argv` as the user typed it, because a charge in a ledger records the command line."""
        sys.argv = typed_arguments
        return task(config)

    application = hydra.main(
        version_base=_VERSION_BASE, config_path=str(main_config_folder), config_name=config_name
    )
    settings = [f"++hydra.job.name={command}", *parsed_options.overrides, *chosen_settings]
    with _hydra_arguments([*_arguments_of(parsed_options), *settings]):
        try:
            application(task_with_typed_arguments)()
        except SystemExit as end:  # Hydra's own pages end with code 0
            if end.code:
                raise
        finally:
            HydraConfig.instance().cfg = None  # which the last job has set


def _arguments_of(parsed_options: Namespace) -> list[str]:
    """Returns the parsed options that Hydra itself reads, as arguments such as `--multirun` and `--cfg=job`."""
    arguments_for_hydra = []
    for option_name, *_ in OPTIONS_WITHOUT_VALUE:
        if getattr(parsed_options, option_name.removeprefix("--").replace("-", "_")):
            arguments_for_hydra.append(option_name)
    for option_name in ("cfg", "package", "info"):
        option_value = getattr(parsed_options, option_name)
        if option_value is not None:
            arguments_for_hydra.append(f"--{option_name}={option_value}")
    return arguments_for_hydra


@contextmanager
def _hydra_arguments(arguments: Sequence[str]) -> Iterator[None]:
    """Sets `sys.argv` within the `with` block, and makes Hydra raise its errors instead of printing them.

    Args:
        arguments: the arguments, without the name of the program.
    """
    arguments_before = sys.argv
    full_error_before = os.environ.get(_FULL_ERROR)
    sys.argv = [arguments_before[0], *arguments]
    os.environ[_FULL_ERROR] = "1"
    try:
        yield
    finally:
        sys.argv = arguments_before
        del os.environ[_FULL_ERROR]
        if full_error_before is not None:
            os.environ[_FULL_ERROR] = full_error_before


def print_help(config_folder: Path, config_name: str, parsed_options: Namespace) -> None:
    """Prints a command's help in the width of the terminal, with the settings of the chosen parts.

    Args:
        config_folder: the folder of the command's YAML file.
        config_name: the name of the YAML file.
        parsed_options: the parsed command line.
    """
    with hydra.initialize_config_dir(
        str(config_folder), version_base=_VERSION_BASE, job_name=config_name
    ):
        config = hydra.compose(config_name, parsed_options.overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        command_config = OmegaConf.masked_copy(
            config,
            [str(group_or_setting) for group_or_setting in config if group_or_setting != "hydra"],
        )
        help_page = Template(config.hydra.help.template).safe_substitute(
            CONFIG=OmegaConf.to_yaml(command_config, resolve=parsed_options.resolve)
        )
        settings_text = settings_of_parts(command_config)
        HydraConfig.instance().cfg = None
    if settings_text:
        help_page = help_page.replace(
            CONFIGURATION, f"\nSettings of the chosen parts\n{settings_text}\n{CONFIGURATION}", 1
        )
    sys.stdout.write(f"{fold_page(help_page, line_width=page_width())}\n")
