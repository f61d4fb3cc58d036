"""Hooks and fixtures for all tests, which keep tests apart from each other and from the machine."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ProcessGuard

# Tests run without a GPU, as equal bytes are promised on a processor alone. This has to be set before torch is loaded.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# A shell starts jobs in the background with Ctrl-C ignored, and nohup starts them with hang-ups ignored. Tests send
# both signals to their children, which inherit what is ignored.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Fails tests that start a process without the marker for it, and lets no test wait for the disk or for garbage."""
    config.pluginmanager.register(ProcessGuard())
    os.fsync = _write_later
    # With the usual thresholds, a tenth of the time goes into passes over objects that live on.
    gc.set_threshold(20_000, 10, 10)


def _write_later(fd: object) -> None:
    """Does nothing in place of `os.fsync`, for only a power cut would tell the difference.

    A small run asks for 65 writes to the disk, which take a third of its time. Processes that tests start do wait.
    """


def pytest_collection_finish() -> None:
    """Keeps the thousands of collected tests, which live to the end, out of each garbage collection."""
    gc.freeze()


def pytest_runtest_call() -> None:
    """Forgets the fits of earlier tests, since a second fit on the same records in one process warns.

    Warnings are errors. A hook costs less than a fixture, which would be set up for each of thousands of tests.
    """
    past_fits = sys.modules.get("pate.classifier.past_fits")
    if past_fits is not None:
        past_fits._fits_by_record_digest.clear()


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Returns pytest's own folder of one test; fails if the test leaves a ledger beside the folder.

    A run that names no ledger is charged to one beside its folder, so a test's run lies in a folder within `tmp_path`.
    """
    yield tmp_path
    if (tmp_path.parent / "ledger.db").exists():
        (tmp_path.parent / "ledger.db").unlink()
        pytest.fail("the run of this test lies in tmp_path itself: take tmp_path / 'run'")


@pytest.fixture(scope="session")
def drawn_faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns CelebA's folder of 510 drawn faces of 12 pixels: 410 for training, 50 for validation, 50 for test."""
    from scripts.synth_faces.face_copy import FaceCopy  # loads Pillow, which few tests need

    folder = tmp_path_factory.mktemp("faces") / "celeba"
    FaceCopy(count=510, image_size=12).write(folder)
    return folder
