"""Files of experts' answers and of public answers: how they are read, and which are refused."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from pate.validation import InvalidValue
from pate.votes import expert_answers
from pate.votes.expert_answers import ExpertAnswers
from pate.votes.public_answers import PublicAnswers
from tests.refusals import ANY, refused_parameter

RNG = np.random.default_rng(0)
EXPERT_LOG_ODDS = RNG.normal(size=(7, 4, 3)).astype(np.float32)
PUBLIC_LOG_ODDS = RNG.normal(size=(4, 3))
EXPERT_PROBABILITIES = 1 / (1 + np.exp(-EXPERT_LOG_ODDS.astype(np.float64)))
PUBLIC_PROBABILITIES = 1 / (1 + np.exp(-PUBLIC_LOG_ODDS))
RECORD_IDS = np.array([5, 6, 7, 9])
LABEL_NAMES = np.array(["a", "b", "c"])


def read_public_answers(
    folder: Path, arrays: Mapping[str, Any] = MappingProxyType({})
) -> PublicAnswers:
    """Returns public answers that were read from a file.

    Args:
        folder: the folder of the file.
        arrays: arrays of the file by name, beside or in place of the usual log-odds.
    """
    np.savez(folder / "public.npz", **{"answers": PUBLIC_LOG_ODDS, **arrays})
    return PublicAnswers.read(folder / "public.npz")


def read_expert_answers(
    folder: Path, arrays: Mapping[str, Any] = MappingProxyType({})
) -> ExpertAnswers:
    """Returns answers of seven experts that were read from a file.

    Args:
        folder: the folder of the file.
        arrays: arrays of the file by name, beside or in place of the usual log-odds.
    """
    np.savez(folder / "answers.npz", **{"answers": EXPERT_LOG_ODDS, **arrays})
    return ExpertAnswers([folder / "answers.npz"], public=read_public_answers(folder=folder))


def all_confidences(votes: ExpertAnswers) -> Any:
    """Returns the probabilities of all experts."""
    return np.concatenate(list(votes.confidences()))


@pytest.mark.parametrize("block_entries", [1, 30, 2**21])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_log_odds_become_probabilities_in_blocks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any, block_entries: int
) -> None:
    """Log-odds of each float type give the logistic function of them, however many experts a block has."""
    monkeypatch.setattr(expert_answers, "_BLOCK_ENTRIES", block_entries)
    votes = read_expert_answers(folder=tmp_path, arrays={"answers": EXPERT_LOG_ODDS.astype(dtype)})
    np.testing.assert_allclose(
        all_confidences(votes=votes),
        EXPERT_PROBABILITIES,
        atol=1e-3 if dtype == np.float16 else 1e-7,
    )
    assert votes.shape.num_teachers == 7
    assert {len(block) for block in votes.confidences()} <= {1, 2, 7}
    means_over_queries = EXPERT_PROBABILITIES.mean(axis=1)
    np.testing.assert_allclose(votes.label_shares(), means_over_queries, atol=1e-3)


def test_bits_are_read_as_certain_answers(tmp_path: Path) -> None:
    """A bool array gives the probabilities 0 and 1."""
    bits = EXPERT_LOG_ODDS > 0
    votes = read_expert_answers(folder=tmp_path, arrays={"answers": bits})
    np.testing.assert_array_equal(all_confidences(votes=votes), bits)
    np.testing.assert_array_equal(np.concatenate(list(votes.bits())), bits)


def test_an_unanswered_question_counts_as_the_center(tmp_path: Path) -> None:
    """A question that an expert did not answer counts as the center, and its log-odds may be NaN.

    The confidence in a question without an answer is the public probability.
    """
    is_label_answered = EXPERT_LOG_ODDS > -1
    expert_log_odds = np.where(is_label_answered, EXPERT_LOG_ODDS, np.nan)
    votes = read_expert_answers(
        folder=tmp_path, arrays={"answers": expert_log_odds, "answered": is_label_answered}
    )
    expected = np.where(is_label_answered, EXPERT_PROBABILITIES, PUBLIC_PROBABILITIES)
    np.testing.assert_allclose(all_confidences(votes=votes), expected, atol=1e-7)
    blocks = votes.votes_around(center=np.float64(0.25), noise_multiplier=1.0)
    assert (np.concatenate(list(blocks))[~is_label_answered] == 0.25).all()


def test_several_files_are_one_source_in_order_of_their_names(tmp_path: Path) -> None:
    """Two files of different experts are read in the order of their names. Their digest is not that of the first."""
    public_answers = read_public_answers(folder=tmp_path)
    np.savez(tmp_path / "experts_4_to_7.npz", answers=EXPERT_LOG_ODDS[3:])
    np.savez(tmp_path / "experts_1_to_3.npz", answers=EXPERT_LOG_ODDS[:3])
    votes = ExpertAnswers(
        [tmp_path / "experts_4_to_7.npz", tmp_path / "experts_1_to_3.npz"], public=public_answers
    )
    np.testing.assert_allclose(all_confidences(votes=votes), EXPERT_PROBABILITIES, atol=1e-7)
    assert votes.num_teachers == 7
    assert (
        votes.digest
        != ExpertAnswers([tmp_path / "experts_1_to_3.npz"], public=public_answers).digest
    )


def test_names_are_those_of_the_public_answers(tmp_path: Path) -> None:
    """The names of queries and labels are those in the public file.

    Without label names, they are label_0, label_1 and label_2.
    """
    public_answers = read_public_answers(
        folder=tmp_path, arrays={"record_ids": RECORD_IDS, "label_names": LABEL_NAMES}
    )
    assert public_answers.label_names == ("a", "b", "c")
    assert public_answers.record_ids.tolist() == [5, 6, 7, 9]
    np.savez(
        tmp_path / "answers.npz",
        answers=EXPERT_LOG_ODDS,
        record_ids=RECORD_IDS,
        label_names=LABEL_NAMES,
    )
    votes = ExpertAnswers([tmp_path / "answers.npz"], public=public_answers)
    assert votes.label_names == ("a", "b", "c")
    assert read_expert_answers(folder=tmp_path).label_names == ("label_0", "label_1", "label_2")


@pytest.mark.parametrize(
    ("arrays", "name", "rule"),
    [
        ({"answers": EXPERT_LOG_ODDS[:, :3]}, "answers.shape", "[num_experts, 4, 3]"),
        ({"answers": EXPERT_LOG_ODDS[0]}, "answers.shape", "[num_experts, 4, 3]"),
        ({"answers": EXPERT_LOG_ODDS[:0]}, "answers.shape", "[num_experts, 4, 3]"),
        ({"answers": EXPERT_LOG_ODDS.astype(np.int64)}, "file", "dtype int64"),
        ({"answers": np.asfortranarray(EXPERT_LOG_ODDS)}, "file", "C order"),
        ({"votes": EXPERT_LOG_ODDS}, "file", "votes"),
        ({"answered": np.ones((7, 4), bool)}, "answered.shape", "[7, 4, 3]"),
        ({"answered": np.ones((7, 4, 3))}, "file", "dtype float64"),
        ({"groups": np.arange(7)}, "groups.shape", "[7, n]"),
        ({"groups": np.arange(6)[:, None]}, "groups.shape", "[7, n]"),
        ({"label_names": np.array(["a", "b", "d"])}, "label_names", "those of public_answers"),
        ({"record_ids": np.array([1, 0, 2, 3])}, "record_ids", "those of public_answers"),
    ],
    ids=str,
)
def test_files_of_another_form_are_refused_when_they_are_opened(
    tmp_path: Path, arrays: Mapping[str, Any], name: str, rule: str
) -> None:
    """A file with other shapes, types, names or arrays is refused in one line before an answer is read."""
    with pytest.raises(InvalidValue) as caught:
        read_expert_answers(folder=tmp_path, arrays=arrays)
    assert caught.value.name.endswith(name)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_log_odds_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    """Log-odds of an expert, or of the public model, that are NaN or infinite are refused with their indices."""
    answers = EXPERT_LOG_ODDS.copy()
    answers[5, 2, 1] = value
    with refused_parameter("votes[5, 2, 1]", value=ANY, rule_words="finite log-odds"):
        all_confidences(votes=read_expert_answers(folder=tmp_path, arrays={"answers": answers}))
    public_log_odds = PUBLIC_LOG_ODDS.copy()
    public_log_odds[2, 1] = value
    with refused_parameter("public_answers[2, 1]", value=ANY, rule_words="finite log-odds"):
        read_public_answers(folder=tmp_path, arrays={"answers": public_log_odds})


@pytest.mark.parametrize(
    ("arrays", "name"),
    [
        ({"answers": PUBLIC_LOG_ODDS[0]}, "file"),
        ({"answers": PUBLIC_LOG_ODDS > 0}, "file"),
        ({"answers": PUBLIC_LOG_ODDS[:0]}, "public_answers.shape"),
        ({"others": PUBLIC_LOG_ODDS}, "file"),
        ({"record_ids": np.array([1, 2, 2, 3])}, "public_answers.record_ids"),
        ({"label_names": np.array(["a", "b"])}, "public_answers.label_names"),
    ],
    ids=str,
)
def test_public_answers_of_another_form_are_refused(
    tmp_path: Path, arrays: Mapping[str, Any], name: str
) -> None:
    """Public answers are refused if they have another shape, type or name, an id twice, or too few label names."""
    with pytest.raises(InvalidValue) as caught:
        read_public_answers(folder=tmp_path, arrays=arrays)
    assert caught.value.name == name


def test_compressed_and_repeated_files_are_refused(tmp_path: Path) -> None:
    """Compressed answers are refused, as they cannot be read in blocks.

    A copy of a file is refused beside the file, as its experts would count twice.
    """
    public_answers = read_public_answers(folder=tmp_path)
    np.savez_compressed(tmp_path / "small.npz", answers=EXPERT_LOG_ODDS)
    with refused_parameter("file", value=ANY, rule_words="a compressed array"):
        ExpertAnswers([tmp_path / "small.npz"], public=public_answers)
    np.savez(tmp_path / "answers.npz", answers=EXPERT_LOG_ODDS)
    (tmp_path / "same_answers.npz").write_bytes((tmp_path / "answers.npz").read_bytes())
    with refused_parameter("votes", value=ANY, rule_words="each file once"):
        ExpertAnswers(
            [tmp_path / "answers.npz", tmp_path / "same_answers.npz"], public=public_answers
        )


def test_a_group_in_two_prompts_is_refused(tmp_path: Path) -> None:
    """A group may be in one prompt several times, but not in two prompts, also of two files."""
    groups_in_prompts = np.arange(14).reshape((7, 2))
    groups_in_prompts[0] = 3_000
    read_expert_answers(folder=tmp_path, arrays={"groups": groups_in_prompts})
    groups_in_overlapping_prompts = groups_in_prompts.copy()
    groups_in_overlapping_prompts[6, 1] = 3_000
    for stored_groups_in_prompts in (
        groups_in_overlapping_prompts,
        groups_in_overlapping_prompts.astype(np.str_),
    ):
        with refused_parameter(
            "groups", value="a group in two prompts", rule_words="one prompt alone"
        ):
            read_expert_answers(folder=tmp_path, arrays={"groups": stored_groups_in_prompts})
    np.savez(
        tmp_path / "experts_1_to_3.npz", answers=EXPERT_LOG_ODDS[:3], groups=groups_in_prompts[:3]
    )
    np.savez(
        tmp_path / "experts_4_to_7.npz",
        answers=EXPERT_LOG_ODDS[3:],
        groups=groups_in_overlapping_prompts[3:],
    )
    with refused_parameter("groups", value="a group in two prompts", rule_words="one prompt alone"):
        ExpertAnswers(
            [tmp_path / "experts_1_to_3.npz", tmp_path / "experts_4_to_7.npz"],
            public=read_public_answers(folder=tmp_path),
        )


def test_a_torn_file_is_refused_while_it_is_read(tmp_path: Path) -> None:
    """A file with a changed byte is refused while it is read, by its checksum."""
    votes = read_expert_answers(folder=tmp_path)
    content = bytearray(votes.answer_paths[0].read_bytes())
    content[200] ^= 1
    votes.answer_paths[0].write_bytes(content)
    with refused_parameter("file", value=ANY, rule_words="CRC"):
        all_confidences(votes=votes)
