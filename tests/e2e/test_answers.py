"""`pate-release` releases the answers of experts, language models with private examples in their prompts.

The answers are centered on those of a public model, which sees no private example.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pate.accounting import RdpAccountant, SharedLedger
from pate.aggregators import CenteredRelease, CenteredVotes, MemoryRecord
from pate.run.cohort import Cohort
from pate.run.random_streams import RandomStreams
from pate.run.votes_release import ReleasePlan, release_votes
from pate.votes import ExpertAnswers, PublicAnswers
from tests.e2e.commands import Arguments, refused_command, succeeded

NUM_EXPERTS = 300
NUM_QUERIES = 40
NUM_LABELS = 5


class Killed(BaseException):
    """An exception that ends a release as a signal would."""


@pytest.fixture(scope="module")
def answers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with simulated answers, as log-odds, of 300 experts and of a public model.

    An expert is a language model with private examples. Experts know the first label better than the public model.
    """
    folder = tmp_path_factory.mktemp("answers")
    rng = np.random.default_rng(3)
    public_answers = rng.normal(loc=-1, size=(NUM_QUERIES, NUM_LABELS))
    known_lifts = np.zeros((NUM_QUERIES, NUM_LABELS))
    known_lifts[:, 0] = np.where(np.arange(NUM_QUERIES) % 2, 3, -3)
    noise = rng.normal(scale=0.3, size=(NUM_EXPERTS, NUM_QUERIES, NUM_LABELS))
    record_ids = np.arange(100, 100 + NUM_QUERIES)
    label_names = np.array(["first", "b", "c", "d", "e"])
    np.savez(
        folder / "public.npz",
        answers=public_answers,
        record_ids=record_ids,
        label_names=label_names,
    )
    np.savez(
        folder / "answers.npz",
        answers=public_answers + known_lifts + noise,
        groups=np.arange(2 * NUM_EXPERTS).reshape(NUM_EXPERTS, 2),
        record_ids=record_ids,
        label_names=label_names,
    )
    return folder


def arguments_of(answers_folder: Path, output: Path, changes: Arguments = ()) -> Arguments:
    """Returns the arguments of a release of the answers; `changes` replace defaults of the same names."""
    return (
        f"votes={answers_folder}/answers.npz",
        f"public_answers={answers_folder}/public.npz",
        "aggregator=centered_votes",
        "name=experts",
        "seed=5",
        f"output_dir={output}",
        *changes,
    )


def test_a_seeded_release_is_that_of_the_aggregator_alone(
    answers_folder: Path, tmp_path: Path
) -> None:
    """`pate-release` writes the same arrays as the aggregator called in Python with the same seed.

    The first label follows the experts. Card, `privacy.json` and `config.yaml` have the digest of the public answers.
    The same command called again spends nothing.
    """
    folder = tmp_path / "run"
    result = succeeded("release", arguments=arguments_of(answers_folder, output=folder))
    assert "one expert, with all private examples in its prompt" in result.stdout
    statement = json.loads((folder / "release" / "privacy.json").read_text())
    public = PublicAnswers.read(answers_folder / "public.npz")
    votes = ExpertAnswers(paths=[answers_folder / "answers.npz"], public=public)
    multiplier = statement["parameters"]["noise_multiplier"]
    aggregator = CenteredVotes(noise_multiplier=multiplier).around(public.probabilities)
    noise = RandomStreams(entropy=5).generator("noise")
    expected = aggregator.release(votes, rng=noise, record=MemoryRecord()).arrays()
    with np.load(folder / "release" / "release.npz") as arrays:
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array)
        assert arrays["label_names"][0] == "first"
        assert arrays["record_ids"][0] == 100
        lifts = arrays["probabilities"][:, 0] - arrays["center"][:, 0]
    is_lifted = np.arange(NUM_QUERIES) % 2 == 1
    assert lifts[is_lifted].mean() > 0.1
    assert lifts[~is_lifted].mean() < -0.05
    digest = hashlib.sha256((answers_folder / "public.npz").read_bytes()).hexdigest()
    assert statement["public_answers"] == digest
    assert statement["unit"] == "one expert, with all private examples in its prompt"
    assert digest in (folder / "release" / "privacy_card.md").read_text()
    settings = yaml.safe_load((folder / "release" / "config.yaml").read_text())
    assert settings["public_answers_sha256"] == digest
    assert str(answers_folder) not in (folder / "release" / "config.yaml").read_text()
    again = succeeded("release", arguments=arguments_of(answers_folder, output=folder))
    assert "nothing was drawn or spent again" in again.stderr
    assert len(SharedLedger.stored(path=tmp_path / "ledger.db").entries) == 1


def test_a_seeded_release_is_the_recorded_one(answers_folder: Path) -> None:
    """With seed 5, a release of experts' answers has the recorded labels, scores of the first query and noise."""
    public = PublicAnswers.read(answers_folder / "public.npz")
    answers = ExpertAnswers(paths=[answers_folder / "answers.npz"], public=public)
    aggregator = CenteredVotes(noise_multiplier=1.0).around(public.probabilities)
    release = aggregator.release(answers, rng=np.random.default_rng(5), record=MemoryRecord())
    assert isinstance(release, CenteredRelease)
    assert hashlib.sha256(np.packbits(release.labels)).hexdigest()[:16] == "79c0edd84c8b7bb2"
    first_scores = [0.43163991, 0.02937358, 0.36737946, 0.18514861, 0.19114597]
    np.testing.assert_allclose(release.scores[0], first_scores, atol=1e-6)
    assert release.noise_std == pytest.approx(0.009997978917, rel=1e-6)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_release_killed_at_each_file_is_drawn_and_charged_once(
    answers_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """A release that is killed before or after it writes any of its files has one charge when it is called again.

    The noise has no seed, yet a `release.npz` that was there before the second call does not change. With `is_replaced`
    the kill comes after the file is put in its place.
    """
    public = PublicAnswers.read(answers_folder / "public.npz")
    replace_file = os.replace
    for number in range(40):
        folder = tmp_path / f"{number}"
        ledger = folder.with_suffix(".db")
        answers = ExpertAnswers(paths=[answers_folder / "answers.npz"], public=public)
        plan = ReleasePlan(
            aggregator=CenteredVotes(noise_multiplier=1.0).around(public.probabilities),
            accountant=RdpAccountant,
            target_epsilon=8.0,
            ledger=ledger,
        )
        cohort_of_experts = Cohort.of_experts(answers, dataset_name="experts")
        num_replaced = 0

        def replace_or_die(source: Any, target: Any, number: int = number) -> None:
            nonlocal num_replaced
            num_replaced += 1
            is_killed = num_replaced == number + 1
            if is_killed and not is_replaced:
                raise Killed
            replace_file(source, target)
            if is_killed:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace_or_die)
            try:
                release_votes(
                    plan, vote_source=answers, cohort=cohort_of_experts, output_dir=folder
                )
            except Killed:
                pass
            else:
                break
        path = folder / "release" / "release.npz"
        bytes_before = path.read_bytes() if path.exists() else None
        release_votes(plan, vote_source=answers, cohort=cohort_of_experts, output_dir=folder)
        assert bytes_before in (None, path.read_bytes())
        assert len(SharedLedger.stored(ledger).entries) == 1
    assert number > 5


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["aggregator=gaussian_votes"], "expected centered_votes beside public_answers="),
        (["public_answers=null"], "expected the file of a public model's answers"),
        (["layout=teacher_votes"], "layout=teacher_votes: expected none beside public_answers="),
        (["num_teachers=299"], "expected 300, the experts in the files"),
        (["aggregator.rounds=5"], "rounds=5: expected 1 for answers"),
        (["aggregator.center=0.5"], "center"),
        (["adjacency=add_remove"], "adjacency=add_remove"),
        (["public_answers=none.npz"], "expected an existing .npz file"),
    ],
)
def test_settings_that_do_not_fit_answers_are_refused(
    answers_folder: Path, tmp_path: Path, changes: list[str], line: str
) -> None:
    """`pate-release` refuses settings that do not go with answers of experts, and makes no ledger."""
    assert line in refused_command(
        "release", arguments=arguments_of(answers_folder, output=tmp_path / "run", changes=changes)
    )
    assert not (tmp_path / "ledger.db").exists()


def test_a_begun_release_keeps_its_public_answers(answers_folder: Path, tmp_path: Path) -> None:
    """`pate-release` refuses to go on in a folder if the file of public answers has changed since."""
    copy = tmp_path / "public.npz"
    copy.write_bytes((answers_folder / "public.npz").read_bytes())
    changes = (f"public_answers={copy}",)
    succeeded(
        "release", arguments=arguments_of(answers_folder, output=tmp_path / "run", changes=changes)
    )
    with np.load(copy) as arrays:
        np.savez(
            copy.with_suffix(".changed.npz"),
            answers=arrays["answers"] + 0.5,
            record_ids=arrays["record_ids"],
            label_names=arrays["label_names"],
        )
    copy.with_suffix(".changed.npz").replace(copy)
    line = refused_command(
        "release", arguments=arguments_of(answers_folder, output=tmp_path / "run", changes=changes)
    )
    assert "another" in line
