"""For all tests: none remembers records of another, finds a GPU that it is not shown, or is deaf to signals."""

import os
import signal
import sys

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


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors, and a second fit on the same records in one process warns."""
    past_fits = sys.modules.get("pate.classifier.past_fits")
    if past_fits is not None:
        monkeypatch.setattr(past_fits, "_FITS", {})
