"""Replay of a run on neighboring data with the same releases: nothing else that the run shows may differ.

`replay` calls a function twice. The first call, on data D, records each part that the function releases. The second
call, on a neighbor D', computes everything anew, but receives the recorded parts in place of its own. All other output
of the two calls does not come from a release that was paid for: a file, a printed line, a refusal, or the number of
parts. If such output differs, it leaks private data, with any amount of noise.

A test of this kind needs no proof and no statistics. It finds leaks beside a mechanism: a scaler that was fitted on
private rows, a vocabulary, a count, a refusal that reads labels. It cannot show that a mechanism adds enough noise;
`verify` and attacks test that.

Source: "Re:cord-play" (dp-recorder), arXiv 2602.17454, 2026.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np

from pate.validation import require, require_choice, require_non_negative

Data = TypeVar("Data")
Value = TypeVar("Value")
# The largest length of a value in a leak, in characters.
_MAX_LENGTH = 80
# The relative rounding error of a distance between inputs.
_ROUNDING = 1e-9
# The order of each norm, by its name.
_NORMS = {"1": 1.0, "2": 2.0, "inf": np.inf}


@dataclass(frozen=True)
class Leak:
    """A value that differs between two runs, although both have the same releases.

    Attributes:
        place: the place where the value was shown, such as `returned.scaler.mean` or `stdout, line 3`.
        first: the value of the run on D, in words.
        second: the value of the run on D', in words.
    """

    place: str
    first: str
    second: str

    def __str__(self) -> str:
        """Returns the place and both values in one line."""
        return f"{self.place}: {self.first} on the data, {self.second} on the neighbor"


class Leaked(AssertionError):
    """The error that two runs differ although both have the same releases; `leaks` holds the differences."""

    def __init__(self, leaks: Sequence[Leak]) -> None:
        lines = "\n".join(f"  {leak}" for leak in leaks)
        super().__init__(f"{len(leaks)} differences besides what was released:\n{lines}")
        self.leaks = tuple(leaks)


class ReleaseTape:
    """A recording of all parts that a run releases: made in the first of two runs, and played back in the second.

    A tape has the methods of `pate.aggregators.record.ReleaseRecord`, so an aggregator takes it in place of a record.
    """

    def __init__(self) -> None:
        """Makes an empty tape, for the first run."""
        # The parts of the first run, by name.
        self._recorded_parts: dict[str, Any] = {}
        # The exact numbers of queries in the first run, by name.
        self._exact_numbers_of_part: dict[str, Any] = {}
        # The parts that the current run has received, by name.
        self._received_parts: dict[str, Any] = {}
        # Whether the second run has begun.
        self._is_frozen = False
        self.leaks: list[Leak] = []

    def part(self, name: str, draw: Callable[[], Value]) -> Value:
        """Returns a part of the release: the result of `draw` in the first run, and the same again in the second run.

        In the second run `draw` is called as well, as it may refuse or print. Its result is dropped, after its type,
        its shapes and its names were compared with those of the recorded part. A name that the first run has not
        released is a leak; then the result of `draw` is returned.

        Args:
            name: the name of the part; a second call with the same name in a run returns the same part.
            draw: computes and releases the part. All private data that it reads are covered by the price of the part.
        """
        if name in self._received_parts:
            return cast(Value, self._received_parts[name])
        drawn_part = draw()
        if not self._is_frozen:
            self._recorded_parts[name] = drawn_part
        elif name not in self._recorded_parts:
            leak = Leak(place=f"part {name}", first="not released", second="released")
            self.leaks.append(leak)
        else:
            recorded_part = self._recorded_parts[name]
            self.leaks += differences(
                value_on_data=_type_and_shape_of(recorded_part),
                value_on_neighbor=_type_and_shape_of(drawn_part),
                place=f"form of part {name}",
            )
            drawn_part = recorded_part
        self._received_parts[name] = drawn_part
        return drawn_part

    def query(
        self,
        name: str,
        exact: Any,
        add_noise: Callable[[Any], Value],
        *,
        sensitivity: float,
        norm: str = "2",
    ) -> Value:
        """Returns a part of the release that is exact numbers with noise, and compares the exact numbers of both runs.

        In the second run, exact numbers that are further from those of the first run than `sensitivity` are a leak.

        Args:
            name: the name of the part.
            exact: the numbers before noise, an array or a number.
            add_noise: returns the numbers with noise, for the exact numbers.
            sensitivity: the largest distance between the exact numbers of neighbors, for which the noise is, >= 0.
            norm: the norm of the distance: "1", "2" or "inf".
        """
        require_non_negative("sensitivity", sensitivity)
        require_choice("norm", norm, choices=tuple(_NORMS))
        exact_numbers = np.asarray(exact, dtype=np.float64).ravel()
        if self._is_frozen and name in self._exact_numbers_of_part:
            recorded_numbers = self._exact_numbers_of_part[name]
            place = f"distance between the inputs of {name}"
            if recorded_numbers.shape != exact_numbers.shape:
                leak = Leak(
                    place=place,
                    first=f"{len(recorded_numbers)} numbers",
                    second=str(len(exact_numbers)),
                )
                self.leaks.append(leak)
            else:
                distance = float(np.linalg.norm(exact_numbers - recorded_numbers, ord=_NORMS[norm]))
                if not distance <= sensitivity * (1 + _ROUNDING):
                    leak = Leak(
                        place=place, first=f"at most {sensitivity:g}", second=f"{distance:g}"
                    )
                    self.leaks.append(leak)
        self._exact_numbers_of_part.setdefault(name, exact_numbers)
        return self.part(name, draw=lambda: add_noise(exact))

    def committed(self, name: str) -> Any:
        """Returns the part with a name, if the current run has released it; None otherwise."""
        return self._received_parts.get(name)

    def freeze(self) -> None:
        """Ends the first run. From now on `part` and `query` return the recorded parts."""
        self._is_frozen = True
        self._received_parts = {}

    def missing_parts(self) -> list[Leak]:
        """Returns a leak for each recorded part that the second run has not released."""
        return [
            Leak(place=f"part {name}", first="released", second="not released")
            for name in self._recorded_parts
            if name not in self._received_parts
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the recorded parts, in the order in which they were released."""
        return tuple(self._recorded_parts)


@dataclass(frozen=True)
class Shown:
    """The output of one run of a function, without the parts that it releases.

    Attributes:
        returned: the value that the function returned, with the content of files for a `Path`; None after an error.
        refusal: the type and the text of the error that the function raised; empty if it returned.
        stdout: the lines that the function printed.
        stderr: the lines that the function printed on standard error.
        warned: the texts of all warnings.
    """

    returned: Any
    refusal: str
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]
    warned: tuple[str, ...]


@dataclass(frozen=True)
class Replay(Generic[Value]):
    """The result of two runs, on data and on a neighbor, with the same releases.

    Attributes:
        leaks: all differences besides the releases; empty for a sound run.
        parts: the names of the parts that were released, in order.
        first: the output of the run on the data.
        second: the output of the run on the neighbor.
    """

    leaks: tuple[Leak, ...]
    parts: tuple[str, ...]
    first: Shown
    second: Shown

    def require_sound(self) -> None:
        """Raises `Leaked` if there are leaks."""
        if self.leaks:
            raise Leaked(self.leaks)


def replay(
    run: Callable[[Data, ReleaseTape], Any],
    data: Data,
    neighbor: Data,
    *,
    hidden: Callable[[str], bool] | None = None,
) -> Replay[Any]:
    """Runs a function on data and on neighboring data, and returns all differences that the releases do not explain.

    The second run receives the releases of the first run in place of its own.

    The function takes the data and a tape, and returns all that it publishes. It makes each release inside
    `release_tape.part`, or inside `release_tape.query` for numbers with noise, whose sensitivity is then checked too.
    Values are compared by content: arrays with dtype and shape, dataclasses by field, mappings, lists and tuples by
    entry. If the function returns a `Path`, the files there are compared. Errors of type `Exception` count as refusals,
    which are compared. Anything random besides releases needs a fixed seed in the function.

    Args:
        run: the function.
        data: the data D.
        neighbor: data D' that differ from D in one unit of privacy. A good neighbor is extreme: its unit has values
            that occur nowhere else, other labels, and more records where a unit may have several.
        hidden: returns True for a printed line that only the owner of the data sees, or that shows a time; None hides
            no line.

    >>> def mean(numbers, release_tape):
    ...     total = release_tape.query("total", sum(numbers), lambda exact: exact + 0.3, sensitivity=1)
    ...     return total / len(numbers)
    >>> replay(mean, [0, 1, 1], [0, 1, 0]).leaks
    ()
    >>> print(replay(mean, [0, 1, 1], [0, 1]).leaks[0])
    returned: 0.7666666666666666 on the data, 1.15 on the neighbor
    """
    release_tape = ReleaseTape()
    first_output = _run_once(run, data=data, release_tape=release_tape)
    release_tape.freeze()
    second_output = _run_once(run, data=neighbor, release_tape=release_tape)
    leaks = [*release_tape.leaks, *release_tape.missing_parts()]
    leaks += differences(
        value_on_data=first_output.refusal, value_on_neighbor=second_output.refusal, place="refusal"
    )
    if not first_output.refusal and not second_output.refusal:
        leaks += differences(
            value_on_data=first_output.returned,
            value_on_neighbor=second_output.returned,
            place="returned",
        )
    for output_name in ("stdout", "stderr", "warned"):
        first_lines = _visible_lines(getattr(first_output, output_name), is_hidden=hidden)
        second_lines = _visible_lines(getattr(second_output, output_name), is_hidden=hidden)
        lines = zip_longest(first_lines, second_lines, fillvalue="")
        for number, (first_line, second_line) in enumerate(lines, start=1):
            leaks += differences(
                value_on_data=first_line,
                value_on_neighbor=second_line,
                place=f"{output_name}, line {number}",
            )
    return Replay(
        leaks=tuple(leaks), parts=release_tape.names, first=first_output, second=second_output
    )


def _visible_lines(lines: Sequence[str], *, is_hidden: Callable[[str], bool] | None) -> list[str]:
    """Returns the lines for which `is_hidden` returns False; all lines if `is_hidden` is None."""
    return [line for line in lines if is_hidden is None or not is_hidden(line)]


def _run_once(
    run: Callable[[Data, ReleaseTape], Any], *, data: Data, release_tape: ReleaseTape
) -> Shown:
    """Calls a function with data and a tape, and returns what it shows: its result or error, prints and warnings."""
    stdout = io.StringIO()
    stderr = io.StringIO()
    returned_value = None
    refusal = ""
    with (
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            returned_value = run(data, release_tape)
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}"
    return Shown(
        returned=_with_files_read(returned_value),
        refusal=refusal,
        stdout=tuple(stdout.getvalue().splitlines()),
        stderr=tuple(stderr.getvalue().splitlines()),
        warned=tuple(str(warning.message) for warning in warned),
    )


def _with_files_read(returned_value: Any) -> Any:
    """Returns the content of the file for a `Path`, as a later run may change it; other values unchanged.

    For a folder the result is a dictionary of the content of each file by its path in the folder.
    """
    if not isinstance(returned_value, Path):
        return returned_value
    if returned_value.is_file():
        return _parsed_content(returned_value.name, file_bytes=returned_value.read_bytes())
    require(
        returned_value.is_dir(), "returned", returned_value, rule="a file or a folder that is there"
    )
    return {
        path.relative_to(returned_value).as_posix(): _parsed_content(
            path.name, file_bytes=path.read_bytes()
        )
        for path in sorted(returned_value.rglob("*"))
        if path.is_file()
    }


def _parsed_content(file_name: str, *, file_bytes: bytes) -> Any:
    """Returns the content of a file: arrays of .npz and .npy, values of .json, lines of texts, or else bytes."""
    if file_name.endswith(".npz"):
        with np.load(io.BytesIO(file_bytes), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    if file_name.endswith(".npy"):
        return np.load(io.BytesIO(file_bytes), allow_pickle=False)
    try:
        text = file_bytes.decode("utf-8")
        return json.loads(text) if file_name.endswith(".json") else text.splitlines()
    except ValueError:
        return file_bytes


def _type_and_shape_of(value: Any) -> Any:
    """Returns the form of a value: the type and shape of an array, the form by name of a mapping, or else the type."""
    if isinstance(value, Mapping):
        return {str(name): _type_and_shape_of(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    return type(value).__name__


def differences(value_on_data: Any, value_on_neighbor: Any, place: str) -> Iterator[Leak]:
    """Yields a leak for each place in which two values differ.

    Args:
        value_on_data: the value of the run on D.
        value_on_neighbor: the value of the run on D'.
        place: the name of the place of both values.
    """
    if type(value_on_data) is not type(value_on_neighbor):
        yield _leak_of(value_on_data, value_on_neighbor, place=place)
    elif isinstance(value_on_data, np.ndarray):
        same_form = (
            value_on_data.dtype == value_on_neighbor.dtype
            and value_on_data.shape == value_on_neighbor.shape
        )
        if not same_form or value_on_data.tobytes() != value_on_neighbor.tobytes():
            yield _leak_of(value_on_data, value_on_neighbor, place=place)
    elif isinstance(value_on_data, Mapping):
        further_names = [name for name in value_on_neighbor if name not in value_on_data]
        for name in [*value_on_data, *further_names]:
            entry_on_data = value_on_data.get(name, _ABSENT)
            entry_on_neighbor = value_on_neighbor.get(name, _ABSENT)
            yield from differences(
                value_on_data=entry_on_data,
                value_on_neighbor=entry_on_neighbor,
                place=f"{place}.{name}",
            )
    elif isinstance(value_on_data, (list, tuple)):
        entries = zip_longest(value_on_data, value_on_neighbor, fillvalue=_ABSENT)
        for index, (entry_on_data, entry_on_neighbor) in enumerate(entries):
            yield from differences(
                value_on_data=entry_on_data,
                value_on_neighbor=entry_on_neighbor,
                place=f"{place}[{index}]",
            )
    elif is_dataclass(value_on_data):
        for field in fields(value_on_data):
            field_on_data = getattr(value_on_data, field.name)
            field_on_neighbor = getattr(value_on_neighbor, field.name)
            yield from differences(
                value_on_data=field_on_data,
                value_on_neighbor=field_on_neighbor,
                place=f"{place}.{field.name}",
            )
    else:
        are_both_nan = value_on_data != value_on_data and value_on_neighbor != value_on_neighbor
        if value_on_data != value_on_neighbor and not are_both_nan:
            yield _leak_of(value_on_data, value_on_neighbor, place=place)


def _leak_of(value_on_data: Any, value_on_neighbor: Any, *, place: str) -> Leak:
    """Returns a leak at a place, with two different values in words."""
    return Leak(place=place, first=_in_words(value_on_data), second=_in_words(value_on_neighbor))


class _Absent:
    """The type of `_ABSENT`, which stands for an entry that only one of two compared values has."""

    def __repr__(self) -> str:
        """Returns "nothing", by which a leak names a missing entry."""
        return "nothing"


_ABSENT = _Absent()


def _in_words(compared_value: Any) -> str:
    """Returns a value as text, cut off after some characters; of a longer array its type, shape and first entries."""
    if isinstance(compared_value, np.ndarray) and compared_value.size > 1:
        first_entries = compared_value.ravel()[:3].tolist()
        text = f"{compared_value.dtype} {list(compared_value.shape)} {first_entries}..."
    else:
        text = repr(compared_value)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
