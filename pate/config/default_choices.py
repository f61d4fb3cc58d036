"""Choices that a command line leaves open, and that depend on its other choices.

Hydra's lists of defaults name further choices for a choice that was made. They cannot react to a choice that was not
made, such as a missing teacher. So such choices are made here, from the command line, before anything runs.
`--cfg job` shows them, and a run prints a sentence on them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pate.config.command_line import given_settings
from pate.config.schema import CONFIG_FOLDER
from pate.files.plain_yaml import read_yaml

# The member of the group `way` for each data set that has one.
_WAY_TO_TRAIN_BY_DATA = {"celeba": "pictures", "image_folder": "pictures", "table": "table"}
# A command line with one of these settings decides itself.
_DECIDING_SETTINGS = {
    "teacher",
    "teacher._target_",
    "features",
    "features._target_",
    "experiment",
    "way",
}
# The teachers that learn from pictures themselves.
_TEACHERS_OF_PICTURES = ("cnn", "resnet50")


def default_way(arguments: Iterable[str], *, command: str) -> str | None:
    """Returns the name to choose in the group `way` for pate-train or pate-compare; None to choose none.

    The group `way` chooses teacher, aggregator, accountant and student together, and features of pictures. Tables and
    pictures have a way. No way is chosen for other data, or if the command line names a teacher, features, an
    experiment or a way. One exception is `features=kernel` in pate-train, which chooses the way for tables for any
    data.

    In pate-compare, or beside a setting of the teacher or aggregator, the way for pictures is `features`, which chooses
    features alone. For tables no way is chosen then.

    Args:
        arguments: the arguments of the command line.
        command: the name of the command.
    """
    settings_of_command_line = given_settings(arguments=arguments)
    names_no_other = not (_DECIDING_SETTINGS - {"features"}) & settings_of_command_line.keys()
    if (
        settings_of_command_line.get("features") == "kernel"
        and command == "train"
        and names_no_other
    ):
        return "table"
    way_to_train = _WAY_TO_TRAIN_BY_DATA.get(settings_of_command_line.get("data", ""))
    if (
        way_to_train is None
        or command not in ("train", "compare")
        or _DECIDING_SETTINGS & settings_of_command_line.keys()
    ):
        return None
    set_groups = {setting_name.partition(".")[0] for setting_name in settings_of_command_line}
    if command == "train" and not {"teacher", "aggregator"} & set_groups:
        return way_to_train
    return "features" if way_to_train == "pictures" else None


def way_line(member_by_group: Mapping[str, Any]) -> str | None:
    """Returns a sentence on the parts that the group `way` chose; None if no way is chosen.

    Args:
        member_by_group: the chosen member of each group.
    """
    way = member_by_group.get("way")
    if way in (None, "none"):
        return None
    groups = [] if way == "table" else ["features"]
    groups += [] if way == "features" else ["teacher", "aggregator", "accountant", "student"]
    remedy = "teacher=cnn is the papers' way, features=none the pictures'"
    if way == "table":
        remedy = "teacher=linear and aggregator=gaussian_votes are a plainer way"
    chosen_members = " ".join(f"{group}={member_by_group[group]}" for group in groups)
    return f"no teacher is named: {chosen_members}; {remedy}"


def default_student(arguments: Iterable[str], *, command: str) -> str | None:
    """Returns `cnn`, a student for pictures, if the teachers learn from pictures and no student is named; else None.

    Such teachers are `teacher=cnn` and `teacher=resnet50` of pate-train and pate-compare. The default student is linear
    in raw pixels, and learns little from pictures. None is also returned for an experiment that names a student, that
    includes a file which may name one, or of which pate has no file.

    Args:
        arguments: the arguments of the command line.
        command: the name of the command.
    """
    settings_of_command_line = given_settings(arguments=arguments)
    names_student = {"student", "student._target_"} & settings_of_command_line.keys()
    has_teachers_of_pictures = settings_of_command_line.get("teacher") in _TEACHERS_OF_PICTURES
    if command not in ("train", "compare") or not has_teachers_of_pictures or names_student:
        return None
    experiment_name = settings_of_command_line.get("experiment")
    if experiment_name is not None and _may_choose_student(experiment_name):
        return None
    return "cnn"


def _may_choose_student(experiment_name: str) -> bool:
    """Returns True if an experiment names a student, or if another file may name one.

    That is a file that the experiment includes, or the experiment itself if pate has no file of this name.
    """
    experiment_file = CONFIG_FOLDER / "experiment" / f"{experiment_name}.yaml"
    if not experiment_file.is_file():
        return True
    experiment_content = read_yaml(
        experiment_file.read_text(encoding="utf-8"), experiment_file.name, rule="YAML"
    )
    default_entries = (
        experiment_content.get("defaults", []) if isinstance(experiment_content, dict) else []
    )
    return any(
        isinstance(default_entry, str) or "override /student" in default_entry
        for default_entry in default_entries
    )


def student_line(student_name: str, *, arguments: Iterable[str]) -> str:
    """Returns a sentence on the student that `default_student` chose.

    Args:
        student_name: the name of the student.
        arguments: the arguments of the command line.
    """
    teacher_name = given_settings(arguments=arguments)["teacher"]
    return f"no student is named: student={student_name}, which looks at pictures as teacher={teacher_name} does"
