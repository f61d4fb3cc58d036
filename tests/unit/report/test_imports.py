import subprocess
import sys

import pytest

PROBE = "import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"


def modules_after(statement: str) -> set[str]:
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.process
def test_importing_the_package_loads_neither_torch_nor_matplotlib() -> None:
    loaded = modules_after("import pate.report")
    assert "pate" in loaded
    assert not loaded & {"torch", "matplotlib", "tensorboard", "hydra", "jinja2", "rich"}


@pytest.mark.process
def test_the_page_needs_matplotlib_so_the_probe_can_fail() -> None:
    loaded = modules_after("import pate.report.page")
    assert "matplotlib" in loaded
    assert "torch" not in loaded
