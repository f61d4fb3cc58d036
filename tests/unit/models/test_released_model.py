"""The features of a released student, which the student of a later release may take over."""

import numpy as np
import pytest

from pate.accounting.special import expit
from pate.models.released_model import ReleasedModel

INPUTS = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
NUM_LABELS = 3


@pytest.mark.parametrize(
    ("num_weights", "kind"), [(4, "released"), (7, "released"), (17, "released_kernel")]
)
def test_features_times_weights_are_log_odds(num_weights: int, kind: str) -> None:
    """Features have length 1, and their products with the weights are the log-odds of the model.

    Four features are principal directions of the public inputs. Seven are all six directions and the height (the
    feature for the length of an input), and 17 are these seven and ten of a kernel. A model with a kernel has another
    `kind`.
    """
    weights = np.random.default_rng(1).standard_normal((num_weights + 1, NUM_LABELS))
    model = ReleasedModel.from_weights(weights, public_inputs=INPUTS, num_rows=100)
    assert model.kind == kind
    features = model.features(INPUTS)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1)
    logits = features @ model.arrays["weights"] + model.arrays["bias"]
    np.testing.assert_allclose(model.predict_proba(INPUTS), expit(logits), atol=1e-5)
