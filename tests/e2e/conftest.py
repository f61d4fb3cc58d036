"""Fixtures that several files of runs share."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pate.run.train import train
from tests.e2e.small_run import small_plan, without_pictures


@pytest.fixture(scope="module", autouse=True)
def _no_pictures() -> Iterator[None]:
    """Replaces the drawing of pictures by nothing while the tests of a module run."""
    with without_pictures():
        yield


@pytest.fixture(scope="session")
def finished_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a finished small run. Tests read it and show it again, but never change it."""
    folder = tmp_path_factory.mktemp("run") / "out"
    with without_pictures():
        train(replace(small_plan(), all_records=True), output_dir=folder)
    return folder
