"""The model of all private records: when it is trained, the reason if it is not, and the mean losses of its epochs."""

from dataclasses import replace

import numpy as np
import pytest

from pate.data import Dataset, Split
from pate.data.embedded import DigitsGrid
from pate.run.baselines import reason_without_all_records
from pate.run.ensemble import mean_by_epoch


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """Returns the data set of composed digits."""
    return DigitsGrid().load()


@pytest.mark.slow
def test_the_setting_or_the_size_decides_about_a_model_of_all_records(digits: Dataset) -> None:
    """The setting `all_records` decides whether the model is trained, and the size of the data if the setting is None.

    For images, the model is then trained if all private ones together have at most 20 million numbers. Otherwise the
    reason is returned.
    """
    assert reason_without_all_records(wants_all_records_model=True, dataset=digits) is None
    assert (
        reason_without_all_records(wants_all_records_model=False, dataset=digits)
        == "all_records=false"
    )
    assert reason_without_all_records(wants_all_records_model=None, dataset=digits) is None
    num_values = len(digits.private) * int(np.prod(digits.input_shape))
    num_copies = 2 * 10**7 // num_values + 1
    repeated_split = repeated_private_records(dataset=digits, num_copies=num_copies)
    reason = reason_without_all_records(
        wants_all_records_model=None, dataset=replace(digits, private=repeated_split)
    )
    assert (
        reason
        == f"it takes long on {num_copies * num_values:,} numbers of private inputs; all_records=true trains it"
    )


def repeated_private_records(dataset: Dataset, num_copies: int) -> Split:
    """Returns `num_copies` copies of all private records; each has a new id and is a group of its own."""
    private = dataset.private
    splits = (private, dataset.public, dataset.test)
    first_id = max(int(split.record_ids.max()) for split in splits) + 1
    ids = np.arange(first_id, first_id + num_copies * len(private))
    copies_of_inputs = np.broadcast_to(private.inputs, (num_copies, *private.inputs.shape))
    return replace(
        private,
        inputs=copies_of_inputs.reshape(-1, *dataset.input_shape),
        labels=np.tile(private.labels, (num_copies, 1)),
        record_ids=ids,
        group_ids=ids,
    )


def test_losses_of_steps_are_averaged_over_each_epoch() -> None:
    """The losses of four steps in two epochs are averaged by epoch.

    If there are no more losses than epochs, all losses stay as they are.
    """
    np.testing.assert_allclose(
        mean_by_epoch(np.array([4.0, 2.0, 1.0, 3.0], np.float32), num_epochs=2), [3.0, 2.0]
    )
    np.testing.assert_allclose(mean_by_epoch(np.array([4.0, 2.0]), num_epochs=5), [4.0, 2.0])
    np.testing.assert_allclose(mean_by_epoch(np.array([0.5]), num_epochs=1), [0.5])
