"""Starts of commands, next to an interpreter that loads only the packages that they cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.jobs import Job

_COMMANDS = f"{Path(sys.executable).parent}{os.sep}"
_NUMBERS = ("-c", "import numpy, scipy.special")
_HYDRA = ("-c", "import numpy, scipy.special, hydra")
_EMPTY = (
    "-c",
    "import numpy, scipy.special, hydra; hydra.main(version_base=None)(lambda settings: None)()",
)
_SILENT = (
    "hydra.output_subdir=null",
    "hydra.run.dir=.",
    "hydra/job_logging=none",
    "hydra/hydra_logging=none",
)
_STARTS = {
    "all names of pate.aggregators": (
        ("-c", "from pate.aggregators import *"),
        _NUMBERS,
        "numpy and scipy.special",
    ),
    "a Hydra command without settings": (
        (*_EMPTY, *_SILENT),
        _HYDRA,
        "numpy, scipy.special, hydra",
    ),
    "pate-account aggregator=gaussian_votes": (
        (_COMMANDS + "pate-account", "aggregator=gaussian_votes"),
        _HYDRA,
        "numpy, scipy.special, hydra",
    ),
    "pate-account aggregator=centered_votes": (
        (_COMMANDS + "pate-account", "aggregator=centered_votes"),
        _HYDRA,
        "numpy, scipy.special, hydra",
    ),
    "pate-account": ((_COMMANDS + "pate-account",), _HYDRA, "numpy, scipy.special, hydra"),
    "pate-train --help": (
        (_COMMANDS + "pate-train", "--help"),
        _HYDRA,
        "numpy, scipy.special, hydra",
    ),
    "pate-train teachers=x, a typo": (
        (_COMMANDS + "pate-train", "teachers=x"),
        _HYDRA,
        "numpy, scipy.special, hydra",
    ),
}


def start_jobs() -> Iterator[Job]:
    """Returns a job for each start."""
    for name, (words, least, called) in _STARTS.items():
        left_out = "whatever is done beyond loading these"
        yield Job(
            name,
            run=partial(_start, words),
            floor=partial(_start, least),
            floor_name=called,
            left_out=left_out,
            rounds=7,
        )


def _start(words: tuple[str, ...]) -> None:
    """Runs an interpreter to its end and drops its output."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=False)
