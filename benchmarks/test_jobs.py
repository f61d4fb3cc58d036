"""Quick jobs under pytest-benchmark: `pytest benchmarks --benchmark-only` compares them between commits."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.generators import generator_jobs
from benchmarks.jobs import Job, quick_jobs
from benchmarks.sessions import session_jobs

JOBS = [*quick_jobs(), *session_jobs(), *generator_jobs()]


@pytest.mark.parametrize("job", JOBS, ids=[job.name for job in JOBS])
@pytest.mark.parametrize("part", ["run", "floor"])
def test_job(benchmark: Any, job: Job, part: str) -> None:
    benchmark.group = job.name
    benchmark.pedantic(getattr(job, part), rounds=job.rounds, warmup_rounds=1)
