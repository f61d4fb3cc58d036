"""Checks of arguments, which raise an `InvalidValue` with the name, the value and the rule; texts for such errors."""

import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray
from pate.errors import InvalidValue as InvalidValue
from pate.errors import MissingPackage as MissingPackage
from pate.errors import printable as printable
from pate.extras import DISTRIBUTION

# The largest whole number that numpy's int64 holds.
_LARGEST_COUNT = 2**63 - 1
# An error lists at most this many columns, and shows at most this many characters of a text or a dtype.
_MAX_COLUMNS = 12
_MAX_SHOWN = 40
# A word that Hydra, OmegaConf and a shell read as it stands, and as a text.
_BARE = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_/][\w/.+@%-]*", re.ASCII | re.IGNORECASE)
# The squares of a million inputs up to 1e12 have a sum that float32 holds.
_LARGEST_INPUT = 1e12
# The names of numpy's kinds of dtype.
_KINDS = {"b": "bool", "i": "integers", "u": "unsigned integers", "f": "floats"}


def as_setting(name: str, value: object) -> str:
    """Returns a setting, `name=value`, that can be pasted into a shell.

    It has quotes if a shell, Hydra or OmegaConf would change the value. A list is written as Hydra reads lists.
    """
    if isinstance(value, (list, tuple)):
        return shlex.quote(f"{name}=[{','.join(map(_quoted, value))}]")
    return shlex.quote(f"{name}={_quoted(value)}")


def _quoted(value: object) -> str:
    """Returns a value as text, quoted and escaped if need be, so that Hydra and OmegaConf read the same text."""
    text = str(value)
    if _BARE.fullmatch(text):
        return text
    # Hydra: backslashes before a quote, or before the end, are doubled, and the quote gets a backslash.
    hydra_text = re.sub(
        r'(\\*)("|$)', lambda match: match[1] * 2 + match[2].replace('"', '\\"'), text
    )
    # OmegaConf: a backslash before ${ keeps the ${ from being read as an interpolation.
    omegaconf_text = re.sub(r"(\\*)\$\{", r"\1\1\\${", hydra_text)
    return f'"{omegaconf_text}"'


def require(condition: bool, name: str, value: object, rule: str, *, owner: str = "") -> None:
    """Raises `InvalidValue` unless a condition is true.

    The message has the name, the value and the rule, in this order:

    >>> noise_std = -1.0
    >>> require(noise_std > 0, "noise_std", noise_std, "a number > 0")
    Traceback (most recent call last):
    pate.errors.InvalidValue: noise_std=-1.0: expected a number > 0

    Args:
        condition: whether the value is accepted.
        name: the name of the parameter.
        value: the value of the parameter.
        rule: a noun phrase for the expected value, which follows the word "expected".
        owner: the object that the parameter belongs to, such as `aggregator`; empty for an argument.
    """
    if not condition:
        raise InvalidValue(name, value, rule=rule, owner=owner)


def normalize_field(instance: Any, name: str, value: Any) -> None:
    """Sets a field of a frozen dataclass to a normal form of its value, such as a tuple for a list.

    Only `__post_init__`, its helpers, and methods that have just copied an instance may call this function.
    """
    object.__setattr__(instance, name, value)


def require_kind(name: str, value: object, kind: type | tuple[type, ...], rule: str) -> None:
    """Raises `InvalidValue` unless a value is an instance of a class, or of one of several classes.

    Args:
        name: the name of the parameter.
        value: the value, whose class the error shows.
        kind: the class, or a tuple of classes.
        rule: a noun phrase for the expected value.
    """
    require(isinstance(value, kind), name, type(value).__name__, rule)


def require_each(name: str, values: NDArray[Any], holds: BoolArray, rule: str) -> None:
    """Raises `InvalidValue` unless a rule holds for each value; the error shows the first value for which it does not.

    Args:
        name: the name of the parameter.
        values: the values.
        holds: true for each value for which the rule holds, of the same shape.
        rule: a noun phrase for the expected values, which the error shows.
    """
    if not holds.all():
        raise InvalidValue(name, values[~holds].flat[0], rule=rule)


def require_entries(name: str, holds: BoolArray, rule: str) -> None:
    """Raises `InvalidValue` unless a rule holds for each entry of an array of private values.

    The error shows the position of the first entry for which the rule does not hold, and not its value.

    Args:
        name: the name of the parameter.
        holds: true for each entry for which the rule holds.
        rule: a noun phrase for the expected entries.
    """
    if not holds.all():
        position = np.unravel_index(int(np.argmin(holds)), holds.shape)
        raise InvalidValue(f"{name}[{', '.join(map(str, position))}]", rule=rule)


def require_array(name: str, values: Any, *, dtype_kinds: str | None = "biuf") -> NDArray[Any]:
    """Returns numbers or truth values as an array, which is a copy only if necessary.

    Values that numpy would convert wrongly or not at all are refused: masked entries, sparse matrices, and tensors that
    record gradients or are on another device.

    Args:
        name: the name of the parameter.
        values: the values.
        dtype_kinds: numpy's letters of the allowed kinds of dtype, such as "f" for floats; None allows all.
    """
    class_name = type(values).__name__
    # The module of masked arrays loads slowly. If nobody has loaded it, there are no masked arrays.
    if "numpy.ma" in sys.modules and np.ma.is_masked(values):
        rule = "an array without masked entries: .filled(…) says what they are"
        raise InvalidValue(name, class_name, rule=rule)
    # Sparse matrices of SciPy have the attribute `nnz`.
    if hasattr(type(values), "nnz"):
        raise InvalidValue(name, class_name, rule="a dense array: .toarray()")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidValue(name, rule="rows of equal length") from error
    except (
        TypeError,
        RuntimeError,
    ) as error:  # the errors of torch for tensors that numpy cannot read
        rule = "an array of numbers; of a tensor, .detach().cpu().numpy()"
        raise InvalidValue(name, class_name, rule=rule) from error
    if dtype_kinds is not None and array.dtype.kind not in dtype_kinds:
        rule = " or ".join(_KINDS[letter] for letter in dtype_kinds)
        raise InvalidValue(f"{name}.dtype", str(array.dtype)[:_MAX_SHOWN], rule=rule)
    return array


def require_moderate(name: str, inputs: NDArray[Any], *, allows_missing: bool = False) -> None:
    """Raises `InvalidValue` unless inputs are in [-1e12, 1e12], so that sums of their squares fit into float32.

    Args:
        name: the name of the parameter.
        inputs: the numbers.
        allows_missing: true allows NaN, which represents a missing value.
    """
    with np.errstate(invalid="ignore"):
        is_moderate = np.abs(inputs) <= _LARGEST_INPUT
    if allows_missing:
        is_moderate |= np.isnan(inputs)
    require_entries(name, is_moderate, rule=f"finite numbers up to {_LARGEST_INPUT:g}")


def require_features(name: str, inputs: Any) -> NDArray[Any]:
    """Returns the inputs of records as an array `[n, …]` of numbers, with at least one number for each of n records.

    Raises `InvalidValue` for numbers outside of [-1e12, 1e12], NaN included, or another shape.
    """
    input_array = require_array(name, inputs)
    require(input_array.ndim >= 2, f"{name}.shape", input_array.shape, "[n, …]")
    require(
        0 not in input_array.shape[1:],
        f"{name}.shape",
        input_array.shape,
        "at least one feature a record",
    )
    require_moderate(name, input_array)
    return input_array


def require_text(name: str, value: Any) -> str:
    """Returns a text; raises `InvalidValue` if it is no text, blank, or has an unprintable character."""
    require(isinstance(value, str), name, type(value).__name__, "text")
    require(
        bool(value.strip()) and value.isprintable(),
        name,
        repr(value[:_MAX_SHOWN]),
        "printable text, not empty",
    )
    return str(value)


def require_path(name: str, value: Any) -> str | os.PathLike[str]:
    """Returns the path of a file or folder unchanged; raises `InvalidValue` if the value is no path, or empty.

    Whether the file exists is not checked.
    """
    is_path = isinstance(value, (str, os.PathLike)) and bool(str(value))
    require(is_path, name, value, "the name of a file or folder, text")
    return value  # type: ignore[no-any-return]  # `require` has looked at its class


def require_rising(name: str, values: Sequence[float]) -> None:
    """Raises `InvalidValue` if a number is less than the number before, or is NaN; equal numbers may follow each other.

    The error shows the two numbers.
    """
    # A single number is compared with itself, as NaN is not equal to itself.
    compared_numbers = values if len(values) > 1 else [*values, *values]
    for low, high in pairwise(compared_numbers):
        if not low <= high:
            raise InvalidValue(name, f"{low}, {high}", rule="numbers that never decrease")


def _require_number(
    rule: str, holds: Callable[[Any], bool], name: str, value: float, *, owner: str = ""
) -> float:
    """Returns a number as a float; raises `InvalidValue` if the value is no number or `holds` is false of it.

    Args:
        rule: a noun phrase for the expected number.
        holds: the condition, a function of the number.
        name: the name of the parameter.
        value: the value of the parameter.
        owner: the object that the parameter belongs to; empty for an argument.
    """
    # A whole number of Python may be larger than any float; a bool is a whole number to Python.
    is_int = isinstance(value, int) and not isinstance(value, bool)
    is_small_int = is_int and abs(value) <= sys.float_info.max
    is_number = is_small_int or isinstance(value, (float, np.floating, np.integer))
    require(is_number and holds(value), name, value, rule, owner=owner)
    return float(value)


require_positive = partial(_require_number, "a number > 0", lambda value: 0 < value < math.inf)
require_non_negative = partial(
    _require_number, "a number >= 0", lambda value: 0 <= value < math.inf
)
require_probability = partial(_require_number, "a number in (0, 1)", lambda value: 0 < value < 1)


def require_count(name: str, value: int, *, minimum: int = 1) -> int:
    """Returns a whole number as an int; raises `InvalidValue` unless it is whole and in minimum..2**63-1."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    is_allowed = is_whole and minimum <= value <= _LARGEST_COUNT
    require(is_allowed, name, value, f"a whole number >= {minimum}")
    return int(value)


def require_histogram(
    name: str, counts: Any, *, largest_count: int, num_axes: int | None = None
) -> NDArray[np.integer]:
    """Returns vote counts as an array of integers; raises `InvalidValue` unless each is in 0..largest_count.

    Counts of another dtype or shape are refused, and so are no counts at all.

    Args:
        name: the name of the parameter.
        counts: the counts, `[num_labels]` or `[num_queries, num_labels]`.
        largest_count: the largest possible count, the number of teachers.
        num_axes: 1 or 2 allows only arrays with that number of axes; None allows both.
    """
    count_array = require_array(name, counts, dtype_kinds=None)
    allowed = {1: "[num_labels]", 2: "[num_queries, num_labels]"}
    allowed = allowed if num_axes is None else {num_axes: allowed[num_axes]}
    summed = "" if count_array.ndim != 3 else ", counts: votes of single teachers are summed first"
    require(
        count_array.ndim in allowed,
        f"{name}.shape",
        count_array.shape,
        " or ".join(allowed.values()) + summed,
    )
    require(
        count_array.size > 0, f"{name}.shape", count_array.shape, "at least one query and one label"
    )
    # The kind is compared first, as the text of a dtype takes as long as all other checks.
    if count_array.dtype.kind not in "iu":
        dtype_name = str(count_array.dtype)[:_MAX_SHOWN]
        raise InvalidValue(f"{name}.dtype", dtype_name, rule="integer vote counts")
    if int(count_array.min()) < 0 or int(count_array.max()) > largest_count:
        require_entries(
            name,
            (count_array >= 0) & (count_array <= largest_count),
            rule=f"counts in 0..{largest_count}",
        )
    return count_array


def require_generator(rng: Any) -> np.random.Generator:
    """Returns a random generator of numpy; raises `InvalidValue` for anything else.

    A seed, for example, is refused, as every call would draw the same noise from it.
    """
    require(
        isinstance(rng, np.random.Generator), "rng", rng, "a numpy.random.Generator, not a seed"
    )
    return rng  # type: ignore[no-any-return]  # `require` has looked at its class


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Returns a value that is one of `choices`; otherwise raises `InvalidValue`, which suggests a similar choice."""
    if value not in choices:
        similar_choices = nearest(value, choices=choices)
        rule = f"one of {', '.join(choices)}{similar_choices}"
        raise InvalidValue(name, value, rule=rule)
    return value


def nearest(value: str, choices: tuple[str, ...], *, least_similarity: float = 0.5) -> str:
    """Returns a suffix for an error, such as ` (did you mean stable_top_k?)`; "" if no choice is similar to the value.

    Args:
        value: the value that is no choice.
        choices: the values that are allowed.
        least_similarity: the smallest similarity of a choice that is named, between 0 and 1, as `difflib` measures it.
    """
    from difflib import get_close_matches

    close_choices = get_close_matches(str(value), choices, n=3, cutoff=least_similarity)
    return f" (did you mean {' or '.join(close_choices)}?)" if close_choices else ""


def nearest_column(value: str, names: Sequence[str]) -> str:
    """Returns the suffix of `nearest` for a column; if no column is similar, a list of the first dozen columns.

    Args:
        value: the word that is no column.
        names: the names of the columns.
    """
    listed = ", ".join(names[:_MAX_COLUMNS])
    if len(names) > _MAX_COLUMNS:
        listed += ", …"
    return nearest(value, choices=tuple(names)) or f", one of {listed}"


# The other project named `pate` may have replaced the file `pate/__init__.py`, or have removed it with itself.
if not hasattr(sys.modules["pate"], "__version__"):
    _remedy = f"uninstall `pate`, then install {DISTRIBUTION} again: pate.PATEClassifier and pate.load are gone"
    warnings.warn(f"pate/__init__.py is not that of {DISTRIBUTION}: {_remedy}", stacklevel=2)
