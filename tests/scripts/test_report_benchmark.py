"""The benchmark of a report computes the report of its made-up run."""

import pytest

from benchmarks.reports import report_jobs


@pytest.mark.slow
def test_a_small_job_computes_a_report_and_its_floor() -> None:
    """The benchmark of a small report writes a page, and its floor, the least work that a report needs, runs too."""
    (job,) = report_jobs(num_queries=20, num_labels=4, num_test=10)
    assert "</html>" in str(job.run())
    job.floor()
