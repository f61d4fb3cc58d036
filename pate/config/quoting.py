"""The quotes that Hydra's grammar needs around some values, and that users should not have to know.

A path may have brackets, equal signs or accented letters, or begin with a blank. The name of a column may look like a
number. A separator such as `;` is meant literally. Hydra refuses such a value or reads something else, unless it is
quoted. So a command quotes such values before Hydra receives them.
"""

import os
import re
import shlex

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from pate.config.schema import PATH_SETTINGS
from pate.settings import names_with
from pate.validation import as_setting

# A value with one of these characters is already written for Hydra, or is a mistake that an error explains.
_HYDRA_CHARACTERS = set("'\"\\${}()=")
# The characters that divide a list into items.
_LIST_MARKS = re.compile(r"([\[\],])")
# A value that is a single mark, such as a separator of labels.
_PUNCTUATION_MARK = re.compile(r"[,;:'\"~#&!<>^`\s]")
# Two shares of the records, such as .1,.1
_SHARES = re.compile(r"[\d.]+,[\d.]+")
# Names of several members of a group, such as table,digits
_MEMBERS = re.compile(r"\w+(?:,\w+)+")
# Characters that Hydra takes for no text unless they are quoted.
_NO_HYDRA_TEXT = re.compile(r"[^\x00-\x7f]|[~&#!;<>^`]")
# The settings whose values are names of columns or words of cells, even where these look like numbers or truth values.
NAME_SETTINGS = re.compile(
    r"data\.(labels|drop|category|text|missing|inputs|group|id|budget|split|file|true)|"
    + "|".join(sorted(names_with("is_name")))
)
# The settings whose values are taken literally.
_LITERAL_SETTINGS = PATH_SETTINGS | names_with("is_text")
# Names that Hydra reads as numbers, truth values or null.
_READ_BY_HYDRA_AS_VALUE = re.compile(
    r"[+-]?\.?\d[\w.+-]*|true|false|null|[+-]?(?:nan|inf)", re.IGNORECASE
)


def quote_argument(argument: str, *, in_sweep: bool = False) -> str:
    """Returns an argument of a command line in a form that Hydra can parse, with quotes around its value where needed.

    A path or a free text is taken literally, unless it is quoted, null or an interpolation, is a list of vote files or
    of members of the group `data`, or the command line asks for a sweep.

    Args:
        argument: the argument.
        in_sweep: whether commas separate the values of several runs.
    """
    setting_key, equals, setting_value = argument.partition("=")
    setting_name = setting_key.lstrip("+")
    if equals and not in_sweep and _is_literal(setting_name, setting_value):
        return f"{setting_key}={_quote_text(setting_name, setting_value)}"
    is_one_mark = _PUNCTUATION_MARK.fullmatch(setting_value) is not None
    if is_one_mark or (setting_key == "split" and _SHARES.fullmatch(setting_value)):
        quote = '"' if setting_value == "'" else "'"
        return f"{setting_key}={quote}{setting_value}{quote}"
    if not equals or argument.startswith("-") or _HYDRA_CHARACTERS & set(setting_value):
        return argument
    is_list = setting_value.startswith("[")
    if is_list and not setting_value.endswith("]"):
        # Hydra refuses a list without its end, and `mistakes.explain` shows it with quotes around the whole.
        return argument
    list_parts = _LIST_MARKS.split(setting_value)
    # In a value that is no list, a comma separates the jobs of a sweep. The value null is no name.
    is_one_name = len(list_parts) == 1 and setting_value.lower() != "null"
    are_names = NAME_SETTINGS.fullmatch(setting_key) is not None and (is_list or is_one_name)
    return f"{setting_key}={''.join(_quote_part(list_part, are_names=are_names) for list_part in list_parts)}"


def _quote_part(list_part: str, *, are_names: bool) -> str:
    """Returns an item or a mark (bracket or comma) of a list, in quotes if Hydra would not read it as this text.

    Args:
        list_part: the item or mark.
        are_names: whether items are names, which stay text where they look like numbers.
    """
    stripped_part = list_part.strip()
    is_no_text = _NO_HYDRA_TEXT.search(list_part) is not None
    is_misread = are_names and _READ_BY_HYDRA_AS_VALUE.fullmatch(stripped_part) is not None
    return f'"{stripped_part}"' if is_no_text or is_misread else list_part


def _is_literal(setting_name: str, setting_value: str) -> bool:
    """Returns True if a setting's value is the path of a file or folder, or free text.

    `data=A,B` names members of a group instead, and `votes` may be a list.
    """
    names_members = setting_name == "data" and _MEMBERS.fullmatch(setting_value) is not None
    is_list_of_votes = (
        setting_name == "votes" and setting_value.startswith("[") and setting_value.endswith("]")
    )
    return setting_name in _LITERAL_SETTINGS and not names_members and not is_list_of_votes


def _quote_text(setting_name: str, setting_text: str) -> str:
    """Returns a path or free text in a form that Hydra can parse.

    Empty texts, null, `???`, interpolations and quoted texts are unchanged. In Hydra's own settings, ~ is expanded.

    Args:
        setting_name: the name of the setting that has the text as its value.
        setting_text: the text.
    """
    if setting_name.startswith("hydra."):
        # Hydra reads its own settings before any configuration is composed, and expands no ~.
        setting_text = os.path.expanduser(setting_text)
    in_quotes = (
        len(setting_text) > 1 and setting_text[0] == setting_text[-1] and setting_text[0] in "'\""
    )
    if setting_text in ("", "null", "???") or "${" in setting_text or in_quotes:
        return setting_text
    try:
        hydra_value = (
            OverridesParser.create().parse_override(f"{setting_name}={setting_text}").value()
        )
    except HydraException:
        hydra_value = None
    if isinstance(hydra_value, str) and (hydra_value == setting_text or "\\" in setting_text):
        return setting_text
    (quoted_setting,) = shlex.split(
        as_setting(setting_name, setting_text)
    )  # without the quotes for a shell
    return quoted_setting.partition("=")[2]
