"""Released scores: their words, their ranges, and what is refused."""

import pytest

from pate.report.released_scores import NAMES, ReleasedScore, ReleasedScores
from tests.refusals import refused

SCORE = ReleasedScore(value=0.5, low=0.4001, high=0.5999)


def scores(**changed: object) -> ReleasedScores:
    """Returns scores that are all one half, with changed fields."""
    values: dict[str, object] = dict.fromkeys(NAMES, SCORE)
    values |= {"epsilon": 0.25, "delta": 1e-6, "unit": "one row", "noise_multiplier": 15.0}
    values |= {"num_groups": 100, **changed}
    return ReleasedScores(**values)  # type: ignore[arg-type]  # values of several types by name


def test_ends_of_an_interval_are_rounded_outwards() -> None:
    assert str(SCORE) == "0.500 (0.400 to 0.600)"


def test_rows_hold_price_scores_and_subgroups() -> None:
    """Each score has a row, and each value of a subgroup."""
    rows = dict(scores(subgroups={"sex": {"f": SCORE}}).rows)
    assert rows["epsilon of the scores"] == "0.2500"
    assert rows["micro-F1 on test records"] == str(SCORE)
    assert rows["micro-F1 on test records, sex = f"] == str(SCORE)


@pytest.mark.parametrize(("low", "value"), [(0.6, 0.5), (-0.1, 0.5), (0.0, 1.2)])
def test_score_outside_of_its_interval_is_refused(low: float, value: float) -> None:
    with refused("score", value=f"{low:g}, {value:g}, 1", rule="low <= value <= high"):
        ReleasedScore(value=value, low=low, high=1.0)


def test_price_of_zero_is_refused() -> None:
    with refused("scores.epsilon", value=0.0):
        scores(epsilon=0.0)
