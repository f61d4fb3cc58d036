"""What a run is called: by its YAML name where it has one, and by what the command line said."""

from __future__ import annotations

from pate.cli.heading import default_folder, run_heading

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


def test_the_folder_is_called_alike_and_stays_within_outputs() -> None:
    heading = run_heading(SETTINGS, [], CHOICES)
    assert default_folder(SETTINGS, heading).startswith("outputs/wordnet-stable_top_k_table-")
    assert default_folder(SETTINGS, heading) == default_folder(
        dict(SETTINGS), run_heading(SETTINGS, ["seed=1"], CHOICES)
    )
    odd = run_heading(SETTINGS, [], CHOICES | {"aggregator": "../mine"})
    assert default_folder(SETTINGS, odd).startswith("outputs/wordnet-___mine-")
