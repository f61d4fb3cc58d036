"""Models of labels with gaps learn from the known ones alone."""

from __future__ import annotations

import numpy as np

from pate.aggregators.training_set import TrainingSet
from pate.models import LogisticStudent

RNG = np.random.default_rng(7)
INPUTS = RNG.normal(size=(400, 3)).astype(np.float32)
LABELS = INPUTS[:, :2] + 0.3 * RNG.normal(size=(400, 2)) > 0.5
KNOWN = RNG.random((400, 2)) < [0.4, 1.0]


def test_a_student_of_known_labels_ignores_what_unknown_ones_would_be() -> None:
    """The model is the same for any values of unknown labels, and right where they are unknown."""
    student = LogisticStudent()
    no_pool = INPUTS[:0]
    models = [
        student.learn(TrainingSet(INPUTS, labels, known=KNOWN), pool=no_pool, seed=0)
        for labels in (LABELS & KNOWN, LABELS | ~KNOWN)
    ]
    predictions = [model.predict_proba(INPUTS) for model in models]
    # the optimizer's losses differ by a constant of each unknown label
    np.testing.assert_allclose(predictions[0], predictions[1], atol=0.02)
    as_absent = student.fit(INPUTS, LABELS & KNOWN, seed=0).predict_proba(INPUTS)
    hidden = ~KNOWN[:, 0]
    right = ((predictions[0] >= 0.5) == LABELS)[hidden, 0].mean()
    assert right > 0.85 > ((as_absent >= 0.5) == LABELS)[hidden, 0].mean()
