"""The classifier and a run of pate-train on the same data: the same seed gives the same release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from pate import PATEClassifier
from pate.aggregators import ClippedVotes
from pate.classifier.fits import SeededNoise
from pate.data import DigitsGrid

SIZES = {"num_private": 450, "num_public": 70, "num_test": 50}
NUM_TEACHERS, NUM_QUERIES, SEED = 15, 60, 7
EPSILON = 60.0
TREE = ["teacher.estimator._target_=sklearn.tree.DecisionTreeClassifier"]


def run_of(folder: Path, *settings: str) -> dict[str, np.ndarray]:
    """What pate-train releases, by array."""
    sizes = [f"data.{name}={value}" for name, value in SIZES.items()]
    command = [sys.executable, "-m", "pate.cli.train", "data=digits_grid", "teacher=sklearn", *sizes, *settings]
    command += [f"teacher.num_teachers={NUM_TEACHERS}", f"num_queries={NUM_QUERIES}", f"seed={SEED}"]
    subprocess.run([*command, f"target_epsilon={EPSILON}", f"output_dir={folder}"], env=os.environ, check=True)
    with np.load(folder / "release" / "release.npz") as arrays:
        return dict(arrays)


def test_the_same_seed_gives_the_release_of_a_run(tmp_path: Path) -> None:
    """With an estimator that is fitted once for all labels, and an aggregator that reads each teacher's votes."""
    data = DigitsGrid(**SIZES).load()
    model = PATEClassifier(
        DecisionTreeClassifier(),
        n_teachers=NUM_TEACHERS,
        aggregator=ClippedVotes(noise_std=40.0, vote_clip=4, norm="l2"),
        epsilon=EPSILON,
        n_queries=NUM_QUERIES,
        random_state=SEED,
    )
    private, public = (split.inputs.reshape(len(split), -1) for split in (data.private, data.public))
    with pytest.warns(SeededNoise, match="protects nobody"):
        model.fit(private, data.private.labels.astype(int), public, groups=data.private.group_ids)
    released = run_of(tmp_path / "run", *TREE, "aggregator=clipped_votes", "aggregator.norm=l2")
    np.testing.assert_array_equal(model.release_.labels, released["labels"])
    np.testing.assert_array_equal(model.release_.answered, released["answered"])
    assert 0 < released["labels"].mean() < 1
