"""What the commands share that run something: a run's name and folder, stages that are shown, data that are watched."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys

import pytest
from omegaconf import OmegaConf
from rich.console import Console

from pate.cli.run import BESIDE, ConsoleMonitor, default_folder, plain_settings, run_heading, watched_load
from pate.data import SynthFaces, Yeast
from pate.report.report import Heading
from pate.validation import InvalidValue

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
    assert refused.startswith("data.public=None: expected data.private=, data.public= and")


def test_a_stage_inside_another_is_shown_with_it() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monitor = ConsoleMonitor(console)
    with monitor.stage("outer"), monitor.stage("inner", 3) as advance:
        advance(3, "done")
    with monitor.stage("next", 1) as advance:
        advance(1)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    places = [re.search(line, text).start() for line in (r"inner: \d+\.\d s \(done\)", r"outer: \d", r"next: \d")]
    assert places == sorted(places)


def test_data_sets_with_stages_are_watched_and_others_read_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=100)
    faces = SynthFaces(num_private=2, num_public=1, num_test=1, image_size=4)
    assert watched_load(faces, ConsoleMonitor(console))().digest() == faces.load().digest()
    assert "drawing faces: " in console.file.getvalue()
    load = pickle.loads(pickle.dumps(watched_load(faces, ConsoleMonitor(console))))  # as a comparison's workers get it
    assert load().digest() == faces.load().digest()
    assert console.file.getvalue().count("drawing faces: ") == 1
    with pytest.raises(InvalidValue, match=r"^data\.path=nowhere: expected a readable CSV file$"):
        watched_load(Yeast(path="nowhere"), ConsoleMonitor(console))()
    with pytest.raises(InvalidValue, match=r"^data=Console: expected a class whose load\(\) gives a "):
        watched_load(console, ConsoleMonitor(console))
