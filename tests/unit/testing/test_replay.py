"""Small functions whose second run, on a neighbor with the same releases, must show what they leak."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.aggregators import GaussianVotes
from pate.testing import Leaked, ReleaseTape, replay
from pate.votes.arrays import CountedVotes
from tests.refusals import refused

DATA = np.array([0.0, 1.0, 1.0, 0.0])
NEIGHBOR = np.array([5.0, 1.0, 1.0, 0.0])


@dataclass(frozen=True)
class Model:
    """A published model."""

    weight: float
    name: str = "mean"


def released_mean(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Releases the clipped sum with noise, and returns the mean."""
    clipped = np.clip(data, 0, 1).sum()
    return release_tape.query("sum", clipped, lambda exact: exact + 0.25, sensitivity=1) / 4


def test_a_sound_function_has_no_leaks() -> None:
    """Two runs with the same releases return the same."""
    result = replay(released_mean, DATA, NEIGHBOR)
    assert result.leaks == ()
    assert result.parts == ("sum",)
    assert result.first.returned == result.second.returned == 2.25 / 4
    result.require_sound()


def scaled(data: np.ndarray, release_tape: ReleaseTape) -> Model:
    """Publishes the mean, divided by the private standard deviation."""
    return Model(weight=released_mean(data=data, release_tape=release_tape) / float(data.std()))


def counted(data: np.ndarray, release_tape: ReleaseTape) -> dict[str, Any]:
    """Publishes the number of large rows."""
    return {
        "mean": released_mean(data=data, release_tape=release_tape),
        "large": [int((data > 2).sum())],
    }


def printed(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Prints a private maximum."""
    sys.stdout.write(f"fits\nmaximum {data.max()}\n")
    return released_mean(data=data, release_tape=release_tape)


def warned(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Warns of a private outlier."""
    if data.max() > 2:
        warnings.warn("an outlier", stacklevel=1)
    return released_mean(data=data, release_tape=release_tape)


def refusing(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Refuses a private outlier."""
    if data.max() > 2:
        raise ValueError("an outlier")
    return released_mean(data=data, release_tape=release_tape)


def unclipped(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Adds noise for a sensitivity of 1 to a sum that moves by 5."""
    return release_tape.query("sum", data.sum(), lambda exact: exact + 0.25, sensitivity=1)


def adaptive(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Releases a second part where a private number is large."""
    if data.max() > 2:
        release_tape.part("second", lambda: 1.0)
    return released_mean(data=data, release_tape=release_tape)


def shaped(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Releases noise for each distinct private number."""
    drawn = release_tape.part("noise", lambda: {"values": np.zeros(len(np.unique(data)))})
    return float(drawn["values"].sum())


@pytest.mark.parametrize(
    ("run", "place"),
    [
        (scaled, "returned.weight"),
        (counted, "returned.large[0]"),
        (printed, "stdout, line 2"),
        (warned, "warned, line 1"),
        (refusing, "refusal"),
        (unclipped, "distance between the inputs of sum"),
        (adaptive, "part second"),
        (shaped, "form of part noise.values"),
    ],
)
def test_a_leak_is_named_by_its_place(run: Callable[..., Any], place: str) -> None:
    """What differs besides the releases is a leak, and an error names its place."""
    with pytest.raises(Leaked) as caught:
        replay(run, DATA, NEIGHBOR).require_sound()
    assert place in [leak.place for leak in caught.value.leaks]
    assert place in str(caught.value)


def test_a_part_that_is_not_released_again_is_a_leak() -> None:
    """The neighbor of the neighbor lacks a part."""
    leaks = replay(adaptive, NEIGHBOR, DATA).leaks
    assert [str(leak) for leak in leaks] == [
        "part second: released on the data, not released on the neighbor"
    ]


def test_hidden_lines_are_not_compared() -> None:
    """A line that only the owner sees may differ."""
    result = replay(printed, DATA, NEIGHBOR, hidden=lambda line: line.startswith("maximum"))
    assert result.leaks == ()


def test_files_of_a_returned_folder_are_compared(tmp_path: Path) -> None:
    """Arrays, JSON and texts are compared by entry, other files by their bytes."""

    def write(data: np.ndarray, release_tape: ReleaseTape) -> Path:
        release_tape.part("nothing", lambda: None)
        folder = tmp_path / "release"
        folder.mkdir(exist_ok=True)
        np.savez(folder / "arrays.npz", public=np.ones(2), private=data[:1])
        np.save(folder / "public.npy", np.ones(2))
        (folder / "card.json").write_text(f'{{"rows": 4, "first": {data[0]}}}')
        (folder / "card.md").write_text(f"a card\nof {data[0]}\n")
        (folder / "model.bin").write_bytes(b"\xff" + data[:1].tobytes())
        return folder

    places = [leak.place for leak in replay(write, DATA, NEIGHBOR).leaks]
    assert places == [
        "returned.arrays.npz.private",
        "returned.card.json.first",
        "returned.card.md[1]",
        "returned.model.bin",
    ]


def test_an_aggregator_takes_the_tape_as_its_record() -> None:
    """A release of an aggregator is frozen, so its labels are equal on the neighbor."""

    def label(counts: np.ndarray, release_tape: ReleaseTape) -> np.ndarray:
        votes = CountedVotes(counts, num_teachers=10)
        aggregator = GaussianVotes(noise_std=2.0)
        return aggregator.release(votes, np.random.default_rng(0), release_tape).labels

    counts = np.array([[5, 9], [1, 0]])
    result = replay(label, counts, counts + np.array([1, 0]))
    assert result.parts == ("release",)
    assert result.leaks == ()


def test_a_sensitivity_below_zero_is_refused() -> None:
    """A distance cannot be negative."""
    with refused("sensitivity", value=-1.0):
        ReleaseTape().query("sum", 1.0, float, sensitivity=-1.0)
