"""The words of a command line: what they leave open, how Hydra reads them, and which of them it is never given.

Hydra's lists of defaults say what a choice brings along. They cannot see that a user named no teacher, or noise and no
target. That is decided here, from the names alone, before anything runs: `--cfg job` prints what was decided.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pate.aggregators.aggregator import noise_fields
from pate.config.build import GROUPS_OF_CLASSES, build_aggregator
from pate.config.location import members
from pate.validation import InvalidValue, as_setting, how_to_install, nearest, require, require_choice

_TARGET = "target_epsilon"
_WAYS = dict.fromkeys(("celeba", "icons", "image_folder", "synth_faces"), "pictures") | {"table": "table"}
_NAMED = {"teacher", "teacher._target_", "features", "features._target_", "experiment", "way"}
_LEFT = set("'\"\\${}()=")  # a value that has one of these is already written for Hydra, or is told how to be
_PARTS = re.compile(r"([\[\],])")
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
    parts = (f'"{part.strip()}"' if _STRANGE.search(part) else part for part in _PARTS.split(value))
    return f"{key}={''.join(parts)}"


def require_words(words: Sequence[str], known: tuple[str, ...]) -> None:
    """Refuses words that Hydra is not given: no UTF-8, settings like options, and a configuration that was pickled."""
    options = [option for action in get_args_parser()._actions for option in action.option_strings]
    for word in words:
        if not is_utf8(word) or word.startswith(("=", "@")):
            raise InvalidValue(f"{ascii(word)[1:-1]}: expected NAME=VALUE, text in UTF-8")
        name = word.partition("=")[0]
        if word.startswith("--e") and "--experimental-rerun".startswith(name):
            raise InvalidValue(f"{word}: expected another option: a pickled configuration is code")
        if name.startswith("--") and not any(option.startswith(name) for option in options):
            setting = name.lstrip("-").replace("-", "_")
            raise InvalidValue(
                f"{word}: expected NAME=VALUE, without dashes{nearest(setting.partition('.')[0], known)}"
            )


def is_utf8(text: str) -> bool:
    """Whether a text can be written: what came from bytes that are no UTF-8 cannot."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def explain_choice(words: Iterable[str]) -> str | None:
    """What is wrong with a group that was given something else than a name, such as null or a number."""
    for word in words:
        group, _, value = word.partition("=")
        if (known := members(group)) and value not in known:
            return f"{word}: expected one of {', '.join(known)}"
    return None


_VALUE, _KEY = r"Value '(?P<value>.*)'", r".*full_key: (?P<name>\S+)"
_SAID = {
    r"(?:Multiple values for |Error resolving interpolation '\$\{schema_for:)(?P<name>\w+)": (
        "{name}: expected one member, and no + before the name: {name}=NAME; -m {name}=A,B runs several"
    ),
    r"Ambiguous value for argument '(?P<name>data\.split)=(?P<value>.*?)'\n": (
        "{name}={value}: expected a column; pate-schema split={value} deals one file to three"
    ),
    r"Ambiguous value for argument '(?P<name>[^=]+)=(?P<value>.*?)'\n": (
        "{name}={value}: expected one value, a list as '{name}=[{value}]', or -m before it, which runs each"
    ),
    r"Missing mandatory value: (?P<name>\S+)": "{name}: expected a value, none is assumed: {name}=…",
    rf"{_VALUE} of type '[^']*' could not be converted to Integer{_KEY}": "{name}={value}: expected a whole number",
    rf"{_VALUE} of type '[^']*' could not be converted to Float{_KEY}": "{name}={value}: expected a number",
    rf"{_VALUE} (?:is not a valid bool|of type '[^']*' could not be converted to Boolean){_KEY}": (
        "{name}={value}: expected true or false"
    ),
    rf"{_VALUE} of type '[^']*' could not be converted to{_KEY}": "{name}={value}: expected another kind of value",
    rf"Cannot convert '\w+' to string: '(?P<value>.*)'{_KEY}": "{name}={value}: expected text, and no setting below it",
    rf"is not a ListConfig, list or tuple{_KEY}": "{name}: expected a list: '{name}=[VALUE,VALUE]'",
}
"""What Hydra and OmegaConf say, and what is said in its place."""


_HINTS = {
    "data": "; files of a table are data=table data.private=FILE data.public=FILE data.test=FILE",
    "hydra/launcher": f"; submitit's come with {how_to_install('slurm')}",
    "teacher": "; teacher=sklearn takes any classifier of scikit-learn (pate-train teacher=sklearn --help)",
}


def explain(error: Exception) -> str:
    """One line that names the key or group, the rule and the value."""
    if isinstance(error, OverrideParseException):
        key, equals, value = error.override.partition("=")
        if not equals:
            return f"{error.override}: expected NAME=VALUE, no blank around the =; --help lists the names"
        rule = "in quotes within quotes where it has a blank or any of ~ ( ) [ ] { } , = '"
        words = [word.strip(" '\"") for word in value.strip("[]").split(",") if word] if value[:1] == "[" else value
        return f"{error.override}: expected a value that Hydra can read, {rule}: {as_setting(key, words)}"
    text = "\n".join(str(part) for part in (error, error.__cause__) if part is not None)
    text = text.partition("Config search path:")[0]  # which names the folders of an installation
    if found := re.search(r"Could not find '([^']+)'", text):
        group, _, name = found[1].rpartition("/")
        known = tuple(sorted({*(getattr(error, "options", None) or ()), *members(group)}))  # those of --config-dir, too
        if group and known:
            return f"{group}={name}: expected one of {', '.join(known)}{nearest(name, known)}{_HINTS.get(group, '')}"
    if found := re.search(r"Could not override '([^']+)'", text):
        return f"{found[1]}: expected a key of the configuration{_key_hint(error, found[1])}"
    for pattern, line in _SAID.items():
        if found := re.search(pattern, text, re.DOTALL):
            return line.format(**found.groupdict())
    said, marked, key = text.partition("full_key: ")
    lines = [line.strip() for line in said.splitlines() if line.strip()]  # behind the name of the key
    if not marked or not key.split() or not lines:
        return text
    skipped = len(lines) > 1 and re.match(r"Error (merging override|in call to target|locating target)", lines[0])
    return f"{key.split()[0]}: {' '.join(lines[bool(skipped) :])}"


def _key_hint(error: Exception, key: str) -> str:
    """The keys that there are beside the unknown one, and which of them is near."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(cause.parent_node, DictConfig):
        return "; --help lists them"
    known = tuple(str(key) for key in cause.parent_node if key not in ("_target_", "hydra"))
    if known:
        return f": one of {', '.join(known)}{nearest(str(cause.key), known)}"
    return _HINTS["data"] if key.startswith("data.") else f"; with + before it, it becomes one: +{key}=…"


def require_sound(config: DictConfig, schema: type, command: str) -> None:
    """Refuses a composed configuration with other keys than the command's, or with odd text."""
    fields = dataclasses.fields(schema)
    known = tuple(field.name for field in fields)
    for key in map(str, config):
        if key not in known:
            rule = f"a key of the configuration, + or not: one of {', '.join(known)}{nearest(key, known)}"
            raise InvalidValue(f"{key}: expected {rule}")
    for field in fields:
        name = field.name
        if OmegaConf.is_missing(config, name):
            continue
        if name not in config:
            rule = f"expected a value, found none; a file for --config-name begins with defaults: [{command}, _self_]"
            raise InvalidValue(f"{name}: {rule}")
        is_part = name in GROUPS_OF_CLASSES and field.default == MISSING and field.type is Any
        if is_part and not isinstance(config[name], DictConfig):
            raise InvalidValue(f"{name}={config[name]}: expected a _target_ and its settings, or {name}=NAME")
    for text in _texts(OmegaConf.to_container(config, resolve=False)):
        if "\0" in text or not is_utf8(text):
            raise InvalidValue(f"{text!a}: expected text in UTF-8 without a zero byte")


def _texts(node: Any) -> Iterator[str]:
    """Each text in a tree of dictionaries and lists."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, (dict, list)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _texts(value)
