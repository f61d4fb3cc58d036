"""When the model of all private records is trained, and the reason where it is not; the losses of an epoch."""

from dataclasses import replace

import numpy as np
import pytest

from pate.data import Dataset
from pate.data.embedded import DigitsGrid
from pate.run.baselines import reason_without_all_records
from pate.run.ensemble import mean_by_epoch


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """Returns the data set of composed digits."""
    return DigitsGrid().load()


@pytest.mark.slow
def test_the_setting_or_the_size_decides_about_a_model_of_all_records(digits: Dataset) -> None:
    """`all_records` decides; if it is None, the model is trained below 20 million numbers.

    Else the reason is returned.
    """
    assert reason_without_all_records(all_records=True, dataset=digits) is None
    assert reason_without_all_records(all_records=False, dataset=digits) == "all_records=false"
    assert reason_without_all_records(all_records=None, dataset=digits) is None
    values = len(digits.private) * int(np.prod(digits.input_shape))
    count = 2 * 10**7 // values + 1
    inputs = np.broadcast_to(digits.private.inputs, (count, *digits.private.inputs.shape)).reshape(
        -1, *digits.input_shape
    )
    repeated_split = replace(digits.private, inputs=inputs, **_repeated(data=digits, count=count))
    reason = reason_without_all_records(
        all_records=None, dataset=replace(digits, private=repeated_split)
    )
    assert (
        reason
        == f"it takes long on {count * values:,} numbers of private inputs; all_records=true trains it"
    )


def _repeated(data: Dataset, count: int) -> dict[str, np.ndarray]:
    """Returns labels, ids and groups of `count` copies of the private records."""
    total = count * len(data.private)
    first = (
        int(
            max(
                data.private.record_ids.max(),
                data.public.record_ids.max(),
                data.test.record_ids.max(),
            )
        )
        + 1
    )
    ids = np.arange(first, first + total)
    return {"labels": np.tile(data.private.labels, (count, 1)), "record_ids": ids, "group_ids": ids}


def test_losses_of_steps_are_averaged_over_each_epoch() -> None:
    """Losses of four steps in two epochs are averaged by epoch. With fewer losses than epochs they stay."""
    np.testing.assert_allclose(
        mean_by_epoch(np.array([4.0, 2.0, 1.0, 3.0], np.float32), num_epochs=2), [3.0, 2.0]
    )
    np.testing.assert_allclose(mean_by_epoch(np.array([4.0, 2.0]), num_epochs=5), [4.0, 2.0])
    np.testing.assert_allclose(mean_by_epoch(np.array([0.5]), num_epochs=1), [0.5])
