import subprocess
import sys

import pytest

import pate.report

PROBE = "import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"


def modules_after(statement: str) -> set[str]:
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.process
def test_importing_the_package_loads_neither_torch_nor_matplotlib() -> None:
    loaded = modules_after("import pate.report")
    assert "pate" in loaded
    assert not loaded & {"torch", "matplotlib", "tensorboard", "hydra"}


@pytest.mark.process
def test_the_page_needs_matplotlib_so_the_probe_can_fail() -> None:
    loaded = modules_after("from pate.report import render_html")
    assert "matplotlib" in loaded
    assert "torch" not in loaded


def test_every_public_name_is_there() -> None:
    assert pate.report.__all__ == sorted(pate.report.__all__)
    assert [name for name in pate.report.__all__ if not hasattr(pate.report, name)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'write_pdf'"):
        _ = pate.report.write_pdf
