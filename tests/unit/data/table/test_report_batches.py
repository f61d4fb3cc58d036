"""The progress of reading a large table is reported in megabytes of its files, and in words about rows."""

import numpy as np
import pytest

from pate.data.table.rows import report_batches

pa = pytest.importorskip("pyarrow")


def test_each_batch_reports_megabytes_and_rows() -> None:
    """For batches of 4 MB, the progress of reading a file of 9 MB is reported as 4, 8 and 9 MB.

    Each batch has 500,000 rows.
    """
    table = pa.table({"x": np.zeros(500_000)})
    steps: list[tuple[int, str]] = []
    batches = [(np.arange(500_000), table)] * 3
    watched = report_batches(
        batches, file_size_mb=9, report_progress=lambda done_mb, note: steps.append((done_mb, note))
    )
    assert [len(numbers) for numbers, _ in watched] == [500_000] * 3
    assert steps == [(4, "500,000 rows"), (8, "1,000,000 rows"), (9, "1,500,000 rows")]
