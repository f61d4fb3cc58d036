import numpy as np

from scripts.wordnet40.representation import STEPS, Representation

TEXTS = [f"{color} {shape} on a {color} table" for color in ("red", "blue", "green") for shape in ("cup", "jug")]


def test_codes_are_unit_vectors_times_127() -> None:
    codes = Representation.fit(TEXTS, num_dims=3).encode(TEXTS)
    assert codes.dtype == np.int8
    lengths = np.linalg.norm(codes / STEPS, axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=0.01)  # each of 3 entries is off by at most 0.5 / 127


def test_the_components_are_the_leading_singular_vectors() -> None:
    fitted = Representation.fit(TEXTS, num_dims=3)
    matrix = fitted.vectorizer.transform(TEXTS).toarray()
    _, values, rows = np.linalg.svd(matrix)
    assert values[2] - values[3] > 0.01
    np.testing.assert_allclose(np.abs(np.sum(rows[0] * fitted.components[:, 0])), 1.0, atol=1e-12)
    projector = fitted.components @ fitted.components.T
    np.testing.assert_allclose(projector, rows[:3].T @ rows[:3], atol=1e-12)


def test_the_sign_is_fixed_by_the_largest_entry() -> None:
    components = Representation.fit(TEXTS, num_dims=3).components
    assert (components[np.abs(components).argmax(axis=0), range(3)] > 0).all()


def test_a_text_is_encoded_by_itself() -> None:
    fitted = Representation.fit(TEXTS, num_dims=3)
    alone = fitted.encode(["a red jug"])
    among = fitted.encode(["other words entirely", "a red jug", "a green cup"])
    assert among[1].tolist() == alone[0].tolist()
    assert np.count_nonzero(alone) > 0


def test_a_text_of_unknown_words_is_zero() -> None:
    assert np.count_nonzero(Representation.fit(TEXTS, num_dims=3).encode(["nothing known here"])) == 0


def test_a_text_outside_the_components_is_zero_not_noise() -> None:
    """Two words that occur only together, and too seldom for the two leading components."""
    texts = [*TEXTS * 5, "lonely island", "lonely island"]
    fitted = Representation.fit(texts, num_dims=2)
    assert "lonely" in fitted.vectorizer.vocabulary_
    assert np.count_nonzero(fitted.encode(["lonely island"])) == 0
