"""Scores that were released with noise: their texts, their intervals, and values that are refused."""

from collections.abc import Mapping

import pytest

from pate.report.released_scores import ReleasedScore, ReleasedScores
from tests.refusals import refused_parameter

SCORE = ReleasedScore(value=0.5, low=0.4001, high=0.5999)


def make_scores(
    *, epsilon: float = 0.25, subgroups: Mapping[str, Mapping[str, ReleasedScore]] | None = None
) -> ReleasedScores:
    """Returns scores of 100 groups that are all one half.

    Args:
        epsilon: the price of the scores.
        subgroups: the micro-F1 of subgroups; None for no subgroups.
    """
    return ReleasedScores(
        epsilon=epsilon,
        delta=1e-6,
        unit="one row",
        noise_multiplier=15.0,
        num_groups=100,
        micro_f1=SCORE,
        accuracy=SCORE,
        macro_f1=SCORE,
        mean_average_precision=SCORE,
        calibration_error=SCORE,
        subgroups=subgroups or {},
    )


def test_ends_of_an_interval_are_rounded_outwards() -> None:
    """An interval from 0.4001 to 0.5999 is printed as one from 0.400 to 0.600."""
    assert str(SCORE) == "0.500 (0.400 to 0.600)"


def test_rows_hold_price_scores_and_subgroups() -> None:
    """The rows of released scores are the price, each score, and the score of each subgroup."""
    rows = dict(make_scores(subgroups={"sex": {"f": SCORE}}).rows)
    assert rows["epsilon of the scores"] == "0.2500"
    assert rows["micro-F1 on test records"] == str(SCORE)
    assert rows["micro-F1 on test records, sex = f"] == str(SCORE)


@pytest.mark.parametrize(("low", "value"), [(0.6, 0.5), (-0.1, 0.5), (0.0, 1.2)])
def test_score_outside_of_its_interval_is_refused(low: float, value: float) -> None:
    """A score above 1, or below its interval, is refused, and so is an interval that begins below 0."""
    with refused_parameter(
        "score", value=f"{low:g}, {value:g}, 1", rule_words="low <= value <= high"
    ):
        ReleasedScore(value=value, low=low, high=1.0)


def test_price_of_zero_is_refused() -> None:
    """A price of 0 is refused for scores, as they have noise."""
    with refused_parameter("scores.epsilon", value=0.0):
        make_scores(epsilon=0.0)
