"""A file of queries is refused if it is that of the private records, also by a link, or if it lacks labels."""

import os
from pathlib import Path

import numpy as np
import pytest

from pate.data import Arrays
from pate_federated.asked_data import AskedData
from tests.refusals import ANY, refused_parameter


@pytest.fixture
def private_path(tmp_path: Path) -> Path:
    """Returns the path of a file of private records, to which a symbolic and a hard link lie beside it."""
    path_of_private_records = tmp_path / "private.npz"
    np.savez(path_of_private_records, inputs=np.eye(4), labels=np.eye(4, dtype=int))
    (tmp_path / "sub").mkdir()
    (tmp_path / "soft.npz").symlink_to(path_of_private_records.name)
    os.link(path_of_private_records, tmp_path / "hard.npz")
    return path_of_private_records


@pytest.mark.parametrize("name", ["./private.npz", "sub/../private.npz", "soft.npz", "hard.npz"])
def test_private_records_are_no_queries(name: str, private_path: Path) -> None:
    """The private file is refused as the file of queries, also if its path is spelled otherwise or is a link."""
    reader = Arrays(private=str(private_path))
    with refused_parameter("queries", value=ANY, rule_words="another file than"):
        AskedData(data_reader=reader, queries_path=private_path.parent / name).load()


def test_queries_that_lack_labels_of_the_holder_are_refused(private_path: Path) -> None:
    """Queries that lack six labels of the holder are refused, and the line names five.

    Queries may have labels that the holder lacks.
    """
    names_of_holder = np.array([f"label_{index}" for index in range(7)])
    records_path = private_path.parent / "named.npz"
    np.savez(
        records_path, inputs=np.eye(7), labels=np.eye(7, dtype=int), label_names=names_of_holder
    )
    queries_path = private_path.parent / "queries.npz"
    names_that_suffice = np.array([*names_of_holder, "other"])
    np.savez(queries_path, inputs=np.ones((2, 7)), label_names=names_that_suffice)
    reader = Arrays(private=str(records_path))
    asked_data = AskedData(data_reader=reader, queries_path=queries_path)
    assert asked_data.load().label_names == tuple(names_of_holder)
    np.savez(queries_path, inputs=np.ones((2, 7)), label_names=np.array(["label_3", "other"]))
    value = "none of label_0, label_1, label_2, label_4, label_5, …"
    with refused_parameter("queries.label_names", value=value, rule_words="all labels of data"):
        AskedData(data_reader=reader, queries_path=queries_path).load()
