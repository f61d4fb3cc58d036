"""Validation of arguments: every refusal is one line that names the argument, the rule and the value."""

import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.errors import InvalidValue as InvalidValue
from pate.errors import MissingPackage as MissingPackage
from pate.errors import printable as printable
from pate.extras import DISTRIBUTION

_LARGEST_COUNT = 2**63 - 1
_MOST_COLUMNS = 12
_SHOWN = 40
# to Hydra itself
_BARE = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_/][\w/.+@%-]*", re.ASCII | re.IGNORECASE)
_LARGEST_INPUT = 1e12
_KINDS = {"b": "bool", "i": "integers", "u": "unsigned integers", "f": "floats"}


def as_setting(name: str, value: object) -> str:
    """A setting to paste into a shell: what it, Hydra or OmegaConf would read otherwise, or run, stands in quotes."""

    def quoted(word: object) -> str:
        if _BARE.fullmatch(text := str(word)):
            return text
        escaped = re.sub(
            r'(\\*)("|$)', lambda found: found[1] * 2 + found[2].replace('"', '\\"'), text
        )
        # OmegaConf reads a backslash before ${ as one that takes its meaning away
        return '"{}"'.format(re.sub(r"(\\*)\$\{", r"\1\1\\${", escaped))

    said = (
        f"[{','.join(map(quoted, value))}]" if isinstance(value, (list, tuple)) else quoted(value)
    )
    return shlex.quote(f"{name}={said}")


def require(condition: bool, name: str, value: object, rule: str, *, owner: str = "") -> None:
    """Raises `InvalidValue` of a parameter, of the object `owner` if one is named, unless the condition holds."""
    if not condition:
        raise InvalidValue(name, value, rule=rule, owner=owner)


def rounded_up(value: float, digits: int = 6, rounding: str = ROUND_CEILING) -> str:
    """A number to so many digits that is not below it: the limit that a refusal names is enough for what it refuses."""
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))):.{digits}g}"


def rounded_down(value: float, digits: int = 4) -> str:
    """A number to so many digits that is not above it."""
    return rounded_up(value, digits, ROUND_FLOOR)


def normalize_field(instance: Any, name: str, value: Any) -> None:
    """Sets a field of a frozen dataclass to its normal form, such as a tuple for a list: in `__post_init__` alone."""
    object.__setattr__(instance, name, value)


def require_kind(name: str, value: object, kind: type | tuple[type, ...], rule: str) -> None:
    """Raises, with the name of the value's class, unless it is of that kind."""
    require(isinstance(value, kind), name, type(value).__name__, rule)


def require_each(name: str, values: NDArray[Any], holds: NDArray[np.bool_], rule: str) -> None:
    """Raises, with the first value of which the rule does not hold, unless it holds of each."""
    if not holds.all():
        require(False, name, values[~holds].flat[0], rule)


def require_entries(name: str, holds: NDArray[np.bool_], rule: str) -> None:
    """Raises, with the place of the first entry of which the rule does not hold; private values stay unsaid."""
    if not holds.all():
        place = np.unravel_index(int(np.argmin(holds)), holds.shape)
        raise InvalidValue(f"{name}[{', '.join(map(str, place))}]", rule=rule)


def require_array(name: str, values: Any, *, kinds: str | None = "biuf") -> NDArray[Any]:
    """Returns numbers or truth values as an array, a copy only where it has to be one, or raises.

    `kinds` are numpy's letters of the dtypes that are allowed, None all. What numpy would read otherwise than it is
    meant is refused: masked entries, sparse matrices, a tensor that records gradients or lies on another device.
    """
    kind = type(values).__name__
    if "numpy.ma" in sys.modules:  # which loads slowly; without it there are no masked arrays
        filled = "an array without masked entries: .filled(…) says what they are"
        require(not np.ma.is_masked(values), name, kind, filled)
    require(not hasattr(type(values), "nnz"), name, kind, "a dense array: .toarray()")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidValue(name, rule="rows of equal length") from error
    except (TypeError, RuntimeError) as error:  # what torch says of tensors that numpy cannot read
        rule = "an array of numbers; of a tensor, .detach().cpu().numpy()"
        raise InvalidValue(name, kind, rule=rule) from error
    if kinds is not None and array.dtype.kind not in kinds:
        rule = " or ".join(_KINDS[letter] for letter in kinds)
        raise InvalidValue(f"{name}.dtype", str(array.dtype)[:_SHOWN], rule=rule)
    return array


def require_moderate(name: str, inputs: NDArray[Any], *, missing: bool = False) -> None:
    """Raises unless all numbers, but for NaN where it is a value (`missing`), have squares with a sum in float32."""
    with np.errstate(invalid="ignore"):
        inside = np.abs(inputs) <= _LARGEST_INPUT
    require_entries(
        name,
        inside | np.isnan(inputs) if missing else inside,
        f"finite numbers up to {_LARGEST_INPUT:g}",
    )


def require_features(name: str, inputs: Any) -> NDArray[Any]:
    """Returns inputs `[n, …]` as an array of moderate numbers, at least one for each record, or raises."""
    array = require_array(name, inputs)
    require(array.ndim >= 2, f"{name}.shape", array.shape, "[n, …]")
    require(0 not in array.shape[1:], f"{name}.shape", array.shape, "at least one feature a record")
    require_moderate(name, array)
    return array


def require_text(name: str, value: Any) -> str:
    """Returns a name that fits on a line: text that is not empty and has no line break or control character."""
    require(isinstance(value, str), name, type(value).__name__, "text")
    require(
        bool(value.strip()) and value.isprintable(),
        name,
        repr(value[:_SHOWN]),
        "printable text, not empty",
    )
    return str(value)


def require_path(name: str, value: Any) -> str | os.PathLike[str]:
    """Returns the name of a file or folder as it is, or raises."""
    named = isinstance(value, (str, os.PathLike)) and bool(str(value))
    require(named, name, value, "the name of a file or folder, text")
    return value  # type: ignore[no-any-return]  # the line above


def require_rising(name: str, values: Sequence[float]) -> None:
    """Raises, with the first two that fall, unless no number is smaller than the one before; NaN falls."""
    # NaN is not even itself
    for low, high in pairwise(values if len(values) > 1 else [*values, *values]):
        if not low <= high:
            raise InvalidValue(name, f"{low}, {high}", rule="numbers that never decrease")


def _require_number(
    rule: str, holds: Callable[[Any], bool], name: str, value: float, *, owner: str = ""
) -> float:
    """Returns it as a float, or raises."""
    small = (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    )
    require(
        (small or isinstance(value, (float, np.floating, np.integer))) and holds(value),
        name,
        value,
        rule,
        owner=owner,
    )
    return float(value)


require_positive = partial(_require_number, "a number > 0", lambda value: 0 < value < math.inf)
require_non_negative = partial(
    _require_number, "a number >= 0", lambda value: 0 <= value < math.inf
)
require_probability = partial(_require_number, "a number in (0, 1)", lambda value: 0 < value < 1)


def require_count(name: str, value: int, *, minimum: int = 1) -> int:
    """Returns a whole number of at least `minimum` as an int, or raises."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(
        whole and minimum <= value <= _LARGEST_COUNT, name, value, f"a whole number >= {minimum}"
    )
    return int(value)


def require_histogram(
    name: str, counts: Any, *, num_teachers: int, rank: int | None = None
) -> NDArray[np.integer]:
    """Returns vote counts `[L]` or `[Q, L]` (of that rank), each in 0..num_teachers, in their own type, or raises."""
    array = require_array(name, counts, kinds=None)
    allowed = {1: "[num_labels]", 2: "[num_queries, num_labels]"}
    allowed = allowed if rank is None else {rank: allowed[rank]}
    summed = "" if array.ndim != 3 else ", counts: votes of single teachers are summed first"
    require(
        array.ndim in allowed, f"{name}.shape", array.shape, " or ".join(allowed.values()) + summed
    )
    require(array.size > 0, f"{name}.shape", array.shape, "at least one query and one label")
    # asked first, as the text of a dtype takes as long as the rest
    if array.dtype.kind not in "iu":
        require(False, f"{name}.dtype", str(array.dtype)[:_SHOWN], "integer vote counts")
    if int(array.min()) < 0 or int(array.max()) > num_teachers:
        require_entries(
            name, (array >= 0) & (array <= num_teachers), f"counts in 0..{num_teachers}"
        )
    return array


def require_generator(rng: Any) -> np.random.Generator:
    """Returns the generator, or raises: a seed would give every call the same noise."""
    require(
        isinstance(rng, np.random.Generator), "rng", rng, "a numpy.random.Generator, not a seed"
    )
    return rng  # type: ignore[no-any-return]  # the line above


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Returns `value` if it is among the choices, or raises naming the nearest."""
    if value not in choices:
        require(False, name, value, f"one of {', '.join(choices)}{nearest(value, choices)}")
    return value


def nearest(value: str, choices: tuple[str, ...]) -> str:
    """A suffix such as ` (did you mean stable_top_k?)`, empty where nothing is near."""
    from difflib import get_close_matches

    close = get_close_matches(str(value), choices, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def nearest_column(value: str, names: Sequence[str]) -> str:
    """What `nearest` gives; where nothing is near, the columns that there are, a dozen at most."""
    listed = ", ".join([*names[:_MOST_COLUMNS], *["…"] * (len(names) > _MOST_COLUMNS)])
    return nearest(value, tuple(names)) or f", one of {listed}"


if not hasattr(sys.modules["pate"], "__version__"):  # its other owner came later, or took it along
    _mend = f"uninstall `pate`, then install {DISTRIBUTION} again: pate.PATEClassifier and pate.load are gone"
    warnings.warn(f"pate/__init__.py is not that of {DISTRIBUTION}: {_mend}", stacklevel=2)
