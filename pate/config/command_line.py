"""The words of a command line: what they leave open, how Hydra reads them, and which of them it is never given.

Hydra's lists of defaults say what a choice brings along. They cannot see that a user named no teacher, or noise and no
target. That is decided here, from the names alone, before anything runs: `--cfg job` prints what was decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from pate.aggregators.aggregator import noise_fields
from pate.config.build import build_aggregator
from pate.config.location import members
from pate.validation import InvalidValue, nearest, require, require_choice

_TARGET = "target_epsilon"
_WAYS = dict.fromkeys(("celeba", "icons", "image_folder", "synth_faces"), "pictures") | {"table": "table"}
_NAMED = {"teacher", "teacher._target_", "features", "features._target_", "experiment", "way"}
_OPTIONS = (
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
)  # fmt: skip
"""Of Hydra's, which takes any beginning of them."""

_LEFT = set("'\"\\${}()=")  # a value that has one of these is already written for Hydra, or is told how to be
_PART = re.compile(r"[^\[\],]+")
_MARK = re.compile(r"[,;:'\"~#&!<>^`\s]")  # a mark alone is a value that means itself
_SHARES = re.compile(r"[\d.]+,[\d.]+")
_STRANGE = re.compile(r"[^\x00-\x7f]|[~&#!;<>^`]")


def given_settings(words: Iterable[str]) -> dict[str, str]:
    """Settings and choices of a command line by name, as text."""
    return dict(word.lstrip("+~").partition("=")[::2] for word in words if not word.startswith("-"))


def allowed_modules(words: Iterable[str]) -> tuple[str, ...]:
    """What `allowed_targets` will be: what a command line says, as no file can."""
    text = given_settings(words).get("allowed_targets")
    try:
        value = None if text is None else OverridesParser.create().parse_override(f"allowed_targets={text}").value()
    except HydraException:  # a mistake that Hydra will name
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else ()


def way_left_open(words: Iterable[str], command: str) -> str | None:
    """The member of `way` for a data set that does best by it, where a command line leaves that open; None elsewhere.

    Where `teacher=`, `features=` or an experiment is named, nothing is chosen: `teacher=cnn` is the papers' way. Where
    only settings of teachers or an aggregator are given, features are chosen for pictures and no more. To
    `features=kernel`, of kernel teachers, belongs their way on any data.

    >>> way_left_open(["data=synth_faces", "aggregator=gaussian_votes"], "train")
    'features'
    >>> way_left_open(["data=celeba", "teacher=cnn"], "train")
    >>> way_left_open(["data=table", "student=mlp"], "train"), way_left_open(["features=kernel"], "train")
    ('table', 'table')
    """
    given = given_settings(words)
    if given.get("features") == "kernel" and command == "train" and not (_NAMED - {"features"}) & given.keys():
        return "table"
    way = _WAYS.get(given.get("data", ""))
    if way is None or command not in ("train", "compare") or _NAMED & given.keys():
        return None
    if command == "train" and not {"teacher", "aggregator"} & {key.partition(".")[0] for key in given}:
        return way
    return "features" if way == "pictures" else None


def said_of_way(choices: Mapping[str, Any]) -> str | None:
    """What was chosen by the way, of the member of each group, in a line; None where there is none."""
    if (way := choices.get("way")) in (None, "none"):
        return None
    groups = [] if way == "table" else ["features"]
    groups += [] if way == "features" else ["teacher", "aggregator", "accountant", "student"]
    instead = "teacher=cnn is the papers' way, features=none the pictures'"
    if way == "table":
        instead = "teacher=linear and aggregator=gaussian_votes are a plainer way"
    return f"no teacher is named: {' '.join(f'{group}={choices[group]}' for group in groups)}; {instead}"


def settle(config: DictConfig, words: Iterable[str], experiment: Set[str]) -> None:
    """Puts into a composed configuration what depends on who said what: `noise`, `target_epsilon`, `fewer_queries`.

    Noise is given where the command line names it and no target. Where that names neither, the experiment decides in
    the same way, by the names that it sets. Noise that is given is kept, and the target of the defaults gives way.
    `noise=` overrules both. A configuration without these settings stays as it is.
    """
    keys = (word.lstrip("+").partition("=")[0] for word in words if not word.startswith("~"))
    line = {".".join(key.split(".")[:2]) for key in keys}  # no deeper than a field of a group
    if "fewer_queries" in config and config.fewer_queries is None:
        config.fewer_queries = "num_queries" not in line | experiment
    if "noise" not in config:
        return
    named = _TARGET in line | experiment
    given = config.noise == "given"
    if config.noise is None:  # the first who names noise or a target decides
        given = _TARGET not in line and _names_noise(config, line)
        given = given or (not named and _names_noise(config, experiment))
    else:
        require_choice("noise", config.noise, ("solve", "given"))
        both = given and named and config.target_epsilon is not None
        require(not both, _TARGET, config.target_epsilon, "none beside noise=given")
    if given or (config.get("max_epsilon") is not None and not named):
        config.target_epsilon = None
    config.noise = "given" if config.target_epsilon is None else "solve"


def _names_noise(config: DictConfig, names: Set[str]) -> bool:
    """Whether the aggregator's noise is among the names; not of one that cannot be made, which its command will say."""
    fields = {name.removeprefix("aggregator.") for name in names if name.startswith("aggregator.")}
    if not fields:
        return False
    allowed = list(config.allowed_targets)
    try:
        made = build_aggregator(config.aggregator, adjacency=config.adjacency, allowed_targets=allowed)
        return not fields.isdisjoint(noise_fields(made))
    except (InvalidValue, OmegaConfBaseException, OSError):
        return False


def quoted(word: str) -> str:
    """A setting with quotes around those values that Hydra could not read otherwise; any other word as it is.

    >>> quoted("data.private=öffentlich.csv"), quoted("data.labels=[Größe,age]"), quoted("seed=3")
    ('data.private="öffentlich.csv"', 'data.labels=["Größe",age]', 'seed=3')
    """
    key, equals, value = word.partition("=")
    if _MARK.fullmatch(value) or (key == "split" and _SHARES.fullmatch(value)):
        mark = '"' if value == "'" else "'"
        return f"{key}={mark}{value}{mark}"
    if not equals or word.startswith("-") or _LEFT & set(value):
        return word
    return f"{key}={_PART.sub(lambda part: _quoted(part[0]), value)}"


def _quoted(part: str) -> str:
    return f'"{part.strip()}"' if _STRANGE.search(part) else part


def require_words(words: Sequence[str], known: tuple[str, ...]) -> None:
    """Refuses words that Hydra is not given.

    They are text in another encoding, which no file of settings could name, and the option to run a configuration that
    was pickled, as a pickle is code. Settings that are written like options are others: argparse answers with a page.
    """
    for place, word in enumerate(words):
        if not is_utf8(word):
            raise InvalidValue(f"{ascii(word)[1:-1]}: expected text in UTF-8")
        name, equals, value = word.partition("=")
        if word.startswith("--e") and "--experimental-rerun".startswith(name):
            raise InvalidValue(f"{word}: expected another option: a pickled configuration is code")
        setting = name.lstrip("-").replace("-", "_")
        if name.startswith("--") and setting.partition(".")[0] in known:
            following = words[place + 1] if place + 1 < len(words) else "-"
            given = value if equals else "VALUE" if following.startswith("-") or "=" in following else following
            raise InvalidValue(f"{word}: expected it without dashes: {setting}={given}")
        if name.startswith("--") and not any(option.startswith(name) for option in _OPTIONS):
            raise InvalidValue(f"{word}: expected NAME=VALUE, without dashes{nearest(setting, known)}")


def is_utf8(text: str) -> bool:
    """Whether a text can be written: what came from bytes that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def explain_choice(words: Iterable[str]) -> str | None:
    """What is wrong with a group that was given no name but null, a number or a truth value, or with a value alone."""
    for word in words:
        group, _, value = word.partition("=")
        if word.startswith("="):
            return f"{word}: expected NAME=VALUE"
        if value in ("null", "true", "false") or value.replace(".", "", 1).isdigit():
            if known := members(group):
                return f"{word}: expected one of {', '.join(known)}"
            if word.startswith("@"):
                return f"{word}: expected NAME=VALUE"
    return None
