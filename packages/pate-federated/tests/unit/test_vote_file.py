"""Vote files of holders are read as they were written, and are refused if they are damaged or do not fit together."""

import io
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.errors import InvalidValue
from pate.files.reading import DamagedFile
from pate.run.queries import queries_digest
from pate.votes.foreign import ForeignVotes
from pate_federated.bit_sums import BitSums
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.vote_file import SumFile, VoteFile, VoteManifest, is_sum_file
from tests.refusals import ANY, refused_parameter

TEACHERS = 3
QUERIES = 7
LABELS = 11
ASKED = np.random.default_rng(0).standard_normal((QUERIES, 4)).astype(np.float32)
IDS = np.arange(10, 10 + QUERIES)
NAMES = tuple(f"label {number}" for number in range(LABELS))
HEAD = VoteManifest(
    holder="a",
    queries=queries_digest(ASKED, record_ids=IDS),
    num_teachers=TEACHERS,
    num_queries=QUERIES,
    num_labels=LABELS,
    num_records=50,
    num_groups=40,
)


def confidences_of(holder: str, num_teachers: int = TEACHERS) -> np.ndarray:
    """Returns confidences of a holder's teachers, drawn with its name as seed, `[num_teachers, QUERIES, LABELS]`."""
    seed = int.from_bytes(holder.encode(), "big")
    return np.random.default_rng(seed).random((num_teachers, QUERIES, LABELS)).astype(np.float32)


def write_vote_file(
    folder: Path,
    holder: str = "a",
    file_name: str | None = None,
    num_teachers: int = TEACHERS,
    head: VoteManifest = HEAD,
    record_ids: np.ndarray = IDS,
    label_names: tuple[str, ...] = NAMES,
) -> Path:
    """Writes the votes of a holder, and returns the path of the file.

    Args:
        folder: the folder of the file.
        holder: the name of the holder, which seeds its votes.
        file_name: the name of the file, without its ending; None for the name of the holder.
        num_teachers: the number of the holder's teachers.
        head: the manifest; the holder and the numbers of teachers, records and groups in it are replaced.
        record_ids: the ids of the queries.
        label_names: the names of the labels.
    """
    path = folder / f"{file_name or holder}.npz"
    votes = confidences_of(holder, num_teachers=num_teachers)
    num_blocks = min(2, num_teachers)
    with_confidences = head.cast == "confidences"
    VoteFile.write(
        path,
        manifest=replace(
            head,
            holder=holder,
            num_teachers=num_teachers,
            num_records=50 + num_teachers,
            num_groups=40 + num_teachers,
        ),
        yield_bits=lambda: np.array_split(votes >= 0.5, num_blocks),
        record_ids=record_ids,
        label_names=label_names,
        yield_confidences=(lambda: np.array_split(votes, num_blocks)) if with_confidences else None,
        label_shares=np.full((TEACHERS, LABELS), 0.25) if with_confidences else None,
    )
    return path


@pytest.mark.parametrize("cast", ["bits", "confidences"])
def test_written_votes_are_read_back_and_equal_votes_give_equal_bytes(
    cast: str, tmp_path: Path
) -> None:
    """A vote file is read as it was written, with confidences or without, and equal votes give equal bytes."""
    path = write_vote_file(tmp_path, head=replace(HEAD, cast=cast))
    file = VoteFile.open(path)
    votes = confidences_of(holder="a")
    np.testing.assert_array_equal(np.concatenate(list(file.bits())), votes >= 0.5)
    assert (file.manifest.cast, file.label_names, file.record_ids.tolist()) == (
        cast,
        NAMES,
        IDS.tolist(),
    )
    if cast == "confidences":
        np.testing.assert_array_equal(np.concatenate(list(file.confidences())), votes)
        np.testing.assert_array_equal(file.label_shares(), np.full((TEACHERS, LABELS), 0.25))
    assert (
        write_vote_file(tmp_path, file_name="again", head=replace(HEAD, cast=cast)).read_bytes()
        == path.read_bytes()
    )


@dataclass(frozen=True)
class Mismatch:
    """A vote file that does not fit the first one, and what the refusal names.

    Attributes:
        write_file: a function that writes the vote file of holder b into a folder.
        field: the field of the manifest, or the array, that the refusal names.
        value: its value in the file of holder b.
    """

    write_file: Callable[[Path], Path]
    field: str
    value: str


def writer_of_b(head: VoteManifest) -> Callable[[Path], Path]:
    """Returns a function that writes the votes of holder b with another manifest."""
    return partial(write_vote_file, holder="b", head=head)


MISMATCHES = {
    "queries": Mismatch(
        write_file=writer_of_b(
            head=replace(HEAD, queries=queries_digest(ASKED + 1, record_ids=IDS))
        ),
        field="queries",
        value="others",
    ),
    "order": Mismatch(
        write_file=writer_of_b(
            head=replace(HEAD, queries=queries_digest(ASKED[::-1], record_ids=IDS))
        ),
        field="queries",
        value="others",
    ),
    "ids": Mismatch(
        write_file=partial(write_vote_file, holder="b", record_ids=IDS + 1),
        field="record_ids",
        value="others",
    ),
    "clip": Mismatch(
        write_file=writer_of_b(head=replace(HEAD, vote_clip=11)), field="vote_clip", value="11"
    ),
    "cast": Mismatch(
        write_file=writer_of_b(head=replace(HEAD, cast="confidences")),
        field="cast",
        value="confidences",
    ),
    "data": Mismatch(
        write_file=writer_of_b(head=replace(HEAD, dataset="other")), field="dataset", value="other"
    ),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_files_of_different_queries_are_refused_by_name(name: str, tmp_path: Path) -> None:
    """Two vote files are refused if they differ in queries, ids, clip, form of votes or data set.

    The refusal names the field and the second file.
    """
    mismatch = MISMATCHES[name]
    paths = [write_vote_file(tmp_path), mismatch.write_file(tmp_path)]
    name_of_first_file = "a.npz" if name != "order" else ""
    with refused_parameter(
        f"votes={paths[1]}, {mismatch.field}", value=mismatch.value, rule_words=name_of_first_file
    ) as error:
        GatheredVotes.read(paths)
    assert HEAD.queries not in str(error.value), "digests stay unsaid"


def test_votes_need_a_holder_and_no_holder_twice(tmp_path: Path) -> None:
    """Two files of the same holder are refused, and so is an empty list of files."""
    paths = [write_vote_file(tmp_path), write_vote_file(tmp_path, file_name="copy")]
    with refused_parameter(f"votes={paths[1]}, holder", value="a"):
        GatheredVotes.read(paths)
    with refused_parameter("votes", value="[]"):
        GatheredVotes(holders_files=[])


@pytest.mark.slow
def test_every_damaged_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """A vote file with an inverted byte is refused as damaged, or its votes are read unchanged.

    Every 13th byte is tried, and over 150 of the copies are refused.
    """
    path = write_vote_file(tmp_path, head=replace(HEAD, cast="confidences"))
    content = path.read_bytes()
    broken_path = tmp_path / "broken.npz"
    sound = GatheredVotes.read([path])
    expected = sound.counts(), np.concatenate(list(sound.confidences()))
    num_refused = 0
    for place in range(0, len(content), 13):
        broken_path.write_bytes(
            content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
        )
        try:
            votes = GatheredVotes.read([broken_path])
            got = votes.counts(), np.concatenate(list(votes.confidences()))
            votes.label_shares()
        except DamagedFile as error:
            assert str(error).startswith(f"file={broken_path}: expected")
            num_refused += 1
            continue
        for array, sent in zip(got, expected, strict=True):
            np.testing.assert_array_equal(array, sent)
    assert num_refused > 150


def test_truncated_file_gives_a_one_line_error(tmp_path: Path) -> None:
    """A vote file that is cut off is refused as damaged, and so is a missing file."""
    path = write_vote_file(tmp_path)
    content = path.read_bytes()
    for length in (0, 30, 500, -1):
        path.write_bytes(content[:length])
        with refused_parameter("file", value=ANY, rule_words="a whole vote", kind=DamagedFile):
            VoteFile.open(path)
    with refused_parameter("file", value=ANY, rule_words="gone", kind=DamagedFile):
        VoteFile.open(tmp_path / "nowhere.npz")


def test_votes_that_contradict_their_head_are_refused(tmp_path: Path) -> None:
    """A vote file is refused if teachers vote for more labels than the `vote_clip` of its manifest.

    Such votes are not written either.
    """
    path = write_vote_file(tmp_path, head=replace(HEAD, vote_clip=11))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    false_manifest = io.BytesIO()
    np.save(
        false_manifest,
        VoteFile.open(path).manifest.to_text().replace('"vote_clip": 11', '"vote_clip": 1 '),
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"manifest.npy": false_manifest.getvalue()}).items():
            archive.writestr(name, content)
    with refused_parameter("file", value=ANY, rule_words="more than", kind=DamagedFile):
        list(VoteFile.open(path).bits())
    with refused_parameter("votes[0, 0]", rule_words="vote_clip=1 labels"):
        write_vote_file(tmp_path, head=replace(HEAD, vote_clip=1))


def test_head_with_invalid_fields_is_refused() -> None:
    """A manifest with an invalid or unknown field is refused with the name of the field."""
    for changes, refusal in (
        ({"holder": ""}, refused_parameter("holder", value="''")),
        ({"num_teachers": 0}, refused_parameter("num_teachers", value=0)),
        ({"num_teachers": 41}, refused_parameter("num_teachers", value=41)),
        ({"queries": "x"}, refused_parameter("queries", value="another text")),
        ({"cast": "votes"}, refused_parameter("cast", value="votes")),
        ({"format": 2}, refused_parameter("format", value=2)),
    ):
        with refusal:
            replace(HEAD, **changes)
    with refused_parameter("manifest", value="['holder', 'owner']"):
        VoteManifest.from_text(HEAD.to_text().replace("holder", "owner"))
    assert VoteManifest.from_text(HEAD.to_text()) == HEAD


def test_votes_of_others_are_read_in_every_layout(tmp_path: Path) -> None:
    """Votes of another project have the same counts whether read as bits, as a histogram or as pairs.

    A histogram has no votes of single teachers. The counts of several files add up, and the same file twice is refused.
    """
    bits = confidences_of(holder="a") >= 0.5
    np.savez(tmp_path / "bits.npz", votes=bits)
    np.save(tmp_path / "counts.npy", bits.sum(axis=0))
    np.save(
        tmp_path / "pairs.npy", np.stack([TEACHERS - bits.sum(axis=0), bits.sum(axis=0)], axis=2)
    )
    bits_source = ForeignVotes(paths=[tmp_path / "bits.npz"])
    histogram_source = ForeignVotes(
        paths=[tmp_path / "counts.npy"], layout="histogram", num_teachers=TEACHERS
    )
    pairs_source = ForeignVotes(paths=[tmp_path / "pairs.npy"], layout="pairs")
    for votes in (bits_source, histogram_source, pairs_source):
        np.testing.assert_array_equal(votes.counts(), bits.sum(axis=0))
        assert votes.num_teachers == TEACHERS
    np.testing.assert_array_equal(np.concatenate(list(bits_source.bits())), bits)
    with refused_parameter("votes", value=ANY, rule_words="counts do"):
        histogram_source.bits()
    with refused_parameter("votes", value=ANY, rule_words="counts do"):
        histogram_source.counts(max_votes=2)
    both = ForeignVotes(paths=[tmp_path / "bits.npz", tmp_path / "pairs.npy"])
    np.testing.assert_array_equal(both.counts(), 2 * bits.sum(axis=0))
    (tmp_path / "copy.npz").write_bytes((tmp_path / "bits.npz").read_bytes())
    with refused_parameter("votes", value=ANY, rule_words="is the same"):
        ForeignVotes(paths=[tmp_path / "bits.npz", tmp_path / "copy.npz"])


@pytest.mark.slow
@pytest.mark.parametrize("num_teachers", [1, 100, 30_000])
def test_sum_of_partial_sums_equals_the_total(num_teachers: int, tmp_path: Path) -> None:
    """Six holders' vote files have the same sum in steps as at once.

    Counts, holders, the number of teachers, the number of groups, and the records per teacher agree.
    A sum has mode 0600.
    """
    paths = [
        write_vote_file(tmp_path, holder=holder, num_teachers=num_teachers if holder == "c" else 2)
        for holder in "abcdef"
    ]
    direct = GatheredVotes.read(paths)
    sum_of_two_holders = GatheredVotes.read(paths[:2]).write(tmp_path / "left.npz")
    sum_of_three_holders = GatheredVotes.read(paths[2:5]).write(tmp_path / "right.npz")
    GatheredVotes(holders_files=[sum_of_two_holders, sum_of_three_holders]).write(
        tmp_path / "both.npz"
    )
    total = GatheredVotes.read([tmp_path / "both.npz", paths[5]])
    np.testing.assert_array_equal(total.counts(), direct.counts())
    assert [head.holder for head in total.heads] == [head.holder for head in direct.heads]
    assert (total.num_teachers, total.num_groups) == (
        direct.num_teachers,
        direct.num_groups,
    )
    assert total.records_per_teacher == direct.records_per_teacher
    assert stat.S_IMODE((tmp_path / "both.npz").stat().st_mode) == 0o600
    assert is_sum_file(tmp_path / "both.npz") and not is_sum_file(paths[0])


def test_sums_with_different_queries_are_refused(tmp_path: Path) -> None:
    """A sum of two holders' votes is refused beside the file of one of them, or beside votes on other queries.

    A sum has neither bits nor confidences nor clipped counts.
    """
    paths = [write_vote_file(tmp_path, holder=holder) for holder in "abc"]
    GatheredVotes.read(paths[:2]).write(tmp_path / "sum.npz")
    with refused_parameter(f"votes={paths[1]}, holder", value="b"):
        GatheredVotes.read([tmp_path / "sum.npz", paths[1]])
    with refused_parameter(f"votes={tmp_path}/d.npz, queries", value="others"):
        GatheredVotes.read(
            [
                tmp_path / "sum.npz",
                write_vote_file(tmp_path, holder="d", head=replace(HEAD, queries="1" * 64)),
            ]
        )
    votes = GatheredVotes.read([tmp_path / "sum.npz"])
    for read in (
        votes.bits,
        votes.confidences,
        votes.label_shares,
        lambda: votes.counts(max_votes=3),
    ):
        with pytest.raises(InvalidValue, match="expected"):
            read()


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"queries": "1" * 64}, "queries", "others"),
        ({"vote_clip": None}, "vote_clip", None),
    ],
)
def test_a_sum_whose_holders_say_different_things_is_refused(
    changes: Any, name: str, value: object, tmp_path: Path
) -> None:
    """A file with a sum is refused if two manifests in it differ in queries or clip."""
    heads = (
        replace(HEAD, vote_clip=1),
        replace(HEAD, **({"holder": "b", "vote_clip": 1} | changes)),
    )
    SumFile.write(
        tmp_path / "sum.npz",
        heads=heads,
        counts=np.ones((QUERIES, LABELS), np.int64),
        record_ids=IDS,
        label_names=NAMES,
    )
    with refused_parameter(f"votes={tmp_path}/sum.npz, {name}", value=value):
        GatheredVotes.read([tmp_path / "sum.npz"])


def test_altered_sum_is_refused(tmp_path: Path) -> None:
    """A file with a sum is refused if a count is changed or the file is cut off.

    A count above the number of teachers is not written.
    """
    GatheredVotes.read([write_vote_file(tmp_path), write_vote_file(tmp_path, holder="b")]).write(
        tmp_path / "sum.npz"
    )
    content = (tmp_path / "sum.npz").read_bytes()
    place = content.index(b"counts.npy") + 10 + 128  # within the numbers
    (tmp_path / "sum.npz").write_bytes(content[:place] + b"\x07" + content[place + 1 :])
    with refused_parameter("file", value=ANY, rule_words="sums"):
        GatheredVotes.read([tmp_path / "sum.npz"]).counts()
    (tmp_path / "sum.npz").write_bytes(content[:-30])
    with refused_parameter("file", value=ANY, rule_words="whole"):
        SumFile.open(tmp_path / "sum.npz")
    with refused_parameter("counts[0, 0]", rule_words="at most 3"):
        SumFile.write(
            tmp_path / "more.npz",
            heads=(HEAD,),
            counts=np.full((QUERIES, LABELS), 4),
            record_ids=IDS,
            label_names=NAMES,
        )


@pytest.mark.parametrize("num_teachers", [1, 2, 3, 4, 7, 8, 15, 16, 100, 255, 257])
@pytest.mark.parametrize(("num_queries", "num_labels"), [(1, 1), (3, 8), (5, 11), (40, 1000)])
def test_sums_of_packed_bits_are_sums_of_bits(
    num_teachers: int, num_queries: int, num_labels: int
) -> None:
    """`BitSums`, which adds packed votes of `num_teachers` teachers, has the counts of the bits, also if read twice."""
    rng = np.random.default_rng(num_teachers)
    probabilities = rng.random((num_queries, num_labels))
    probabilities[0, 0] = 1  # all votes for it fill every digit
    bits = rng.random((num_teachers, num_queries, num_labels)) < probabilities
    bit_sums = BitSums(num_queries=num_queries, bytes_per_query=-(-num_labels // 8))
    packed_votes_of_teacher = np.empty((num_queries, -(-num_labels // 8)), dtype=np.uint8)
    for votes_of_teacher in bits:
        packed_votes_of_teacher[:] = np.packbits(votes_of_teacher, axis=1)
        bit_sums.add(packed_votes_of_teacher)  # which is used again
        packed_votes_of_teacher[:] = 0xFF
    np.testing.assert_array_equal(bit_sums.counts(num_labels=num_labels), bits.sum(axis=0))
    np.testing.assert_array_equal(
        bit_sums.counts(num_labels=num_labels), bits.sum(axis=0), "and may be read twice"
    )
