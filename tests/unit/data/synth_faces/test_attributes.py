import numpy as np
import pytest

from pate.data.synth_faces import (
    BLOCK,
    CORRELATIONS,
    LOADINGS,
    NAMES,
    NUM_PHOTOGRAPHS,
    POSITIVES,
    consistent,
    draw_attributes,
    thresholds,
)

COLUMN = {name: column for column, name in enumerate(NAMES)}
HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """20,480 attribute vectors of a seed that the thresholds were not made with."""
    return np.concatenate([draw_attributes(11, block) for block in range(80)])


def test_the_names_are_celebas() -> None:
    assert len(NAMES) == 40
    assert list(NAMES) == sorted(NAMES)
    assert (NAMES[0], NAMES[-1]) == ("5_o_Clock_Shadow", "Young")
    assert {name for pair in CORRELATIONS for name in pair} | set(LOADINGS) <= set(NAMES)


def test_marginals_are_within_002_of_celebas(drawn: np.ndarray) -> None:
    wanted = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    assert np.abs(drawn.mean(axis=0) - wanted).max() < 0.02
    assert drawn.sum(axis=1).mean() == pytest.approx(9.03, abs=0.15)
    assert np.maximum(wanted, 1 - wanted).mean() == pytest.approx(0.805, abs=0.001)


def test_the_marginals_need_the_thresholds_moved() -> None:
    """With the thresholds that would be right without the rules, they are off by more than 0.02."""
    share = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    latent = np.random.default_rng(0).standard_normal((20_000, 40))
    naive = consistent(latent - np.quantile(latent, 1 - share, axis=0).diagonal())
    assert np.abs(naive.mean(axis=0) - share).max() > 0.04


@pytest.mark.parametrize("pair", CORRELATIONS)
def test_the_main_correlations_are_within_015(drawn: np.ndarray, pair: tuple[str, str]) -> None:
    first, second = (drawn[:, COLUMN[name]] for name in pair)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(CORRELATIONS[pair], abs=0.15)


def test_the_rules_hold(drawn: np.ndarray) -> None:
    has = {name: drawn[:, COLUMN[name]] for name in NAMES}
    assert sum(has[name].astype(int) for name in HAIR).max() == 1
    for name in (*HAIR, "Straight_Hair", "Wavy_Hair", "Bangs", "Receding_Hairline"):
        assert not (has["Bald"] & has[name]).any()
    for name in ("Goatee", "Mustache", "Sideburns"):
        assert has[name].any()
        assert not (has[name] & has["No_Beard"]).any()
        assert not (has[name] & ~has["Male"]).any()
    for first, second in (("Straight_Hair", "Wavy_Hair"), ("Bangs", "Receding_Hairline")):
        assert not (has[first] & has[second]).any()
    assert has["No_Beard"][~has["Male"]].all()


def test_of_rivals_the_strongest_stays() -> None:
    excess = np.full((1, 40), -1.0)
    excess[0, [COLUMN["Black_Hair"], COLUMN["Gray_Hair"], COLUMN["Straight_Hair"], COLUMN["Wavy_Hair"]]] = [1, 2, 4, 3]
    held = {NAMES[column] for column in np.flatnonzero(consistent(excess)[0])}
    assert held == {"Gray_Hair", "Straight_Hair", "No_Beard"}


def test_blocks_depend_on_seed_and_number_alone() -> None:
    assert draw_attributes(3, 5).tolist() == draw_attributes(3, 5).tolist()
    assert draw_attributes(3, 5).shape == (BLOCK, 40)
    assert draw_attributes(3, 5).tolist() != draw_attributes(3, 6).tolist()
    assert draw_attributes(3, 5).tolist() != draw_attributes(4, 5).tolist()
    assert thresholds().tolist() == np.round(thresholds(), 3).tolist()
