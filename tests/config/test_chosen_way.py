"""Tables and pictures choose public features and kernel teachers where no teacher is named, and say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pate.config.chosen_way import chosen_way
from tests.e2e.commands import call

WAY = ("features=patches", "teacher=kernel", "aggregator=centered_votes", "accountant=exact", "student=low_rank")


@pytest.mark.parametrize(
    ("words", "command", "chosen"),
    [
        (["data=celeba", "data.root=/somewhere", "target_epsilon=1"], "train", WAY),
        (["data=synth_faces", "student=mlp", "accountant=pld"], "train", WAY[:3]),
        (["data=celeba", "aggregator=gaussian_votes"], "train", WAY[:1]),
        (["data=celeba", "teacher.num_teachers=30"], "train", WAY[:1]),
        (["data=celeba"], "compare", WAY[:1]),
        (["data=icons"], "train", WAY),
        (["data=celeba", "teacher=cnn"], "train", ()),
        (["data=celeba", "teacher=cnn"], "compare", ()),
        (["data=celeba", "features=none"], "train", ()),
        (["data=celeba", "features.dimension=64"], "train", WAY),
        (["experiment=celeba_zhu_wang"], "train", ()),
        (["data=synth_faces", "experiment=synth_faces_800"], "train", ()),
        (["data=wordnet"], "train", ()),
        (["data=image_folder"], "train", WAY),
        (["data=table"], "train", WAY[1:]),
        (["data=table", "teacher.num_teachers=30"], "train", ()),
        (["data=table", "aggregator=gaussian_votes"], "train", ()),
        (["data=table", "teacher=linear"], "train", ()),
        (["data=table"], "compare", ()),
        (["data=celeba,wordnet", "-m"], "train", ()),
        (["data=celeba"], "predict", ()),
    ],
)
def test_what_a_command_line_leaves_open(words: list[str], command: str, chosen: tuple[str, ...]) -> None:
    assert chosen_way(words, command) == chosen


@pytest.mark.slow
def test_the_choice_is_said_and_kept_in_the_settings(tmp_path: Path) -> None:
    small = ["data.num_private=600", "data.num_public=80", "data.num_test=40", "data.image_size=10", "seed=0"]
    small += ["features.num_filters=16", "features.num_patches=2000"]
    terms = ["num_queries=60", "target_epsilon=1000", "allow_useless=true", "all_records=false"]
    ended = call("train", "data=synth_faces", *small, *terms, f"output_dir={tmp_path / 'run'}")
    assert ended.returncode == 0, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if "no teacher is named" in line]
    assert all(word in line for word in (*WAY, "teacher=cnn", "features=none"))
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert settings["features"]["_target_"].endswith("Patches")
    assert settings["teacher"]["_target_"].endswith("KernelTeacher")
