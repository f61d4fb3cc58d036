"""The words of a command line: settings and choices by name, and the paths and noise in a composed configuration.

Neighbors of this module read the same words: `default_choices` decides what they leave open, `quoting` writes them as
Hydra reads them, `mistakes` explains those that nobody can read.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from pate.aggregators import Aggregator
from pate.aggregators.aggregator import declared
from pate.config.classes import find_class
from pate.config.plain import plain_values
from pate.config.schema import PATHS
from pate.validation import require

_MULTIRUN = "--multirun"
# The name of a run's folder depends on the text of these two, so their readers expand them.
_EXPANDED_BY_THEIR_READERS = ("data.root", "features.weights")


def given_settings(words: Iterable[str]) -> dict[str, str]:
    """Returns the settings and choices of a command line by name, as text."""
    settings = [word.lstrip("+~") for word in words if not word.startswith("-")]
    return dict(setting.partition("=")[::2] for setting in settings)


def allowed_modules(words: Iterable[str]) -> tuple[str, ...]:
    """Returns the modules of `allowed_targets`, which the command line alone may name, and no file."""
    text = given_settings(words).get("allowed_targets", "[]")
    try:
        value = OverridesParser.create().parse_override(f"allowed_targets={text}").value()
    except HydraException:  # a mistake that Hydra will name
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else ()


def is_sweep(words: Sequence[str]) -> bool:
    """Tells whether a command line asks for several runs, whose values stand with commas between them."""
    shortened = [_MULTIRUN[:length] for length in range(len("--mu"), len(_MULTIRUN) + 1)]
    options = ("-m", *shortened)
    return any(word in options or word.lstrip("+") == "hydra.mode=MULTIRUN" for word in words)


def expand_home(config: DictConfig) -> None:
    """Puts the home folder in the place of `~` where a path of a composed configuration begins with it.

    No shell expands `~` behind `=`, and a folder called `~` would be made.
    """
    plain = plain_values(config, resolve=False)
    for name in sorted(PATHS):
        value: object = plain
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if name in _EXPANDED_BY_THEIR_READERS or value is None:
            continue
        paths = value if isinstance(value, list) else [value]
        if any(isinstance(path, str) and path.startswith("~") for path in paths):
            expanded = [
                os.path.expanduser(path) if isinstance(path, str) else path for path in paths
            ]
            OmegaConf.update(config, name, expanded if isinstance(value, list) else expanded[0])


def require_noise_said(config: DictConfig, given: Mapping[str, str]) -> None:
    """Checks that a command line says whether its noise is used as it is, or solved for.

    Args:
        config: composed.
        given: settings of the command line, as text, by name.

    Raises:
        InvalidValue: the command line names noise and neither `noise=` nor a target; or a target beside `noise=given`.
    """
    if "noise" not in config:
        return
    if config.noise == "given":
        rule = "none beside noise=given, which takes the aggregator's noise as it is"
        is_named = config.target_epsilon is not None and "target_epsilon" in given
        require(not is_named, "target_epsilon", config.target_epsilon, rule)
        return
    if {"noise", "target_epsilon"} & given.keys():
        return
    rule = (
        "noise=given beside it, which takes this noise as it is, or noise=solved, which begins with it "
        f"and solves for target_epsilon={config.target_epsilon}"
    )
    for name in _noise_settings(config.aggregator):
        require(name not in given, name, given.get(name), rule)


def _noise_settings(aggregator: DictConfig) -> list[str]:
    """Returns the names of the settings that are an aggregator's noise; none for a class that cannot be loaded."""
    try:
        cls = find_class(str(aggregator.get("_target_")))
    except ModuleNotFoundError:
        return []
    if cls is None or not issubclass(cls, Aggregator):
        return []
    return [f"aggregator.{name}" for name in sorted(declared(cls))]
