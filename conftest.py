"""For all tests: none remembers records of another, finds a GPU that it is not shown, or is deaf to signals."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ProcessGuard

# equal bytes are promised on a processor; before torch is loaded
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# as a shell's job in the background has it, and its children
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # as under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessGuard())


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of collected tests live to the end: no garbage collection walks them again


@pytest.fixture(autouse=True)
def _no_ledger_of_several_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """A run that names no ledger is charged to one beside its folder: a test's run lies in a folder of its own."""
    own = None
    if "tmp_path" in request.fixturenames:
        own = Path(request.getfixturevalue("tmp_path"))
    yield
    if own is not None and (own.parent / "ledger.db").exists():
        (own.parent / "ledger.db").unlink()
        pytest.fail("the run of this test lies in tmp_path itself: take tmp_path / 'run'")


@pytest.fixture(scope="session")
def drawn_faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns CelebA's folder of 510 drawn faces of 12 pixels: 410 for training, 50 for validation, 50 for test."""
    from scripts.synth_faces.face_copy import FaceCopy  # loads Pillow, which few tests need

    folder = tmp_path_factory.mktemp("faces") / "celeba"
    FaceCopy(count=510, image_size=12).write(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors, and a second fit on the same records in one process warns."""
    past_fits = sys.modules.get("pate.classifier.past_fits")
    if past_fits is not None:
        monkeypatch.setattr(past_fits, "_FITS", {})
