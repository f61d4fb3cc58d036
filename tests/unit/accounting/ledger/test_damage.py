"""Every damage to a ledger is refused with the number of a line; a piece that was never acknowledged is cut off."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pate.accounting.ledger.anchor import SIZE, anchor_path

from pate.accounting import DamagedLedger, GaussianEvent, Ledger, PureDpEvent
from pate.validation import InvalidValue

DELTA = 1e-6
LEDGERS = Path(__file__).parents[3] / "oracle" / "ledgers"
REFUSED = r"^ledger=\S+ledger\.jsonl: expected .*\bline \d+\b"
LENGTHS = (1, 3)


def written(path: Path, charges: int, *, name: str = "release") -> Ledger:
    path.parent.mkdir(exist_ok=True)
    ledger = Ledger(path, target_delta=DELTA)
    for number in range(charges):
        event = GaussianEvent(10.0 + number) if number % 2 else PureDpEvent(0.1)
        ledger.charge(event, adjacency=ledger.adjacency, key=f"{name} {number}", description="é\n")
    return ledger


def opened(path: Path) -> Ledger:
    return Ledger(path, target_delta=DELTA)


def copied(path: Path, name: str) -> Path:
    """A ledger and its anchor in a folder of their own, as a backup has them."""
    folder = path.parent.parent / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(path.parent, folder)
    return folder / path.name


@pytest.fixture(params=LENGTHS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "whole" / "ledger.jsonl"
    written(path, request.param)
    return path


def require_refused(path: Path, content: bytes, *, also: type[Exception] = DamagedLedger) -> None:
    """On opening, for good, and without a change to the file."""
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(also, match=REFUSED) as caught:
            opened(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_copy_of_both_files_is_the_same_ledger(path: Path) -> None:
    assert opened(copied(path, "copy")).entries == opened(path).entries


def flips(content: bytes) -> Iterator[bytes]:
    for place in range(len(content)):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


@pytest.mark.slow
def test_a_flip_of_any_byte_of_any_line_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for number, flipped in enumerate(flips(content)):
        path.write_bytes(flipped)
        with pytest.raises(InvalidValue, match=REFUSED):
            opened(path)
        assert number or path.read_bytes() == flipped


def test_a_line_that_is_gone_doubled_or_in_another_place_is_refused(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    for place in range(len(lines)):
        require_refused(path, b"".join(lines[:place] + lines[place + 1 :]), also=InvalidValue)
        require_refused(path, b"".join(lines[: place + 1] + lines[place:]))
        for other in range(place + 1, len(lines)):
            swapped = lines.copy()
            swapped[place], swapped[other] = swapped[other], swapped[place]
            require_refused(path, b"".join(swapped), also=InvalidValue)


@pytest.mark.slow
def test_a_cut_at_any_byte_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedLedger, match=REFUSED):
            opened(path)
        assert path.read_bytes() == content[:length]


def test_an_edited_number_is_refused_though_it_is_a_charge(path: Path) -> None:
    content = path.read_text()
    edited = re.sub(r'"epsilon": 0\.1', '"epsilon": 0.01', content)
    assert edited != content
    require_refused(path, edited.encode())


def test_another_ledger_of_the_same_shape_is_refused(path: Path) -> None:
    other = path.parent.parent / "other" / path.name
    written(other, len(opened(path).entries), name="another")
    require_refused(path, other.read_bytes())
    shutil.copy(anchor_path(other), anchor_path(path))  # the whole of it is another ledger, which nobody can tell here
    assert opened(path).entries == opened(other).entries


def test_a_file_that_is_gone_is_refused_and_not_made_anew(path: Path) -> None:
    path.unlink()
    with pytest.raises(
        DamagedLedger, match=r"expected line 1 as the first of \d that were cut off: restore the ledger"
    ):
        opened(path)
    assert not path.exists()


def test_a_missing_anchor_is_refused_where_there_are_charges(path: Path) -> None:
    anchor_path(path).unlink()
    with pytest.raises(DamagedLedger, match=r"expected \.ledger\.jsonl\.head beside it, for line \d: restore"):
        opened(path)


def test_a_flip_of_any_byte_of_the_anchor_never_forgets_a_charge(path: Path) -> None:
    """Where a place is unreadable, the file has to be as a crash would have left it."""
    lines, anchor = path.read_bytes().splitlines(keepends=True), anchor_path(path).read_bytes()
    for place in range(0, len(anchor), 3):
        anchor_path(path).write_bytes(anchor[:place] + bytes([anchor[place] ^ 1]) + anchor[place + 1 :])
        path.write_bytes(b"".join(lines[:-1]))
        with pytest.raises(DamagedLedger, match=r"^ledger="):
            opened(path)
        path.write_bytes(b"".join(lines))
        try:
            assert len(opened(path).entries) == len(lines) - 1
        except DamagedLedger as error:
            assert re.search(r"\.head", str(error))


@pytest.mark.parametrize("content", [b"", b"x", b"0" * SIZE, b"0" * 2 * SIZE, b"\0" * 2 * SIZE])
def test_an_anchor_that_is_none_is_refused(path: Path, content: bytes) -> None:
    anchor_path(path).write_bytes(content)
    with pytest.raises(DamagedLedger, match=r"expected \.ledger\.jsonl\.head to name the last line, it was changed"):
        opened(path)


def test_a_line_without_its_digest_does_not_follow(path: Path) -> None:
    content = path.read_bytes()
    record = json.loads(content.splitlines()[-1])
    for previous in (None, "0" * 64, record["previous"]):
        line = json.dumps(record | {"previous": previous}).encode() + b"\n"
        require_refused(path, content + line)
        require_refused(path, content + b"[]\n")
        require_refused(path, content + b"not JSON\n")


def test_two_lines_more_than_the_anchor_knows_are_refused(path: Path) -> None:
    """One is what a crash leaves."""
    anchor, number = anchor_path(path).read_bytes(), len(opened(path).entries)
    written(path, number + 1)
    ahead = path.read_bytes()
    anchor_path(path).write_bytes(anchor)
    assert len(opened(path).entries) == number + 1
    assert anchor_path(path).read_bytes() != anchor
    written(path, number + 2)
    anchor_path(path).write_bytes(anchor)
    with pytest.raises(DamagedLedger, match=rf"expected line {number + 2} to be known to its \.head"):
        opened(path)
    assert path.read_bytes().startswith(ahead)


def test_an_old_version_s_header_does_not_free_a_ledger_of_its_chain(path: Path) -> None:
    """Neither with the new settings nor without them."""
    header, *charges = path.read_bytes().splitlines(keepends=True)
    require_refused(path, b"".join([header.replace(b'"ledger": 2', b'"ledger": 1'), *charges]))
    require_refused(path, b"".join([b'{"ledger": 1, "adjacency": "replace_one", "target_delta": 1e-06}\n', *charges]))


def test_what_is_found_while_a_ledger_is_open_is_refused_too(path: Path) -> None:
    ledger, content = opened(path), path.read_bytes()
    for damaged in (content[:-20], content.replace(b"release 0", b"release 9"), b""):
        path.write_bytes(damaged)
        with pytest.raises(DamagedLedger, match="expected a file that only grows"):
            ledger.charge(GaussianEvent(1.0), adjacency=ledger.adjacency, key="next")
    path.write_bytes(content)
    ledger.charge(GaussianEvent(100.0), adjacency=ledger.adjacency, key="next")


def test_a_ledger_of_an_earlier_version_is_read_and_continued_unchained(tmp_path: Path) -> None:
    old = Path(shutil.copy(LEDGERS / "pure.jsonl", tmp_path))
    before = old.read_bytes()
    ledger = Ledger(old, target_delta=1e-5, data="known to the run")
    assert not ledger.is_chained
    assert len(ledger.entries) == before.count(b"\n") - 1
    ledger.charge(PureDpEvent(0.01), adjacency=ledger.adjacency, key="a new one")
    line = old.read_bytes().removeprefix(before)
    assert json.loads(line).keys() == {"key", "event", "description", "epsilon", "noise"}
    assert not anchor_path(old).exists()
    assert len(Ledger(old, target_delta=1e-5).entries) == before.count(b"\n")


def test_a_chained_ledger_cannot_be_exchanged_for_one_of_an_earlier_version(path: Path) -> None:
    require_refused(path, (LEDGERS / "pure.jsonl").read_bytes())


def test_what_a_line_says(path: Path) -> None:
    records: list[Any] = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert list(records[0]) == ["ledger", "adjacency", "target_delta", "accountant", "max_epsilon", "filter"]
    for record in records[1:]:
        assert list(record) == [
            "key", "event", "description", "epsilon", "noise", "time", "user", "host", "command", "data", "previous",
        ]  # fmt: skip
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", record["time"])
        assert record["user"]
        assert record["host"]
        assert record["command"] == shlex.join(sys.argv)[:1000]
