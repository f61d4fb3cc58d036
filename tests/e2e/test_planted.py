"""Files that somebody put into a run's folder, and a run that is continued with them."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pate.run import ensemble
from tests.e2e.commands import SMALL, call

TREE = "teacher.estimator._target_=sklearn.tree.DecisionTreeClassifier"
WORDS = [*SMALL, "teacher=sklearn", TREE, "aggregator=gaussian_votes", "target_epsilon=100", "seed=1"]


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def stopped(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_a_planted_teacher_is_refused_in_one_line(tmp_path: Path) -> None:
    """A run that was stopped once its teachers were trained goes on; one with a planted file does not."""
    folder, mark = tmp_path / "run", tmp_path / "ran"
    words = [*WORDS, f"output_dir={folder}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "cast_votes", stopped)
        assert call("train", *words).returncode == 130
    planted = min((folder / "teachers").iterdir())
    ours = planted.read_bytes()
    content = np.frombuffer(pickle.dumps(Payload(mark)), np.uint8)
    save_file({"pickle": content, "loss_curve": np.zeros(1, np.float32)}, planted)
    refused = call("train", *words)
    assert refused.returncode == 2
    line = f"file={planted}: expected teachers that this run signed"
    assert refused.stderr.splitlines()[-1].startswith(line)  # after what it says of reading the data
    assert ("Traceback" in refused.stderr, mark.exists()) == (False, False)
    planted.write_bytes(ours)
    assert call("train", *words).returncode == 0
    assert "teachers.key" not in {path.name for path in (folder / "release").rglob("*")}
