"""The pytest plugin, in a test session as another project would have it."""

import subprocess
import sys
from pathlib import Path

import pytest

# A file of tests of another project.
TESTS = """
import numpy as np
import pytest

from pate.testing import Leaked, PriceRefuted

DATA, NEIGHBOR = np.array([0.0, 1.0]), np.array([9.0, 1.0])


def test_replay(pate_replay):
    def total(data, release_tape):
        return release_tape.query("sum", np.clip(data, 0, 1).sum(), lambda exact: exact + 0.5, sensitivity=1)

    assert pate_replay(total, DATA, NEIGHBOR).parts == ("sum",)
    with pytest.raises(Leaked):
        pate_replay(lambda data, release_tape: total(data, release_tape) / data.std(), DATA, NEIGHBOR)


def test_verify(pate_verify):
    from pate.accounting import PureDpEvent

    def coin(histogram):
        return {"yes": (1 + histogram[0]) / 4, "no": (3 - histogram[0]) / 4}

    shape = {"num_labels": 1, "num_teachers": 2, "adjacency": "add_remove"}
    assert pate_verify(coin, event=PureDpEvent(1.2), **shape).sound
    with pytest.raises(PriceRefuted):
        pate_verify(coin, event=PureDpEvent(0.5), **shape)


def test_attack(pate_attack):
    def noisy(data, rng):
        return data + rng.laplace()

    pate_attack(noisy, 0.0, 1.0, epsilon=1.0, num_draws=400)
    with pytest.raises(PriceRefuted):
        pate_attack(noisy, 0.0, 9.0, epsilon=1.0, num_draws=400)
"""


@pytest.mark.process
@pytest.mark.slow
def test_fixtures_serve_a_project_of_somebody_else(tmp_path: Path) -> None:
    """All three fixtures pass for a sound mechanism and fail for an unsound one; pytest finds the installed plugin."""
    (tmp_path / "test_theirs.py").write_text(TESTS)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in result.stdout, result.stdout


@pytest.mark.process
@pytest.mark.slow
def test_plugin_loads_numpy_only_for_a_fixture() -> None:
    """The import of the plugin loads neither numpy nor scipy nor torch, as pytest imports it in many projects."""
    program = "import sys, pate.pytest_plugin; print([n for n in ('numpy', 'scipy', 'torch') if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
