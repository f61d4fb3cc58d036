"""Private records are in memory no longer than `train` runs, as its docstring says."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from pate.data import Dataset
from pate.run.train import train
from tests.e2e.small_run import SilentMonitor, small_plan


@pytest.mark.slow
def test_no_object_holds_private_records_after_a_run(tmp_path: Path) -> None:
    """After `train` has returned, nothing keeps the data set, its private split or the private inputs in memory."""
    plan = small_plan()
    private_objects: list[weakref.ref] = []

    def load() -> Dataset:
        dataset = plan.load_dataset()
        private = replace(dataset.private, inputs=dataset.private.inputs.copy())
        dataset = replace(dataset, private=private)
        private_objects.append(weakref.ref(dataset))
        private_objects.append(weakref.ref(private))
        private_objects.append(weakref.ref(private.inputs))
        return dataset

    report = train(
        replace(plan, load_dataset=load), output_dir=tmp_path / "run", monitor=SilentMonitor()
    )
    gc.collect()
    assert report.release.num_queries == plan.num_queries
    assert len(private_objects) == 3
    assert [private_object() for private_object in private_objects] == [None] * 3
