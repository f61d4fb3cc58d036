"""The reproductions are in the source distribution that hatch builds, and not in the wheel."""

from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_the_source_has_the_reproductions_and_the_wheel_does_not() -> None:
    files = {
        kind: {file.distribution_path for file in kind(str(ROOT)).recurse_included_files()}
        for kind in (SdistBuilder, WheelBuilder)
    }
    reproduction_files = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "reproductions").rglob("*.*")
        if path.suffix != ".pyc"
    }
    assert len(reproduction_files) > 20
    assert reproduction_files <= files[SdistBuilder]
    assert {name.partition("/")[0] for name in files[WheelBuilder]} == {"pate"}
