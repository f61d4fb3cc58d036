"""`scripts/verify_release.py` says that a real release holds, and names each number that was tampered with."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import verify_release
from tests.e2e.commands import refused, succeeded
from tests.e2e.golden_runs import run_rounds, write_data

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a release of centered votes."""
    folder = tmp_path_factory.mktemp("verified")
    run_rounds(write_data(folder), folder)
    return folder / "rounds" / "release"


def sign_again(folder: Path) -> None:
    """Writes the digests of all files into `manifest.json`, as somebody who tampers would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["sha256"]:
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest))


def change_statement(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    """Returns a function that changes `privacy.json` of a folder."""

    def tamper(folder: Path) -> None:
        path = folder / "privacy.json"
        statement = json.loads(path.read_text())
        change(statement)
        path.write_text(json.dumps(statement))

    return tamper


def change_text(name: str, before: str, after: str) -> Callable[[Path], None]:
    """Returns a function that replaces a text in a file of a folder."""

    def tamper(folder: Path) -> None:
        path = folder / name
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after, 1))

    return tamper


def halve_epsilon_everywhere(folder: Path) -> None:
    """Halves epsilon in `privacy.json` and on both cards."""
    change_statement(lambda statement: statement.update(epsilon=4.0))(folder)
    change_text("privacy_card.md", before="| epsilon | 8.00 |", after="| epsilon | 4.00 |")(folder)
    change_text("README.md", before="epsilon <= 8.00", after="epsilon <= 4.00")(folder)


TAMPERED = {
    "epsilon is 4": halve_epsilon_everywhere,
    "delta is 1e-6": change_statement(lambda statement: statement.update(delta=1e-9)),
    "num_answered is 90": change_statement(lambda statement: statement.update(num_answered=90)),
    "attacks.found.0.01 is 0.1": change_statement(
        lambda statement: statement["attacks"]["found"].update({"0.01": 0.1})  # type: ignore[index]
    ),
    "attacks.gdp_mu is 1": change_statement(
        lambda statement: statement["attacks"].update(gdp_mu=1.0)  # type: ignore[attr-defined]
    ),
    "aggregator.noise_multiplier is 1.3": change_text(
        "config.yaml", before="noise_multiplier: 0.65", after="noise_multiplier: 1.3"
    ),
    "README.md: epsilon 3.00": change_text(
        "README.md", before="epsilon <= 8.00", after="epsilon <= 3.00"
    ),
    "false alarms, at most is 2.4%": change_text(
        "privacy_card.md", before="| 21.4% |", after="| 2.4% |"
    ),
}


def test_real_release_holds(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release as it was written holds."""
    assert verify_release.main([str(release)]) == 0
    assert capsys.readouterr().out == "holds\n"


@pytest.mark.parametrize("words", TAMPERED)
def test_tampered_number_is_named(
    words: str, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed number is named, although all digests of the folder were written again."""
    folder = tmp_path / "release"
    shutil.copytree(release, folder)
    TAMPERED[words](folder)
    sign_again(folder)
    assert verify_release.main([str(folder)]) == 1
    assert words in capsys.readouterr().out


def test_changed_file_differs_from_its_digest(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with another byte, and a file too many, are named."""
    folder = tmp_path / "release"
    shutil.copytree(release, folder)
    (folder / "schema.json").write_bytes((folder / "schema.json").read_bytes() + b" ")
    (folder / "votes.npz").write_bytes(b"")
    assert verify_release.main([str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "schema.json: another SHA-256" in printed
    assert "votes.npz: in the folder, and not in manifest.json" in printed


def test_folder_without_statement_cannot_be_verified(tmp_path: Path) -> None:
    """An empty folder has exit code 2."""
    assert verify_release.main([str(tmp_path)]) == 2


def test_script_imports_nothing_of_pate() -> None:
    """The script is at most 250 lines, and shares no code with what it verifies."""
    text = Path(verify_release.__file__).read_text()
    assert len(text.splitlines()) <= 250
    assert "import pate" not in text and "from pate" not in text


def test_dossier_of_a_real_release_is_written_twice(release: Path, tmp_path: Path) -> None:
    """`pate-dossier` writes a page and JSON of one release, and refuses a file within the release."""
    succeeded("dossier", arguments=[f"release={release}", f"output={tmp_path}/d.html"])
    succeeded("dossier", arguments=[f"release={release}", f"output={tmp_path}/d.json"])
    assert "epsilon" in (tmp_path / "d.html").read_text()
    facts = json.loads((tmp_path / "d.json").read_text())
    assert facts["privacy"] == json.loads((release / "privacy.json").read_text())
    line = refused("dossier", arguments=[f"release={release}", f"output={release}/d.html"])
    assert "a file outside of the release" in line
    assert not (release / "d.html").exists()
