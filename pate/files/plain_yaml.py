"""YAML of somebody else's: what it may ask for is bounded before any of it is built."""

from typing import Any

import yaml

from pate.validation import InvalidValue

_DEEPEST = 50
_LONGEST = 2**16
_LARGEST = 2**23
# what PyYAML raises: its constructors let through what Python says of a date or a number that is none
_STRANGE = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class TooMuch(yaml.MarkedYAMLError):  # type: ignore[misc]  # which has no types
    """YAML that a short text makes large."""


def plain_loader(base: type[Any] = yaml.SafeLoader) -> type[Any]:
    """A loader of YAML that refuses what a short text can make large, such as aliases, as an error with its line."""

    class PlainLoader(base):  # type: ignore[misc]  # of any loader
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            for problem, found in (
                ("an alias; write the value itself", isinstance(event, yaml.AliasEvent)),
                ("values within values, too deep", self.depth >= _DEEPEST),
                (
                    "a value that is too long",
                    isinstance(event, yaml.ScalarEvent) and len(event.value) > _LONGEST,
                ),
                ("more than is read", event.start_mark.index > _LARGEST),
            ):
                if found:
                    raise TooMuch(None, None, problem, event.start_mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return PlainLoader


def read_yaml(text: str, name: str, rule: str) -> Any:
    """The value that a text says; raises `InvalidValue` for no YAML, or more than `plain_loader` reads."""
    try:
        return yaml.load(text, plain_loader())
    except _STRANGE as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        problem = f": {error.problem}" if isinstance(error, TooMuch) else ""
        raise InvalidValue(name, rule=f"{rule}{where}{problem}") from None
