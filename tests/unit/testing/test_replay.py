"""`replay` runs a function again on neighboring data with the same releases, and finds each kind of leak."""

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
from tests.refusals import refused_parameter

DATA = np.array([0.0, 1.0, 1.0, 0.0])
NEIGHBORING_DATA = np.array([5.0, 1.0, 1.0, 0.0])


@dataclass(frozen=True)
class Model:
    """A published model."""

    weight: float
    name: str = "mean"


def add_fixed_noise(exact: float) -> float:
    """Stands for a mechanism: adds a quarter."""
    return exact + 0.25


def release_mean(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Releases the clipped sum with noise, and returns the mean."""
    clipped_sum = np.clip(data, 0, 1).sum()
    noisy_sum = release_tape.query(
        "sum", exact=clipped_sum, add_noise=add_fixed_noise, sensitivity=1
    )
    return noisy_sum / 4


def test_a_sound_function_has_no_leaks() -> None:
    """A function that returns the same on both data sets, given the same releases, has no leaks."""
    result = replay(release_mean, data=DATA, neighbor=NEIGHBORING_DATA)
    assert result.leaks == ()
    assert result.parts == ("sum",)
    assert result.first.returned == result.second.returned == 2.25 / 4
    result.require_sound()


def scale_privately(data: np.ndarray, release_tape: ReleaseTape) -> Model:
    """Publishes the mean, divided by the private standard deviation."""
    mean = release_mean(data=data, release_tape=release_tape)
    return Model(weight=mean / float(data.std()))


def count_without_tape(data: np.ndarray, release_tape: ReleaseTape) -> dict[str, Any]:
    """Publishes the exact number of large rows, which is no release of the tape, beside the released mean."""
    return {
        "mean": release_mean(data=data, release_tape=release_tape),
        "large": [int((data > 2).sum())],
    }


def print_maximum(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Prints a private maximum."""
    sys.stdout.write(f"fits\nmaximum {data.max()}\n")
    return release_mean(data=data, release_tape=release_tape)


def warn_of_outlier(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Leaks by a warning whether a private number is above 2, and returns the released mean."""
    if data.max() > 2:
        warnings.warn("an outlier", stacklevel=1)
    return release_mean(data=data, release_tape=release_tape)


def refuse_outlier(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Refuses a private outlier."""
    if data.max() > 2:
        raise ValueError("an outlier")
    return release_mean(data=data, release_tape=release_tape)


def forget_to_clip(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Adds noise for a sensitivity of 1 to a sum that moves by 5."""
    return release_tape.query("sum", exact=data.sum(), add_noise=add_fixed_noise, sensitivity=1)


def draw_one() -> float:
    """Stands for a mechanism that reads no data."""
    return 1.0


def release_twice_if_large(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Releases a second part if a private number is large."""
    if data.max() > 2:
        release_tape.part("second", draw=draw_one)
    return release_mean(data=data, release_tape=release_tape)


def release_noise_of_private_shape(data: np.ndarray, release_tape: ReleaseTape) -> float:
    """Releases as many zeros, which stand for noise, as there are distinct private numbers."""

    def draw() -> dict[str, np.ndarray]:
        return {"values": np.zeros(len(np.unique(data)))}

    drawn = release_tape.part("noise", draw=draw)
    return float(drawn["values"].sum())


@pytest.mark.parametrize(
    ("leaky_function", "place"),
    [
        (scale_privately, "returned.weight"),
        (count_without_tape, "returned.large[0]"),
        (print_maximum, "stdout, line 2"),
        (warn_of_outlier, "warned, line 1"),
        (refuse_outlier, "refusal"),
        (forget_to_clip, "distance between the inputs of sum"),
        (release_twice_if_large, "part second"),
        (release_noise_of_private_shape, "form of part noise.values"),
    ],
    ids=["scale", "count", "print", "warning", "refusal", "clip", "second part", "shape"],
)
def test_a_leak_is_named_by_its_place(leaky_function: Callable[..., Any], place: str) -> None:
    """A difference besides the releases is a leak, and an error names its place."""
    with pytest.raises(Leaked) as caught:
        replay(leaky_function, data=DATA, neighbor=NEIGHBORING_DATA).require_sound()
    assert place in [leak.place for leak in caught.value.leaks]
    assert place in str(caught.value)


def test_a_part_that_is_not_released_again_is_a_leak() -> None:
    """A part that is released on the data, but not on the neighbor, is a leak."""
    leaks = replay(release_twice_if_large, data=NEIGHBORING_DATA, neighbor=DATA).leaks
    assert [str(leak) for leak in leaks] == [
        "part second: released on the data, not released on the neighbor"
    ]


def test_hidden_lines_are_not_compared() -> None:
    """Printed lines that `hidden` marks as seen by the owner only may differ."""

    def shows_maximum(line: str) -> bool:
        return line.startswith("maximum")

    result = replay(print_maximum, data=DATA, neighbor=NEIGHBORING_DATA, hidden=shows_maximum)
    assert result.leaks == ()


def test_files_of_a_returned_folder_are_compared(tmp_path: Path) -> None:
    """Files of a returned folder are compared: arrays, JSON and texts by entry, and other files by their bytes."""

    def draw_nothing() -> None:
        """Stands for a draw whose part of the release has no value."""

    def write(private_data: np.ndarray, release_tape: ReleaseTape) -> Path:
        release_tape.part("nothing", draw=draw_nothing)
        folder = tmp_path / "release"
        folder.mkdir(exist_ok=True)
        np.savez(folder / "arrays.npz", public=np.ones(2), private=private_data[:1])
        np.save(folder / "public.npy", np.ones(2))
        (folder / "card.json").write_text(f'{{"rows": 4, "first": {private_data[0]}}}')
        (folder / "card.md").write_text(f"a card\nof {private_data[0]}\n")
        (folder / "model.bin").write_bytes(b"\xff" + private_data[:1].tobytes())
        return folder

    places = [leak.place for leak in replay(write, data=DATA, neighbor=NEIGHBORING_DATA).leaks]
    assert places == [
        "returned.arrays.npz.private",
        "returned.card.json.first",
        "returned.card.md[1]",
        "returned.model.bin",
    ]


def test_an_aggregator_takes_the_tape_as_its_record() -> None:
    """An aggregator whose record is the tape of a replay releases the same labels on the neighbor, so nothing leaks."""

    def label(counts: np.ndarray, release_tape: ReleaseTape) -> np.ndarray:
        counted_votes = CountedVotes(counts, num_teachers=10)
        aggregator = GaussianVotes(noise_std=2.0)
        release = aggregator.release(
            counted_votes, rng=np.random.default_rng(0), record=release_tape
        )
        return release.labels

    counts = np.array([[5, 9], [1, 0]])
    neighboring_counts = counts + np.array([1, 0])
    result = replay(label, data=counts, neighbor=neighboring_counts)
    assert result.parts == ("release",)
    assert result.leaks == ()


def test_a_sensitivity_below_zero_is_refused() -> None:
    """A negative sensitivity is refused."""
    with refused_parameter("sensitivity", value=-1.0):
        ReleaseTape().query("sum", exact=1.0, add_noise=add_fixed_noise, sensitivity=-1.0)
