"""The arguments of a command line: settings by name, and what follows from them for a composed configuration.

A `~` at the beginning of a path is expanded, and a command line that sets noise must state how to use it. Other modules
of this folder read the same arguments:

* `default_choices` makes the choices that are left open.
* `quoting` writes arguments as Hydra parses them.
* `checks` refuses what Hydra must not receive.
* `mistakes` explains arguments that cannot be parsed.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from pate.aggregators import Aggregator
from pate.aggregators.aggregator import fields_marked
from pate.config.classes import find_class
from pate.config.plain import plain_values
from pate.config.schema import PATH_SETTINGS
from pate.validation import InvalidValue

_MULTIRUN = "--multirun"
# The name of a run's folder depends on the text of these two paths, so `expand_home` leaves them and their readers
# expand them.
_EXPANDED_BY_THEIR_READERS = ("data.root", "features.weights")


def given_settings(arguments: Iterable[str]) -> dict[str, str]:
    """Returns the settings in the arguments of a command line: the value of each as text, by the setting's name.

    Options are left out, and so are their values in arguments of their own, which have no "=". Names lose the marks +
    and ~ of Hydra at their beginning.
    """
    assignments = [
        argument.lstrip("+~")
        for argument in arguments
        if not argument.startswith("-") and ("=" in argument or argument.startswith("~"))
    ]
    return dict(assignment.partition("=")[::2] for assignment in assignments)


def allowed_modules(arguments: Iterable[str]) -> tuple[str, ...]:
    """Returns the modules in the setting `allowed_targets` of a command line.

    The result is empty if the command line does not have the setting, or if its value is no list that Hydra can parse.
    """
    list_text = given_settings(arguments=arguments).get("allowed_targets", "[]")
    try:
        hydra_value = (
            OverridesParser.create().parse_override(f"allowed_targets={list_text}").value()
        )
    except HydraException:  # Hydra will report the mistake
        return ()
    return tuple(map(str, hydra_value)) if isinstance(hydra_value, list) else ()


def is_sweep(arguments: Sequence[str]) -> bool:
    """Returns True if a command line asks for a sweep, that is, for several runs.

    It asks by `-m`, `--multirun`, a short form of it, or `hydra.mode=MULTIRUN`.
    """
    shortened = [_MULTIRUN[:length] for length in range(len("--m"), len(_MULTIRUN) + 1)]
    options = ("-m", *shortened)
    return any(
        argument in options or argument.lstrip("+") == "hydra.mode=MULTIRUN"
        for argument in arguments
    )


def expand_home(config: DictConfig) -> None:
    """Replaces a leading `~` by the home folder in each path of a composed configuration.

    A shell does not expand `~` after `=`, so that a folder with the name `~` would be created. `data.root` and
    `features.weights` stay as they are, since the code that reads them expands them.
    """
    plain_config = plain_values(config, resolve=False)
    for setting_name in sorted(PATH_SETTINGS):
        value: object = plain_config
        for key in setting_name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if setting_name in _EXPANDED_BY_THEIR_READERS or value is None:
            continue
        unexpanded_paths = value if isinstance(value, list) else [value]
        if any(
            isinstance(unexpanded_path, str) and unexpanded_path.startswith("~")
            for unexpanded_path in unexpanded_paths
        ):
            home_expanded_paths = [
                os.path.expanduser(unexpanded_path)
                if isinstance(unexpanded_path, str)
                else unexpanded_path
                for unexpanded_path in unexpanded_paths
            ]
            OmegaConf.update(
                config,
                setting_name,
                home_expanded_paths if isinstance(value, list) else home_expanded_paths[0],
            )


def require_noise_stated(config: DictConfig, *, command_line_settings: Mapping[str, str]) -> None:
    """Checks that a command line states whether the noise is used as configured or solved for a target.

    Args:
        config: the composed configuration.
        command_line_settings: the settings in the command line as text, by name.

    Raises:
        InvalidValue: the command line sets noise, but neither `noise=` nor a target; or it sets `target_epsilon` beside
            `target_mu` or `noise=given`.
    """
    names_epsilon = (
        "target_epsilon" in command_line_settings and config.get("target_epsilon") is not None
    )
    if names_epsilon and config.get("target_mu") is not None:
        rule = "no target_epsilon beside it, which the noise would be solved for"
        raise InvalidValue("target_mu", config.target_mu, rule=rule)
    if "noise" not in config:
        return
    if config.noise == "given":
        if names_epsilon:
            rule = "none beside noise=given, which takes the aggregator's noise as it is"
            raise InvalidValue("target_epsilon", config.target_epsilon, rule=rule)
        return
    if {"noise", "target_epsilon", "target_mu"} & command_line_settings.keys():
        return
    rule = (
        "noise=given beside it, which takes this noise as it is, or noise=solved, which begins with it "
        f"and solves for target_epsilon={config.target_epsilon}"
    )
    for noise_setting in _noise_settings(config.aggregator):
        if noise_setting in command_line_settings:
            raise InvalidValue(noise_setting, command_line_settings[noise_setting], rule=rule)


def _noise_settings(aggregator_node: DictConfig) -> list[str]:
    """Returns the names of the settings that determine an aggregator's noise, such as `aggregator.noise_std`.

    The list is empty if the aggregator's class cannot be loaded or is no `Aggregator`.

    Args:
        aggregator_node: the configuration of the aggregator, with `_target_`.
    """
    try:
        cls = find_class(str(aggregator_node.get("_target_")))
    except ModuleNotFoundError:
        return []
    if cls is None or not issubclass(cls, Aggregator):
        return []
    return [f"aggregator.{field_name}" for field_name in sorted(fields_marked(cls, mark="noise"))]
