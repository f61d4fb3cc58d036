"""What a run is called: by its YAML name where it has one, and by what the command line said."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from pate.cli.run import BESIDE, default_folder, plain_settings, run_heading
from pate.report.report import Heading

SETTINGS = {
    "aggregator": {"_target_": "pate.aggregators.StableTopK"},
    "data": {"_target_": "pate.data.WordNet40"},
    "teacher": {"_target_": "pate.teachers.LinearTeacher", "num_teachers": 400},
    "target_epsilon": 8.0,
    "seed": None,
}
CHOICES = {"aggregator": "stable_top_k_table", "data": "wordnet", "teacher": "linear"}


def test_the_yaml_name_and_the_overrides() -> None:
    said = ["target_epsilon=8", "+student.penalties=[1,2]", "output_dir=/a", "ledger=/b"]
    heading = run_heading(SETTINGS, said, CHOICES)
    assert heading.aggregator == "stable_top_k_table"
    assert heading.is_public
    assert heading.overrides == "target_epsilon=8 student.penalties=[1,2]"
    assert heading.compared == {
        "data": "wordnet",
        "aggregator": "stable_top_k_table",
        "teacher": "linear",
        "target_epsilon": 8.0,
        "seed": None,
        "num_teachers": 400,
        "student.penalties": "[1,2]",
    }


def test_a_class_given_in_place_of_the_file_is_the_name() -> None:
    heading = run_heading(SETTINGS, ["aggregator._target_=my.StableTopK"], CHOICES)
    assert (heading.aggregator, heading.is_public) == ("StableTopK", False)
    assert not run_heading(SETTINGS, [], CHOICES | {"aggregator": "patients_2024"}).is_public


def folder_of(heading: Heading) -> str:
    return default_folder(str(heading.compared["data"]), heading.aggregator, settings=SETTINGS)


def test_the_folder_is_called_alike_and_stays_within_outputs() -> None:
    heading = run_heading(SETTINGS, [], CHOICES)
    assert folder_of(heading).startswith("outputs/wordnet-stable_top_k_table-")
    assert folder_of(heading) == folder_of(run_heading(SETTINGS, ["seed=1"], CHOICES))
    odd = run_heading(SETTINGS, [], CHOICES | {"aggregator": "../mine"})
    assert folder_of(odd).startswith("outputs/wordnet-___mine-")


def test_a_run_is_the_same_wherever_it_is_written_and_keeps_pictures() -> None:
    where = {"ledger": "c", "max_total_epsilon": 8.0, "redraw": True}
    runs = [{"output_dir": None, "data": {"cache": None}}, {"output_dir": "a", "data": {"cache": "b"}} | where]
    first, second = (plain_settings(OmegaConf.create(run), BESIDE) for run in runs)
    assert first == second == {"data": {"cache": None}}


@pytest.mark.process
def test_a_forgotten_file_is_told_before_a_teacher_loads_torch() -> None:
    program = "import sys; from pate.cli.train import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    given = ["data=table", "data.private=a.csv", "data.test=c.csv", "data.labels=[flu]"]
    done = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (2, "False")
    chosen, refused = done.stderr.splitlines()
    assert chosen.startswith("no teacher is named: teacher=kernel aggregator=centered_votes")
    assert refused.startswith("data.public=None: expected the file of the public records;")
