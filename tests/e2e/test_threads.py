"""The published bytes of a seeded run do not depend on the number of threads of the matrix libraries."""

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
    """A run with one thread publishes the same bytes as a run with two."""
    write_arrays_of(rows=4000, folder=tmp_path)
    digest_of_one, digest_of_two = (
        train(
            folder=tmp_path,
            name=f"with-{num_threads}",
            threads={"OPENBLAS_NUM_THREADS": num_threads, "OMP_NUM_THREADS": num_threads},
            settings=SETTINGS,
        ).digest
        for num_threads in ("1", "2")
    )
    assert digest_of_one == digest_of_two
