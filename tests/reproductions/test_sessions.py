"""Tables of target-charging sessions have the figures that the specification prints, digit by digit."""

import pytest

from pate.accounting.target_charging import QTarget, boundary, not_prior
from reproductions.target_charging.sessions import coarse_epsilon, epsilon_table, main, target_table


@pytest.mark.parametrize(
    ("target", "printed"),
    [
        (boundary(call_epsilon=0.05), ["1.97", "2.70", "3.26", "4.12", "5.39"]),
        (boundary(call_epsilon=0.1), ["4.25", "5.92", "7.26", "9.30", "12.4"]),
        (not_prior(call_epsilon=0.05), ["0.95", "1.33", "1.63", "2.08", "2.73"]),
    ],
)
def test_epsilons_of_the_coarse_split_and_a_better_one(target: QTarget, printed: list[str]) -> None:
    table = epsilon_table(target)
    assert [hits for hits, _, _ in table] == [1, 5, 10, 20, 40]
    for (_, coarse, best), digits in zip(table, printed, strict=True):
        assert f"{coarse:.{len(digits.split('.')[1])}f}" == digits
        assert 0.97 * coarse < best <= coarse


def test_the_claim_of_three_private_tests() -> None:
    assert (
        f"{coarse_epsilon(not_prior(call_epsilon=0.1), target_hits=3, target_delta=1e-5):.3f}"
        == "2.083"
    )


def test_hit_probabilities() -> None:
    """The hit probabilities q of the boundary wrapper and of running twice are those of the specification.

    At epsilon 0.05, 0.2 and 1, that of running twice is less than 0.1% below the smallest one that a search found.
    """
    table = {
        epsilon: (wide, tight, twice) for epsilon, _, _, _, wide, _, tight, twice in target_table()
    }
    assert f"{table[0.05][0]:.4f}" == "0.2786"
    assert f"{table[1.0][0]:.4f}" == "0.1500"
    assert [f"{table[epsilon][2]:.4f}" for epsilon in (0.1, 0.5, 1.0)] == [
        "0.4988",
        "0.4700",
        "0.3348",
    ]
    for epsilon, smallest_found in ((0.05, 0.4999), (0.2, 0.4951), (1.0, 0.335)):
        assert 0.999 * smallest_found < table[epsilon][2] < smallest_found


def test_the_command_prints_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr().out
    assert "  50    309       378" in printed
    assert "not prior, 0.05 per call" in printed
    assert "    300   13.5" in printed
