"""Names of values: equal for equal values only, whatever the order of their keys."""

from __future__ import annotations

import hashlib

import numpy as np

from pate.files.fingerprint import digest, full_text


def test_a_digest_is_that_of_the_sorted_json() -> None:
    expected = hashlib.sha256(b'{"a": 1, "b": [2.5, null]}').hexdigest()[:16]
    assert digest({"b": [2.5, None], "a": 1}) == digest({"a": 1, "b": [2.5, None]}) == expected
    assert len({digest(values) for values in ({"a": 1}, {"a": 2}, {"a": "1"}, {"b": 1}, [["a", 1]])}) == 5


def test_a_full_text_has_all_of_a_long_array() -> None:
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1
    assert repr(one) == repr(other)
    assert full_text(one) != full_text(other)
    assert full_text([one, {"a": (1,)}]) == full_text([one.copy(), {"a": (1,)}])
