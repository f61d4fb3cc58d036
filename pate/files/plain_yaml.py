"""A reader of YAML from untrusted sources, which limits the memory that a text can take."""

from typing import Any

import yaml

from pate.validation import InvalidValue

# The most levels of values within values.
_MAX_DEPTH = 50
# The most characters of one value, and of the text before the beginning of a value.
_MAX_VALUE_LENGTH = 2**16
_MAX_TEXT_LENGTH = 2**23
# The errors of PyYAML. Its constructors let errors of Python through, such as the ValueError for the date 2001-02-30.
_YAML_ERRORS = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class TooMuch(yaml.MarkedYAMLError):  # type: ignore[misc]  # PyYAML is untyped
    """The error for a YAML text that may take much memory."""


def loader_with_limits(base: type[Any] = yaml.SafeLoader) -> type[Any]:
    """Returns a loader class of PyYAML that refuses what may take much memory.

    The loader refuses every alias, more than 50 levels of values within values, a value of more than 2**16 characters,
    and a value that begins after more than 2**23 characters of the text. It raises `TooMuch` with the line.

    Args:
        base: the loader class that it extends.
    """

    class LoaderWithLimits(base):  # type: ignore[misc]  # `base` is any loader
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            problem = None
            if isinstance(event, yaml.AliasEvent):
                problem = "an alias; write the value itself"
            elif self.depth >= _MAX_DEPTH:
                problem = "values within values, too deep"
            elif isinstance(event, yaml.ScalarEvent) and len(event.value) > _MAX_VALUE_LENGTH:
                problem = "a value that is too long"
            elif event.start_mark.index > _MAX_TEXT_LENGTH:
                problem = "more than is read"
            if problem is not None:
                raise TooMuch(None, None, problem, event.start_mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return LoaderWithLimits


def read_yaml(yaml_text: str, name: str, rule: str) -> Any:
    """Returns the value of a YAML text.

    Args:
        yaml_text: the YAML text.
        name: the parameter that errors name.
        rule: a description of the expected text, for the error.

    Raises:
        InvalidValue: the text is no YAML, or `loader_with_limits` refuses it. The error has the line if
            PyYAML names it.
    """
    try:
        return yaml.load(yaml_text, loader_with_limits())
    except _YAML_ERRORS as error:
        problem_mark = getattr(error, "problem_mark", None)
        line_text = "" if problem_mark is None else f", line {problem_mark.line + 1}"
        problem_text = f": {error.problem}" if isinstance(error, TooMuch) else ""
        raise InvalidValue(name, rule=f"{rule}{line_text}{problem_text}") from None
