"""Fixtures that several files of end-to-end tests share."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pate.run.train import train
from tests.e2e.small_run import small_plan, without_pictures


@pytest.fixture(scope="module", autouse=True)
def _no_pictures() -> Iterator[None]:
    """Leaves pictures out of the reports while the tests of a module run."""
    with without_pictures():
        yield


@pytest.fixture(scope="session")
def finished_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a finished small run, which the tests may read but must not change."""
    folder = tmp_path_factory.mktemp("run") / "out"
    with without_pictures():
        train(replace(small_plan(), all_records=True), output_dir=folder)
    return folder
