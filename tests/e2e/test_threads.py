"""One seed leaves one release, for any number of threads of the matrix libraries."""

from pathlib import Path

import pytest

from benchmarks.busy import train, write_arrays_of

SETTINGS = (
    "student=logistic",
    "num_queries=3000",
    "target_epsilon=8",
    "teacher.nonlinear=false",
    "accountant=rdp",
)


@pytest.mark.slow
def test_bytes_are_those_of_one_thread(tmp_path: Path) -> None:
    """A run with one thread and a run with two publish the same bytes."""
    write_arrays_of(rows=4000, folder=tmp_path)
    published = [
        train(
            tmp_path,
            f"with-{count}",
            {"OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count},
            *SETTINGS,
        ).digest
        for count in ("1", "2")
    ]
    assert published[0] == published[1]
