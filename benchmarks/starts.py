"""How long commands take to start, beside an interpreter that loads only what they cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.jobs import Job

_NUMBERS = ("-c", "import numpy, scipy.special")
_HYDRA = ("-c", "import numpy, scipy.special, hydra")
_STARTS = {
    "import pate.aggregators": (("-c", "import pate.aggregators"), _NUMBERS, "numpy and scipy.special"),
    "pate-account aggregator=gaussian_votes": (
        ("-m", "pate.cli.account", "aggregator=gaussian_votes"),
        _HYDRA,
        "numpy, scipy.special, hydra",
    ),
    "pate-train --help": (("-m", "pate.cli.train", "--help"), _HYDRA, "numpy, scipy.special, hydra"),
    "pate-train teachers=x, a typo": (("-m", "pate.cli.train", "teachers=x"), _HYDRA, "numpy, scipy.special, hydra"),
}


def start_jobs() -> Iterator[Job]:
    """A job for each start."""
    for name, (words, least, called) in _STARTS.items():
        left_out = "our modules" if words[0] == "-c" else "our modules, composing the configuration, the answer"
        yield Job(name, partial(_start, words), partial(_start, least), called, left_out, rounds=7)


def _start(words: tuple[str, ...]) -> None:
    """Runs an interpreter to its end, whatever it says."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=False)
