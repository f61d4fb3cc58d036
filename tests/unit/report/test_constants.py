"""Constants to beat: the best one is the best of all sets of labels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pate.report.metrics import Constant


@pytest.mark.parametrize("seed", range(4))
def test_no_other_set_of_labels_has_a_better_micro_f1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.random((200, 6)) < rng.random(6) ** 2
    frequencies = true.mean(axis=0)
    best = Constant.best(frequencies).metrics(true).micro_f1
    others = [Constant(np.array(bits), frequencies) for bits in product((False, True), repeat=6)]
    assert best == max(other.metrics(true).micro_f1 for other in others)


def test_the_prior_has_the_best_accuracy_and_the_best_constant_the_better_f1() -> None:
    true = np.random.default_rng(0).random((500, 3)) < (0.45, 0.3, 0.05)
    prior, best = (Constant.named(name, true.mean(axis=0)).metrics(true) for name in ("prior", "best_constant"))
    assert prior.accuracy > best.accuracy
    assert prior.micro_f1 == 0.0 < best.micro_f1
    assert prior.mean_average_precision == best.mean_average_precision == pytest.approx(true.mean(), abs=1e-12)
