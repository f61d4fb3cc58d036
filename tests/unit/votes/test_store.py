"""Vote files are read back as they were written, with little memory, and refused if they are damaged."""

import numpy as np
import pytest

from pate.votes import StoredVotes, VoteStore, vote_store
from tests.memory import measure_memory
from tests.refusals import ANY, refused_parameter


def make_votes(num_teachers=10, num_queries=6, num_labels=13):
    """Returns random votes, bool `[num_teachers, num_queries, num_labels]`."""
    return np.random.default_rng(1).random(size=(num_teachers, num_queries, num_labels)) < 0.4


def write_votes(path, votes, block_size=4):
    """Writes votes to a file in blocks of `block_size` teachers, and returns its vote store."""
    num_teachers, num_queries, num_labels = votes.shape
    first_teachers = range(0, num_teachers, block_size)
    return VoteStore.write(
        path,
        blocks=(votes[first : first + block_size] for first in first_teachers),
        num_teachers=num_teachers,
        num_queries=num_queries,
        num_labels=num_labels,
    )


@pytest.mark.parametrize("num_labels", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("block_size", [1, 3, 100])
def test_written_votes_are_read_back(tmp_path, num_labels, block_size):
    """Votes that are written in blocks of teachers, packed 8 labels to a byte, are read back with the same counts."""
    votes = make_votes(num_labels=num_labels)
    written = write_votes(path=tmp_path / "votes.npz", votes=votes, block_size=block_size)
    opened_store = VoteStore.open(written.path, num_teachers=10)
    assert opened_store == written
    assert (opened_store.teacher_votes() == votes).all()
    assert (opened_store.histogram() == votes.sum(axis=0)).all()
    assert (StoredVotes(opened_store).counts() == votes.sum(axis=0)).all()


def test_blocks_are_cut_to_the_memory_allowed(tmp_path, monkeypatch):
    """If the memory limit allows the votes of 4 teachers, 9 teachers are read in blocks of 4, 4 and 1."""
    opened_store = write_votes(path=tmp_path / "votes.npz", votes=make_votes(num_teachers=9))
    monkeypatch.setattr(vote_store, "BLOCK_BYTES", 4 * 6 * 13)
    assert [len(block) for block in opened_store.blocks()] == [4, 4, 1]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_teachers(tmp_path, monkeypatch):
    """40 MB of votes are written and counted with less than 8 MB of memory."""
    monkeypatch.setattr(vote_store, "BLOCK_BYTES", 2**20)
    blocks = (np.ones((1, 500, 40), bool) for _ in range(2000))

    def write_and_count():
        opened_store = VoteStore.write(
            tmp_path / "votes.npz",
            blocks=blocks,
            num_teachers=2000,
            num_queries=500,
            num_labels=40,
        )
        return StoredVotes(opened_store).counts()

    counts = measure_memory(write_and_count)
    assert (counts.result == 2000).all()
    assert counts.peak_memory < 8e6


@pytest.mark.parametrize("num_bytes", [0, 10, 200, -1])
def test_a_torn_file_is_refused(tmp_path, num_bytes):
    """A vote file that is cut after its first 0, 10 or 200 bytes, or before its last byte, is refused."""
    path = write_votes(path=tmp_path / "votes.npz", votes=make_votes()).path
    path.write_bytes(path.read_bytes()[:num_bytes])
    with refused_parameter("file", value=ANY, rule_words="vote file"):
        VoteStore.open(path)


def test_set_padding_bits_after_the_last_label_are_refused(tmp_path):
    """A file of 13 labels, which fill two bytes except 3 bits, is refused if these bits are 1."""
    np.savez(
        tmp_path / "votes.npz", packed=np.full((2, 3, 2), 255, np.uint8), num_labels=np.array(13)
    )
    with refused_parameter("file", value=ANY, rule_words="vote file (bits"):
        list(VoteStore.open(tmp_path / "votes.npz").blocks())


def test_a_flipped_bit_fails_the_checksum(tmp_path):
    """Reading votes is refused if one bit of the packed votes is flipped."""
    votes = make_votes(num_teachers=2000, num_labels=8)
    path = write_votes(path=tmp_path / "votes.npz", votes=votes).path
    file_content = bytearray(path.read_bytes())
    position = bytes(file_content).index(np.packbits(votes, axis=-1).tobytes()) + 9000
    file_content[position] ^= 1
    path.write_bytes(bytes(file_content))
    opened_store = VoteStore.open(path)  # This checks the shape alone.
    with refused_parameter("file", value=ANY, rule_words="vote file (Bad"):
        StoredVotes(opened_store).counts()
