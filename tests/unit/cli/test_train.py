"""What pate-train makes of its configuration."""

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from pate.cli.heading import BESIDE
from pate.cli.parts import plain_settings


def test_a_run_is_the_same_wherever_it_is_written_and_keeps_pictures() -> None:
    where = {"ledger": "c", "max_total_epsilon": 8.0, "redraw": True}
    runs = [{"output_dir": None, "data": {"cache": None}}, {"output_dir": "a", "data": {"cache": "b"}} | where]
    first, second = (plain_settings(OmegaConf.create(run), BESIDE) for run in runs)
    assert first == second == {"data": {"cache": None}}


@pytest.mark.process
def test_a_forgotten_file_is_told_before_a_teacher_loads_torch() -> None:
    program = "import sys; from pate.cli.train import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    given = ["data=table", "data.private=a.csv", "data.test=c.csv", "data.labels=[flu]"]
    done = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (2, "False")
    chosen, refused = done.stderr.splitlines()
    assert chosen.startswith("no teacher is named: teacher=kernel aggregator=centered_votes")
    assert refused.startswith("data.public=None: expected the file of the public records;")
