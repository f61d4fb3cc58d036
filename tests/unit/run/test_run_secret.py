"""Secrets of a run: one form and no other, in memory where there is any, found again, erased, and missed aloud."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from pate.run import secret_folder
from pate.run.randomness import Randomness
from pate.run.run_secret import RunSecret
from pate.validation import InvalidValue

WEAK = [
    "0",
    "00",
    "1_0",
    "\u0663" * 64,
    "",
    "\n",
    "0" * 64,
    "a" * 63 + "\n",
    "a" * 65 + "\n",
    "A" * 64 + "\n",
    "0x" + "a" * 62 + "\n",
    " " + "a" * 63 + "\n",
    "a" * 64 + "\n\n",
    "a" * 64 + "\r\n",
    "/etc/passwd\n",
    "/dev/shm/pate-1/../../../etc/noise.secret",
    "\0" * 65,
]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the machine's memory."""
    folder = tmp_path / "memory"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("PATE_SECRET_DIR", raising=False)
    monkeypatch.setattr(secret_folder, "_is_in_memory", lambda name: name == str(folder))
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> RunSecret:
    (tmp_path / "run").mkdir()
    return RunSecret(tmp_path / "run" / "noise.secret", "do this", erasable=True)


def lying(secret: RunSecret) -> Path:
    """Where the secret lies, as the run's file says."""
    return Path(secret.path.read_text().strip())


@pytest.mark.parametrize("text", WEAK)
@pytest.mark.parametrize("erasable", [True, False])
def test_a_weak_secret_is_refused(tmp_path: Path, text: str, erasable: bool) -> None:
    secret = RunSecret(tmp_path / "noise.secret", "do this", erasable)
    secret.path.write_bytes(text.encode())
    secret.path.chmod(0o600)
    with pytest.raises(
        InvalidValue, match=r"^secret=[^\n]*noise\.secret: expected 64 digits [^\n]*; do this$"
    ) as caught:
        secret.value()
    assert text.strip() in ("", "0") or text.strip() not in str(caught.value)
    assert secret.path.read_bytes() == text.encode()


@pytest.mark.parametrize("text", WEAK)
def test_a_weak_secret_in_memory_is_refused(secret: RunSecret, text: str) -> None:
    secret.value()
    place = lying(secret)
    place.write_bytes(text.encode())
    with pytest.raises(InvalidValue, match=rf"^secret={re.escape(str(place))}: expected 64 digits [^\n]*; do this$"):
        secret.value()


def test_it_lies_in_memory_for_its_owner_and_the_runs_file_says_where(secret: RunSecret, memory: Path) -> None:
    value = secret.value()
    place = lying(secret)
    assert place.parent.parent == memory
    assert place.read_text() == f"{value.hex()}\n"
    assert value.hex() not in secret.path.read_text()
    for path, mode in ((secret.path, 0o600), (place, 0o600), (place.parent, 0o700)):
        assert stat.S_IMODE(path.lstat().st_mode) == mode
    assert RunSecret(secret.path, "", erasable=False).value() == value, "found again, whoever asks"
    assert len(value) == 32


def test_erased_nothing_is_left(secret: RunSecret, memory: Path) -> None:
    secret.value()
    witness = memory / "witness"
    os.link(lying(secret), witness)
    secret.path.chmod(0o644)
    secret.forget()
    assert witness.read_bytes() == bytes(65)
    assert list(memory.iterdir()) == [witness]
    assert list(secret.path.parent.iterdir()) == []
    secret.forget()


def test_an_emptied_memory_is_told_and_nothing_is_drawn(secret: RunSecret) -> None:
    secret.value()
    place = lying(secret)
    place.unlink()
    place.parent.rmdir()
    with pytest.raises(
        InvalidValue, match=r"^secret=.*: expected what .*run/noise\.secret names, .* restart.*; do this$"
    ):
        secret.value()
    secret.forget()
    assert not secret.path.exists()


def test_forgetting_spares_what_the_runs_file_should_not_name(secret: RunSecret, tmp_path: Path) -> None:
    for name in ("victim", "pate-x"):
        (tmp_path / name).mkdir()
    for victim in (tmp_path / "victim" / "noise.secret", tmp_path / "pate-x" / "diary"):
        victim.write_text("mine")
        secret.path.write_text(f"{victim}\n")
        secret.forget()
        assert victim.read_text() == "mine"
        assert not secret.path.exists()


def test_what_only_trains_stays_in_the_runs_folder(secret: RunSecret, memory: Path) -> None:
    run = Randomness(secret.path.parent)
    run.seeds("teachers", 2)
    assert [path.name for path in run.folder.iterdir()] == ["training.secret"]
    run.generator("noise")
    assert sorted(path.name for path in run.folder.iterdir()) == ["noise.secret", "training.secret"]
    assert len(list(memory.iterdir())) == 1
    again = Randomness(run.folder)
    assert again.generator("noise").random() == run.generator("noise").random()
    run.forget_noise()
    assert list(memory.iterdir()) == []


def test_the_remedy_names_the_file_and_the_second_charge(secret: RunSecret) -> None:
    secret.path.write_text("0")
    secret.path.chmod(0o600)
    remedy = "and run with redraw=true for new noise, at a second price"
    rule = rf"put it back as it was, or remove {re.escape(str(secret.path))} {remedy}"
    with pytest.raises(InvalidValue, match=rule):
        Randomness(secret.path.parent).generator("noise")


def test_without_memory_it_lies_in_the_runs_folder(secret: RunSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_folder, "_is_in_memory", lambda name: False)
    value = secret.value()
    assert secret.path.read_text() == f"{value.hex()}\n"
    assert secret.value() == value


def test_one_may_ask_for_the_runs_folder_or_another(
    secret: RunSecret, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATE_SECRET_DIR", "output_dir")
    assert secret.path.name and secret.value().hex() in secret.path.read_text()
    secret.forget()
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("PATE_SECRET_DIR", str(tmp_path / "mine"))
    secret.value()
    assert lying(secret).parent.parent == tmp_path / "mine"
    secret.forget()
    for wrong in (tmp_path / "no", tmp_path / "mine" / "a\nb"):
        monkeypatch.setenv("PATE_SECRET_DIR", str(wrong))
        with pytest.raises(InvalidValue, match=r"^PATE_SECRET_DIR=[^\n]*: expected [^\n]*$"):
            secret.value()
    assert list(secret.path.parent.iterdir()) == list(memory.iterdir()) == []


def test_where_the_runs_file_cannot_be_written_no_secret_is_left(
    secret: RunSecret, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secret.path.parent).rmdir()
    with pytest.raises(OSError, match="No such file"):
        secret.value()
    assert list(memory.iterdir()) == []


def test_memory_is_told_by_what_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    device = os.stat(tmp_path).st_dev
    number, mounts = f"{os.major(device)}:{os.minor(device)}", tmp_path / "mountinfo"
    monkeypatch.setattr(secret_folder, "_MOUNTS", mounts)
    for line, expected in (
        (f"36 35 {number} / /dev/shm rw shared:1 - tmpfs tmpfs rw,size=1k\n", True),
        (f"36 35 {number} / /home rw - ext4 /dev/vda rw\n", False),
        ("36 35 9999:1 / /dev/shm rw - tmpfs tmpfs rw\n", False),
        ("", False),
    ):
        mounts.write_text(f"1 0 8:1 / / rw - ext4 /dev/vdb rw\n{line}")
        assert secret_folder._is_in_memory(str(tmp_path)) == expected
    assert not secret_folder._is_in_memory(str(tmp_path / "no"))
    mounts.unlink()
    assert not secret_folder._is_in_memory(str(tmp_path))
