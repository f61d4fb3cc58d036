"""Fixtures that several files of runs share."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pate.run.train import train
from tests.e2e.small_run import small_plan, without_pictures


@pytest.fixture(scope="module", autouse=True)
def _no_pictures() -> Iterator[None]:
    with without_pictures():
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished small run, which tests read and show again but never change."""
    folder = tmp_path_factory.mktemp("run") / "out"
    with without_pictures():
        train(replace(small_plan(), all_records=True), folder)
    return folder
