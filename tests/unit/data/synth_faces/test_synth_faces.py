from pathlib import Path

import numpy as np
import pytest

from pate.data import SynthFaces
from pate.data.synth_faces import NAMES, draw_attributes
from pate.teachers import LinearTeacher, Shard
from pate.validation import InvalidValue

SMALL = {"num_private": 300, "num_public": 50, "num_test": 40, "image_size": 8}


def test_three_splits_of_images_that_say_that_they_are_synthetic() -> None:
    dataset = SynthFaces(**SMALL).load()
    assert (dataset.name, dataset.real, dataset.kind, dataset.label_names) == ("synth_faces", False, "images", NAMES)
    assert [len(split) for split in (dataset.private, dataset.public, dataset.test)] == [300, 50, 40]
    assert dataset.input_shape == (3, 8, 8)
    assert dataset.public.record_ids.tolist() == list(range(301, 351))
    assert dataset.private.labels[256:].tolist() == draw_attributes(0, 1)[:44].tolist()
    images = np.asarray(dataset.private.inputs)
    assert images.dtype == np.float32
    assert (images.min(), images.max()) >= (0, 0.9)
    assert images.max() <= 1


def test_the_first_faces_stay_where_more_are_drawn() -> None:
    few, more = (SynthFaces(**SMALL | {"num_private": n}).load().private for n in (10, 300))
    assert np.asarray(few.inputs).tolist() == more.inputs[:10].tolist()
    assert few.labels.tolist() == more.labels[:10].tolist()


def test_seeds_and_sizes_differ_and_equal_ones_do_not() -> None:
    digests = [SynthFaces(**SMALL | change).load().digest() for change in ({}, {"seed": 1}, {"image_size": 9}, {})]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


def test_cached_faces_are_those_drawn_in_memory(tmp_path: Path) -> None:
    drawn = SynthFaces(**SMALL).load()
    for _ in range(2):
        assert SynthFaces(**SMALL, cache=tmp_path).load().digest() == drawn.digest()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_linear_teacher_on_pixels_is_above_the_majority_for_several_labels() -> None:
    dataset = SynthFaces(num_private=600, num_public=1, num_test=600, image_size=16).load()
    teacher = LinearTeacher(threshold=0.5, device="cpu")
    states = teacher.fit_many([Shard(np.asarray(dataset.private.inputs), dataset.private.labels)], [0])
    votes = teacher.predict_many(states, np.asarray(dataset.test.inputs))[0] >= 0.5
    accuracy, share = (votes == dataset.test.labels).mean(axis=0), dataset.test.labels.mean(axis=0)
    assert (accuracy > np.maximum(share, 1 - share) + 0.03).sum() >= 5


def test_impossible_parameters_are_refused() -> None:
    for name in ("num_private", "num_public", "num_test", "image_size"):
        with pytest.raises(InvalidValue, match=rf"^{name}=0: expected a whole number >= 1$"):
            SynthFaces(**{name: 0})
    with pytest.raises(InvalidValue, match=r"^seed=-1: expected a whole number >= 0$"):
        SynthFaces(seed=-1)
