"""The words of a command line: what they leave open, how Hydra reads them, and which of them it is never given.

Hydra's lists of defaults say what a choice brings along. They cannot see that a user named no teacher. That is decided
here, from the names alone, before anything runs: `--cfg job` prints what was decided.
"""

import dataclasses
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from traceback import walk_tb
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pate.aggregators import Aggregator
from pate.aggregators.aggregator import declared
from pate.config import papers_words
from pate.config.application import OPTIONS
from pate.config.classes import GROUPS_OF_CLASSES, find_class
from pate.config.schema import CONFIG_FOLDER, PATHS, members
from pate.extras import how_to_install
from pate.files.plain_yaml import read_yaml
from pate.settings import names_with
from pate.validation import (
    InvalidValue,
    as_setting,
    nearest,
    require,
)

_SAID = Path(__file__).with_name("said.yaml")
_WAYS = dict.fromkeys(("celeba", "image_folder"), "pictures") | {"table": "table"}
_NAMED = {"teacher", "teacher._target_", "features", "features._target_", "experiment", "way"}
_OF_PICTURES = ("cnn", "resnet50")  # teachers that look at pictures
# a value that has one of these is already written for Hydra, or is told how to be
_LEFT = set("'\"\\${}()=")
_PARTS = re.compile(r"([\[\],])")
_MARK = re.compile(r"[,;:'\"~#&!<>^`\s]")  # a mark alone is a value that means itself
_SHARES = re.compile(r"[\d.]+,[\d.]+")
_BETWEEN_COMMAS = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")
_NUMERAL = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
_MEMBERS = re.compile(r"\w+(?:,\w+)+")
_MULTIRUN = "--multirun"
_EXPANDED_BY_THEIR_READERS = ("data.root", "features.weights")
_STRANGE = re.compile(r"[^\x00-\x7f]|[~&#!;<>^`]")
# Settings whose values are names of columns, or words of cells, also where these look like numbers or truths
_NAMES = re.compile(
    r"data\.(labels|drop|category|text|missing|inputs|group|id|budget|split|file|true)|"
    + "|".join(sorted(names_with("is_name")))
)
_READ_AS_VALUE = re.compile(r"[+-]?\.?\d[\w.+-]*|true|false|null|[+-]?(?:nan|inf)", re.IGNORECASE)
# half of a character, as bytes that are no UTF-8 are read
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def given_settings(words: Iterable[str]) -> dict[str, str]:
    """Settings and choices of a command line by name, as text."""
    return dict(word.lstrip("+~").partition("=")[::2] for word in words if not word.startswith("-"))


def allowed_modules(words: Iterable[str]) -> tuple[str, ...]:
    """What `allowed_targets` will be: what a command line says, as no file can."""
    text = given_settings(words).get("allowed_targets", "[]")
    try:
        value = OverridesParser.create().parse_override(f"allowed_targets={text}").value()
    except HydraException:  # a mistake that Hydra will name
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else ()


def way_left_open(words: Iterable[str], command: str) -> str | None:
    """The member of `way` for a data set that does best by it, where a command line leaves that open; None elsewhere.

    Nothing is chosen beside `teacher=`, `features=` or an experiment; for pictures features alone beside settings of
    teachers or an aggregator. To `features=kernel` belongs the way of kernel teachers on any data.
    """
    given = given_settings(words)
    if (
        given.get("features") == "kernel"
        and command == "train"
        and not (_NAMED - {"features"}) & given.keys()
    ):
        return "table"
    way = _WAYS.get(given.get("data", ""))
    if way is None or command not in ("train", "compare") or _NAMED & given.keys():
        return None
    if command == "train" and not {"teacher", "aggregator"} & {
        key.partition(".")[0] for key in given
    }:
        return way
    return "features" if way == "pictures" else None


def student_left_open(words: Iterable[str], command: str) -> str | None:
    """Returns the student that goes with teachers of pictures, where a command line names these and no student.

    The default student is linear on raw pixels, and learns little from them. An experiment that names a student, or a
    file of one's own, has decided.
    """
    given = given_settings(words)
    names_student = {"student", "student._target_"} & given.keys()
    if (
        command not in ("train", "compare")
        or given.get("teacher") not in _OF_PICTURES
        or names_student
    ):
        return None
    if (experiment := given.get("experiment")) is not None:
        file = CONFIG_FOLDER / "experiment" / f"{experiment}.yaml"
        included = (
            read_yaml(file.read_text(encoding="utf-8"), file.name, "YAML") if file.is_file() else {}
        )
        defaults = included.get("defaults", []) if isinstance(included, dict) else []
        if not file.is_file() or any(
            isinstance(entry, str) or "override /student" in entry for entry in defaults
        ):
            return None
    return "cnn"


def said_of_student(student: str, words: Iterable[str]) -> str:
    """Returns what was chosen by `student_left_open`, in a line."""
    teacher = given_settings(words)["teacher"]
    return (
        f"no student is named: student={student}, which looks at pictures as teacher={teacher} does"
    )


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


def require_noise_said(config: DictConfig, given: Mapping[str, str]) -> None:
    """Refuses noise on the command line of which nobody says whether it is taken, or a target for noise that is given.

    Args:
        config: composed.
        given: settings of the command line, as text, by name.
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
    for name in _noise_of(config.aggregator):
        require(name not in given, name, given.get(name), rule)


def _noise_of(aggregator: DictConfig) -> list[str]:
    """Returns the names of the settings that are an aggregator's noise; none of a class that cannot be loaded."""
    try:
        kind = find_class(str(aggregator.get("_target_")))
    except ModuleNotFoundError:
        return []
    if kind is None or not issubclass(kind, Aggregator):
        return []
    return [f"aggregator.{name}" for name in sorted(declared(kind))]


def expand_home(config: DictConfig) -> None:
    """Puts the home folder in the place of `~` where a path of a composed configuration begins with it.

    No shell does so behind `=`, and a folder called `~` would be made.
    """
    plain: Any = OmegaConf.to_container(config, resolve=False)
    for name in sorted(PATHS):
        value = plain
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        # the name of a run goes by the text of these two, so they are expanded where they are read
        if name in _EXPANDED_BY_THEIR_READERS or value is None:
            continue
        paths = value if isinstance(value, list) else [value]
        if any(isinstance(path, str) and path.startswith("~") for path in paths):
            expanded = [
                os.path.expanduser(path) if isinstance(path, str) else path for path in paths
            ]
            OmegaConf.update(config, name, expanded if isinstance(value, list) else expanded[0])


def is_sweep(words: Sequence[str]) -> bool:
    """Tells whether a command line asks for several runs, whose values stand with commas between them."""
    options = ("-m", *(_MULTIRUN[:length] for length in range(len("--mu"), len(_MULTIRUN) + 1)))
    return any(word in options or word.lstrip("+") == "hydra.mode=MULTIRUN" for word in words)


def quoted(word: str, *, in_sweep: bool = False) -> str:
    """Returns a setting with quotes around those values that Hydra could not read otherwise; any other word as it is.

    A path stands for itself, whatever characters it has, unless it stands in quotes, is a list of votes, or one of
    several values of a sweep.
    """
    key, equals, value = word.partition("=")
    name = key.lstrip("+")
    # of the group, and no file
    names_members = name == "data" and _MEMBERS.fullmatch(value) is not None
    if (
        equals
        and name in PATHS
        and not in_sweep
        and not names_members
        and not _is_list_of_votes(name, value)
    ):
        if name.startswith("hydra."):  # before any configuration is composed
            value = os.path.expanduser(value)
        return f"{key}={_quoted_path(name, value)}"
    if _MARK.fullmatch(value) or (key == "split" and _SHARES.fullmatch(value)):
        mark = '"' if value == "'" else "'"
        return f"{key}={mark}{value}{mark}"
    if not equals or word.startswith("-") or _LEFT & set(value):
        return word
    if value.startswith("[") and not value.endswith("]"):
        return word  # no list; Hydra will refuse it, and `explain` quote it whole
    parts = _PARTS.split(value)
    is_list = value.startswith("[")
    # Of a value that is no list a comma separates the jobs of a sweep, and null is none.
    is_named = _NAMES.fullmatch(key) is not None and (
        is_list or (len(parts) == 1 and value.lower() != "null")
    )

    def part_quoted(part: str) -> str:
        text = part.strip()
        strange = _STRANGE.search(part) is not None
        return f'"{text}"' if strange or (is_named and _READ_AS_VALUE.fullmatch(text)) else part

    return f"{key}={''.join(map(part_quoted, parts))}"


def _is_list_of_votes(name: str, value: str) -> bool:
    return name == "votes" and value.startswith("[") and value.endswith("]")


def _quoted_path(name: str, value: str) -> str:
    """Returns a path as Hydra reads it; null, interpolations and what stands in quotes as they are."""
    in_quotes = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if value in ("", "null", "???") or "${" in value or in_quotes:
        return value
    try:
        parsed = OverridesParser.create().parse_override(f"{name}={value}").value()
    except HydraException:
        parsed = None
    if isinstance(parsed, str) and (parsed == value or "\\" in value):
        return value
    (setting,) = shlex.split(as_setting(name, value))
    return setting.partition("=")[2]


def require_words(words: Sequence[str], known: tuple[str, ...]) -> None:
    """Refuses words that Hydra is not given: no UTF-8, settings like options, and a configuration that was pickled."""
    for word in words:
        name = word.partition("=")[0]
        if _NO_TEXT.search(word) or word.startswith(("=", "@")):
            raise InvalidValue(ascii(word)[1:-1], rule="NAME=VALUE, text in UTF-8")
        if word.startswith("--e") and "--experimental-rerun".startswith(name):
            raise InvalidValue(word, rule="another option: a pickled configuration is code")
        if name.startswith("--") and not any(option.startswith(name) for option in OPTIONS):
            near = nearest(name.lstrip("-").replace("-", "_").partition(".")[0], known)
            raise InvalidValue(word, rule=f"NAME=VALUE, without dashes{near}")


def require_choices(words: Iterable[str]) -> None:
    """Raises for a group that was given something else than a name, such as null or a number."""
    for word in words:
        group, _, value = word.partition("=")
        known = members(group)
        if known and value not in known:
            raise InvalidValue(group, value, rule=f"one of {', '.join(known)}")


def mistake_of(error: Exception, words: Iterable[str]) -> InvalidValue | None:
    """Returns the refusal of files or words that Hydra cannot compose; None for another error.

    Hydra and OmegaConf trip over them as if they were at fault: over what is no mapping, or has no name.
    """
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        if mark is None:
            return InvalidValue("settings", rule=f"settings in YAML ({reason})")
        rule = f"settings in YAML (line {mark.line + 1}: {reason})"
        return InvalidValue("file", mark.name, rule=rule)
    if isinstance(error, RecursionError):
        rule = "files that do not include themselves, nor values too deep"
        return InvalidValue("defaults", rule=rule)
    is_told = isinstance(error, (InvalidValue, HydraException, OmegaConfBaseException))
    if is_told or not isinstance(error, _NO_SETTINGS):
        return None
    *_, (frame, _) = walk_tb(error.__traceback__)
    if str(frame.f_globals.get("__name__")).startswith("pate."):
        return None
    if str(error).startswith("Config group override"):
        try:
            require_choices(words)
        except InvalidValue as refusal:
            return refusal
    rule = f"what Hydra can compose ({type(error).__name__}: {error})"
    return InvalidValue("settings", rule=rule)


_NO_SETTINGS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
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
        return f"{error.override}: expected a value that Hydra can read, {rule}: {as_setting(key, _meant(value))}"
    text = "\n".join(str(part) for part in (error, error.__cause__) if part is not None)
    text = text.partition("Config search path:")[0]  # which names the folders of an installation
    if found := re.search(r"Could not find '([^']+)'", text):
        group, _, name = found[1].rpartition("/")
        # those of --config-dir, too
        known = tuple(sorted({*(getattr(error, "options", None) or ()), *members(group)}))
        if group and known:
            return f"{group}={name}: expected one of {', '.join(known)}{nearest(name, known)}{_HINTS.get(group, '')}"
    if found := re.search(r"Could not override '([^']+)'", text):
        return f"{found[1]}: expected a key of the configuration{_key_hint(error, found[1])}"
    for pattern, line in read_yaml(_SAID.read_text(encoding="utf-8"), _SAID.name, "YAML").items():
        if found := re.search(pattern, text, re.DOTALL):
            groups = found.groupdict()
            if {"name", "value"} <= groups.keys():
                groups["list"] = _as_list(groups["name"], _words_of(groups["value"]))
            return str(line.format(**groups))
    said, marked, key = text.partition("full_key: ")
    # behind the name of the key
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not marked or not key.split() or not lines:
        return text
    skipped = len(lines) > 1 and re.match(
        r"Error (merging override|in call to target|locating target)", lines[0]
    )
    return f"{key.split()[0]}: {' '.join(lines[bool(skipped) :])}"


def _meant(value: str) -> str | list[str]:
    """Returns the text, or the texts of a list, that a value stands for which Hydra cannot read."""
    is_list = value.startswith("[") and (value.endswith("]") or "]" not in value)
    return _words_of(value.removeprefix("[").removesuffix("]")) if is_list else value


def _as_list(name: str, words: list[str]) -> str:
    """Returns a setting of a list to paste; numbers are in quotes where they are names, as of columns."""
    if _NAMES.fullmatch(name) is None and all(map(_NUMERAL.fullmatch, words)):
        return shlex.quote(f"{name}=[{','.join(words)}]")
    return as_setting(name, words)


def _words_of(text: str) -> list[str]:
    """Returns what stands between commas, but for those in quotes, without quotes and blanks around it."""
    words = (word.strip(" '\"") for word in _BETWEEN_COMMAS.findall(text))
    return [word for word in words if word]


def _key_hint(error: Exception, key: str) -> str:
    """The keys that there are beside the unknown one, and which of them is near."""
    cause = error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(
        cause.parent_node, DictConfig
    ):
        return "; --help lists them"
    known = tuple(str(key) for key in cause.parent_node if key not in ("_target_", "hydra"))
    if known:
        part = key.partition(".")[0] if "." in key else ""
        near = papers_words.hint(str(cause.key), known, part=part) or nearest(str(cause.key), known)
        return f": one of {', '.join(known)}{near}"
    return (
        _HINTS["data"]
        if key.startswith("data.")
        else f"; with + before it, it becomes one: +{key}=…"
    )


def require_sound(config: DictConfig, schema: type, command: str) -> None:
    """Refuses a composed configuration with other keys than the command's, or with odd text."""
    fields = {field.name: field for field in dataclasses.fields(schema)}
    for key in map(str, config):
        if key not in fields:
            near = papers_words.hint(key, tuple(fields), part="") or nearest(key, tuple(fields))
            rule = f"a key of the configuration, + or not: one of {', '.join(fields)}{near}"
            raise InvalidValue(key, rule=rule)
    for name, field in fields.items():
        if OmegaConf.is_missing(config, name):
            continue
        if name not in config:
            rule = f"a value, found none; a file for --config-name begins with defaults: [{command}, _self_]"
            raise InvalidValue(name, rule=rule)
        is_part = name in GROUPS_OF_CLASSES and field.default == MISSING and field.type is Any
        if is_part and not isinstance(config[name], DictConfig):
            raise InvalidValue(
                name, config[name], rule=f"a _target_ and its settings, or {name}=NAME"
            )
    waiting: list[Any] = [OmegaConf.to_container(config, resolve=False)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (dict, list)):
            waiting[:0] = node.values() if isinstance(node, dict) else node
        elif isinstance(node, str) and _NO_TEXT.search(node):
            raise InvalidValue(f"{node!a}", rule="text in UTF-8 without a zero byte")
