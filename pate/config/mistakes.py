"""Mistakes on a command line or in a file of settings that Hydra or OmegaConf finds, each explained in one line.

The line names the key, the rule and the value, as the line of an `InvalidValue` does.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from traceback import walk_tb

import yaml
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pate.config import papers_words
from pate.config.checks import require_choices
from pate.config.quoting import NAME_SETTINGS
from pate.config.schema import NUM_PUBLIC_LABELS_KEY, names_in_config_group
from pate.errors import Spelling
from pate.extras import how_to_install
from pate.setting_names import COMMAND
from pate.validation import InvalidValue, as_setting, nearest

# An item of a list, up to the next comma that stands in no quotes.
_LIST_ITEM = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])+""")
_NUMERAL = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
# The classes of errors that Hydra and OmegaConf raise if a file holds no mapping, or if a name is missing.
_GENERAL_ERRORS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
# Advice for an unknown member of a configuration group, by group.
_HINT_OF_GROUP = {
    "data": "; files of a table are data=table data.private=FILE data.public=FILE data.test=FILE",
    "hydra/launcher": f"; submitit's come with {how_to_install('slurm')}",
    "teacher": "; teacher=sklearn takes any classifier of scikit-learn (pate-train teacher=sklearn --help)",
}

# The settings of a run that mean the same as parameters of `PATEClassifier` and of `pate-schema`.
_SETTING_OF_PARAMETER = {
    "classes": "data.labels",
    "estimator": "teacher",
    "group": "data.group",
    "groups": "data.group",
    "labels": "data.labels",
    "n_queries": "num_queries",
    "n_teachers": "teacher.num_teachers",
    "random_state": "seed",
}


@dataclass(frozen=True)
class _KnownMistake:
    """A message of Hydra or OmegaConf, and the line that explains it to the user.

    Attributes:
        pattern: a regular expression that is searched for in a message. Its groups are some of `name` and `value` of a
            setting, and `file`.
        line_template: the line, in which the groups stand in braces. `{list}` is the setting with its value as a list.
    """

    pattern: str
    line_template: str

    def explain(self, error_message: str) -> str:
        """Returns the line for a message; an empty string if the regular expression is not found in the message."""
        message_match = re.search(self.pattern, error_message, re.DOTALL)
        if message_match is None:
            return ""
        text_by_group = message_match.groupdict()
        if {"name", "value"} <= text_by_group.keys():
            text_by_group["list"] = _as_list(
                text_by_group["name"], list_items=_list_items_of(text_by_group["value"])
            )
        return self.line_template.format(**text_by_group)


# A message is explained by the first of these that matches it.
_KNOWN_MISTAKES = (
    _KnownMistake(
        pattern=r"(?:Multiple values for |Error resolving interpolation '\$\{chosen:\$\{)(?P<name>\w+)",
        line_template="{name}: expected one member, and no + before the name: {name}=NAME; -m {name}=A,B runs several",
    ),
    _KnownMistake(
        pattern=r"Ambiguous value for argument '(?P<name>data\.split)=(?P<value>.*?)'\n",
        line_template="{name}={value}: expected a column; pate-schema split={value} deals one file to three",
    ),
    _KnownMistake(
        pattern=r"Ambiguous value for argument '(?P<name>[^=]+)=(?P<value>.*?)'\n",
        line_template="{name}={value}: expected one value, a list as {list}, or -m before it, which runs each",
    ),
    _KnownMistake(
        pattern=r"Missing mandatory value: \S+.*full_key: (?P<name>\S+)",
        line_template="{name}: expected a value, none is assumed: {name}=…",
    ),
    _KnownMistake(
        pattern=r"Missing mandatory value: (?P<name>\S+)",
        line_template="{name}: expected a value, none is assumed: {name}=…",
    ),
    _KnownMistake(
        pattern=r"Value '(?P<value>.*)' of type '[^']*' could not be converted to Integer.*full_key: (?P<name>\S+)",
        line_template="{name}={value}: expected a whole number",
    ),
    _KnownMistake(
        pattern=r"Value '(?P<value>.*)' of type '[^']*' could not be converted to Float.*full_key: (?P<name>\S+)",
        line_template="{name}={value}: expected a number",
    ),
    _KnownMistake(
        pattern=r"Value '(?P<value>.*)' (?:is not a valid bool|of .* to Boolean).*full_key: (?P<name>\S+)",
        line_template="{name}={value}: expected true or false",
    ),
    _KnownMistake(
        pattern=r"Value '(?P<value>.*)' of type '[^']*' could not be converted to.*full_key: (?P<name>\S+)",
        line_template="{name}={value}: expected another kind of value",
    ),
    _KnownMistake(
        pattern=r"field '[^']*' is not Optional.*full_key: (?P<name>\S+)",
        line_template="{name}=null: expected a value",
    ),
    _KnownMistake(
        pattern=r"Cannot convert '\w+' to string: '(?P<value>.*)'.*full_key: (?P<name>\S+)",
        line_template="{name}={value}: expected text, and no setting below it",
    ),
    _KnownMistake(
        pattern=r"is not a ListConfig, list or tuple.*full_key: (?P<name>\S+)",
        line_template="{name}: expected a list: '{name}=[VALUE,VALUE]'",
    ),
    _KnownMistake(
        pattern=r"In '(?P<file>[^']*)': ConfigKeyError.*full_key: (?P<name>\S+)",
        line_template="{name}: expected a key of the configuration, in {file}.yaml; --help lists them",
    ),
    _KnownMistake(
        pattern=r"In '(?P<file>[^']*)': ConfigTypeError",
        line_template="{file}.yaml: expected settings, NAME: VALUE on each line",
    ),
    _KnownMistake(
        pattern=r"Cannot find primary config '(?P<file>[^']*)'",
        line_template="--config-name={file}: expected the name of a file in the folder of configurations",
    ),
)


def explain(
    error: Exception, *, spelling: Spelling = COMMAND, arguments: Iterable[str] | None = None
) -> str | None:
    """Returns one line on a user's mistake in the settings of a command; None for an error that is no such mistake.

    An `InvalidValue` is a mistake, and so is an error of the types that Hydra and OmegaConf define. Both libraries also
    raise general Python errors if a file holds no mapping or a name is missing. Such an error counts as a mistake if it
    was raised while a configuration was composed, and not in our own code. Errors of YAML, and recursion that is too
    deep, always count while a configuration is composed.

    Args:
        error: the error.
        spelling: the names that the command has for parameters of the code.
        arguments: the arguments of the command line whose composition raised the error; None for an error that was
            raised later.
    """
    if isinstance(error, InvalidValue):
        return spelling.error_line(error)
    if isinstance(error, OverrideParseException):
        return _explain_grammar(error.override)
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        return _explain_composition(error)
    if arguments is None:
        return None
    mistake_in_settings = _mistake_while_composing(error, arguments)
    return None if mistake_in_settings is None else spelling.error_line(mistake_in_settings)


def _mistake_while_composing(error: Exception, arguments: Iterable[str]) -> InvalidValue | None:
    """Returns the mistake that a general Python error in Hydra or OmegaConf stands for; None if it is none.

    Args:
        error: the error, of neither Hydra's nor OmegaConf's own types.
        arguments: the arguments of the command line.
    """
    if isinstance(error, yaml.YAMLError):
        return _mistake_in_yaml(error)
    if isinstance(error, RecursionError):
        return InvalidValue(
            "defaults", rule="files that do not include themselves, nor values too deep"
        )
    if not isinstance(error, _GENERAL_ERRORS):
        return None
    *_, (raising_frame, _) = walk_tb(error.__traceback__)  # the frame in which the error was raised
    if str(raising_frame.f_globals.get("__name__")).startswith("pate."):
        return None
    if str(error).startswith("Config group override"):
        try:
            require_choices(arguments)
        except InvalidValue as refusal:
            return refusal
    return InvalidValue(
        "settings", rule=f"what Hydra can compose ({type(error).__name__}: {error})"
    )


def _mistake_in_yaml(error: yaml.YAMLError) -> InvalidValue:
    """Returns the mistake in a file that is no YAML, with the file and the line if the parser names them."""
    problem_mark = getattr(error, "problem_mark", None)
    yaml_problem = " ".join(str(getattr(error, "problem", None) or error).split())
    if problem_mark is None:
        return InvalidValue("settings", rule=f"settings in YAML ({yaml_problem})")
    return InvalidValue(
        "file",
        problem_mark.name,
        rule=f"settings in YAML (line {problem_mark.line + 1}: {yaml_problem})",
    )


def _explain_composition(error: Exception) -> str:
    """Returns one line on an error of Hydra or OmegaConf, which names the key or group, the rule and the value.

    For an error of an unknown kind this is the error's own message.
    """
    error_messages = [
        str(chained_error)
        for chained_error in (error, error.__cause__)
        if chained_error is not None
    ]
    # Hydra ends with its search path: the folders of this installation, which tell the user nothing.
    error_message = "\n".join(error_messages).partition("Config search path:")[0]
    explanation = _explain_member(error, error_message) or _explain_key(error, error_message)
    if explanation:
        return explanation
    for known_mistake in _KNOWN_MISTAKES:
        explanation = known_mistake.explain(error_message)
        if explanation:
            return explanation
    return _first_line(error_message)


def _explain_member(hydra_error: Exception, error_message: str) -> str:
    """Returns one line on a member that a configuration group does not have; empty for another mistake.

    Args:
        hydra_error: the error of Hydra.
        error_message: the messages of the error and of its cause.
    """
    message_match = re.search(r"Could not find '([^']+)'", error_message)
    if message_match is None:
        return ""
    group, _, member_name = message_match[1].rpartition("/")
    # Hydra's options include members in a folder of `--config-dir`.
    member_names = tuple(
        sorted({*(getattr(hydra_error, "options", None) or ()), *names_in_config_group(group)})
    )
    if not group or not member_names:
        return ""
    member_hint = nearest(member_name, choices=member_names) + _HINT_OF_GROUP.get(group, "")
    return f"{group}={member_name}: expected one of {', '.join(member_names)}{member_hint}"


def _explain_key(hydra_error: Exception, error_message: str) -> str:
    """Returns one line on a key that a configuration does not have; empty for another mistake.

    Args:
        hydra_error: the error of Hydra.
        error_message: the messages of the error and of its cause.
    """
    message_match = re.search(r"Could not override '([^']+)'", error_message)
    if message_match is None:
        return ""
    setting_key = message_match[1]
    return f"{setting_key}: expected a key of the configuration{_key_hint(hydra_error, setting_key=setting_key)}"


def _explain_grammar(override: str) -> str:
    """Returns one line on an argument, such as `NAME=VALUE`, that Hydra's grammar does not accept."""
    setting_name, equals, setting_value = override.partition("=")
    if not equals:
        return f"{override}: expected NAME=VALUE, no blank around the =; --help lists the names"
    rule = "in quotes within quotes where it has a blank or any of ~ ( ) [ ] { } , = '"
    quoted_setting = as_setting(setting_name, _intended_value(setting_value))
    return f"{override}: expected a value that Hydra can read, {rule}: {quoted_setting}"


def _first_line(whole_message: str) -> str:
    """Returns a message of OmegaConf that names a key as one line, which begins with the key.

    A message without a key is returned unchanged.
    """
    message, marker, message_after_key = whole_message.partition("full_key: ")
    message_lines = [
        message_line.strip() for message_line in message.splitlines() if message_line.strip()
    ]
    if not marker or not message_after_key.split() or not message_lines:
        return whole_message
    preamble_pattern = r"Error (merging override|in call to target|locating target)"
    if len(message_lines) > 1 and re.match(preamble_pattern, message_lines[0]):
        message_lines = message_lines[1:]
    return f"{message_after_key.split()[0]}: {' '.join(message_lines)}"


def _intended_value(unparsed_value: str) -> str | list[str]:
    """Returns the text, or list of texts, that the user probably meant by a value that Hydra cannot parse."""
    is_list = unparsed_value.startswith("[") and (
        unparsed_value.endswith("]") or "]" not in unparsed_value
    )
    return (
        _list_items_of(unparsed_value.removeprefix("[").removesuffix("]"))
        if is_list
        else unparsed_value
    )


def _as_list(setting_name: str, list_items: list[str]) -> str:
    """Returns a setting with a list as its value, in a form to paste into a shell.

    Numbers are quoted if the setting's values are names, such as names of columns.
    """
    if NAME_SETTINGS.fullmatch(setting_name) is None and all(map(_NUMERAL.fullmatch, list_items)):
        return shlex.quote(f"{setting_name}=[{','.join(list_items)}]")
    return as_setting(setting_name, value=list_items)


def _list_items_of(list_text: str) -> list[str]:
    """Returns the items between the commas of a text, without surrounding blanks and quotes and without empty items.

    A comma within quotes separates no items.
    """
    list_items = (list_item.strip(" '\"") for list_item in _LIST_ITEM.findall(list_text))
    return [list_item for list_item in list_items if list_item]


def _key_hint(hydra_error: Exception, setting_key: str) -> str:
    """Returns the end of a message on an unknown key: the keys that exist in its place, and advice on the one meant.

    If no key exists there, or the keys are not known, it says how to add the key or list all keys. For data without
    settings it says how to name the files of a table.

    Args:
        hydra_error: the error of Hydra, whose cause has the unknown key and its place.
        setting_key: the full name of the key, such as `aggregator.sigma`.
    """
    cause = hydra_error.__cause__
    if not isinstance(cause, OmegaConfBaseException) or not isinstance(
        cause.parent_node, DictConfig
    ):
        return "; --help lists them"
    known_names = tuple(
        str(known_name)
        for known_name in cause.parent_node
        if known_name not in ("_target_", "hydra")
    )
    reads_no_setting = set(known_names) <= {NUM_PUBLIC_LABELS_KEY}
    if setting_key.startswith("data.") and reads_no_setting:
        return _HINT_OF_GROUP["data"]
    if not known_names:
        return f"; with + before it, it becomes one: +{setting_key}=…"
    part_name = setting_key.partition(".")[0] if "." in setting_key else ""
    unknown_key = str(cause.key)
    # The first advice that is not empty is the best one.
    advice = (
        papers_words.hint(word=unknown_key, known_settings=known_names, part_name=part_name)
        or _other_place(unknown_key, known_settings=cause.parent_node)
        or nearest(unknown_key, choices=known_names)
    )
    return f": one of {', '.join(known_names)}{advice}"


def _other_place(unknown_key: str, known_settings: DictConfig) -> str:
    """Returns advice on an unknown key that belongs into a part, or that pate calls otherwise; empty for other keys.

    For `n_teachers` it is " (did you mean teacher.num_teachers?)".

    Args:
        unknown_key: the unknown key.
        known_settings: the known settings and parts, none of which is called `unknown_key`.
    """
    known_name = _SETTING_OF_PARAMETER.get(unknown_key, "")
    if known_name.partition(".")[0] not in known_settings:
        parts_with_key = [
            part_name
            for part_name in map(str, known_settings)
            if _has_key(known_settings, part_name=part_name, unknown_key=unknown_key)
        ]
        known_name = f"{parts_with_key[0]}.{unknown_key}" if parts_with_key else ""
    return f" (did you mean {known_name}?)" if known_name else ""


def _has_key(known_settings: DictConfig, part_name: str, unknown_key: str) -> bool:
    """Returns True if the setting `part_name` is a part with settings of its own, one of them called `unknown_key`."""
    if OmegaConf.is_missing(known_settings, part_name) or OmegaConf.is_interpolation(
        known_settings, part_name
    ):
        return False
    part_node = known_settings[part_name]
    return isinstance(part_node, DictConfig) and unknown_key in part_node
