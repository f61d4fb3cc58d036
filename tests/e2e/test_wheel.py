"""Builds the source distribution and the wheel, and uses the wheel in a new environment outside the repository."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIVE_LINES = """
import pate, numpy as np
from pate import PATEClassifier
from sklearn.linear_model import RidgeClassifier
X = np.random.default_rng(0).standard_normal((500, 3))
model = PATEClassifier(RidgeClassifier(), n_teachers=20).fit(X[:400], X[:400] > 0, X_public=X[400:])
from pate.data import WordNet40
print(pate.__file__, model.predict(X).shape, model.epsilon_ <= 8, WordNet40().load().num_labels)
"""


def run_program(*command: str | Path, cwd: Path) -> str:
    """Runs a command without the variables of this Python, and returns its output; fails unless it succeeds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment | {"OMP_NUM_THREADS": "1"},
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_alone_has_everything_and_works(tmp_path: Path) -> None:
    """The source distribution has all tests, notebooks and pages, and the wheel has configuration, data and licenses.

    In a new environment with the wheel, `pate-train` prints its settings, and `PATEClassifier` fits and predicts.
    """
    run_program(
        sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path
    )
    (source,) = tmp_path.glob("*.tar.gz")
    (wheel,) = tmp_path.glob("*.whl")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "conf/train.yaml", "examples/README.md", "CITATION.cff"} <= names
    needed = [
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "docs").rglob("*.*"),
    ]
    assert {
        str(path.relative_to(ROOT)) for path in needed if "__pycache__" not in path.parts
    } - names == set()
    assert not any(
        name.startswith((".venv", "outputs", "site")) or "__pycache__" in name for name in names
    )
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    configuration = {f"pate/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    pages = {"pate/report/page.html", "pate/report/report.html", "pate/comparison/frontier.html"}
    assert {"pate/data/wordnet/wordnet40.npz", "pate/py.typed", *pages, *configuration} <= inside
    assert {Path(name).name for name in inside if "/licenses/" in name} == {
        "LICENSE",
        "LICENSE-WORDNET",
    }
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {
        "pate",
        "pate_multilabel",
    }
    folder = install_wheel(wheel, folder=tmp_path / "v")
    assert "target_epsilon" in run_program(
        folder / "pate-train", "--cfg", "job", "--resolve", cwd=tmp_path
    )
    output = run_program(folder / "python", "-c", FIVE_LINES, cwd=tmp_path)
    assert output.startswith(str(tmp_path / "v")) and "(500, 3) True 40" in output


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Makes an environment with the wheel and the dependencies of this environment; returns its folder of programs."""
    run_program(sys.executable, "-m", "venv", "--without-pip", folder, cwd=wheel.parent)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run_program(*pip, "install", "-q", "--no-deps", "--no-index", wheel, cwd=wheel.parent)
    site = run_program(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    ).strip()
    # its .pth files are not read
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"
