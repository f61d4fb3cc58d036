"""Prevalence bands: thirds of the labels by frequency, each with the mean average precision of every model."""

import numpy as np

from pate.report.bands import prevalence_bands


def test_bands_are_thirds_of_the_labels_from_frequent_to_rare() -> None:
    """Seven labels are split into bands of three, two and two.

    A label without an average precision is left out of the mean of its band. A band whose labels have no average
    precision has no mean.
    """
    prevalence_of_labels = np.array([0.01, 0.5, 0.02, 0.4, 0.3, 0.2, 0.1])
    precisions_by_model = {
        "student": np.array([np.nan, 0.9, 0.1, 0.8, 0.7, 0.4, 0.2]),
        "prior": np.array([np.nan, 0.5, np.nan, 0.4, 0.3, 0.2, 0.1]),
    }
    head, middle, tail = prevalence_bands(
        prevalence_of_labels=prevalence_of_labels, precisions_by_model=precisions_by_model
    )
    assert (head.name, head.num_labels, head.highest, head.lowest) == ("head", 3, 0.5, 0.3)
    assert (middle.num_labels, middle.highest, middle.lowest) == (2, 0.2, 0.1)
    assert (tail.num_labels, tail.highest, tail.lowest) == (2, 0.02, 0.01)
    means = [
        {model: mean if mean is None else round(mean, 9) for model, mean in scores.items()}
        for scores in (
            head.mean_average_precision,
            middle.mean_average_precision,
            tail.mean_average_precision,
        )
    ]
    assert means == [
        {"student": 0.8, "prior": 0.4},
        {"student": 0.3, "prior": 0.15},
        {"student": 0.1, "prior": None},
    ]


def test_two_labels_have_no_bands() -> None:
    """Fewer than three labels cannot be split into head, middle and tail, so there is no band."""
    assert prevalence_bands(prevalence_of_labels=np.array([0.5, 0.1]), precisions_by_model={}) == ()
