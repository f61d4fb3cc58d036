import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pate.data.celeba import find_table, read_attributes, read_numbers
from pate.validation import InvalidValue

Edit = Callable[[str, str, str], None]


def test_the_blank_after_the_names_is_no_name(text_copy: Path) -> None:
    attributes = read_attributes(text_copy)
    assert attributes.names == ("Bald", "Smiling", "Young")
    assert attributes.files[0] == "000001.jpg"
    assert attributes.labels[6].tolist() == [False, True, True]


def test_both_forms_say_the_same(text_copy: Path, csv_copy: Path) -> None:
    text, csv = read_attributes(text_copy), read_attributes(csv_copy)
    assert (text.names, text.files) == (csv.names, csv.files)
    assert text.labels.tolist() == csv.labels.tolist()
    stem = "list_eval_partition"
    assert read_numbers(text_copy, stem) == read_numbers(csv_copy, stem)


def test_a_wrong_number_of_rows_is_told(text_copy: Path, csv_copy: Path, edit: Edit) -> None:
    edit("list_attr_celeba.txt", "8\n", "202599\n")
    assert (read_attributes(text_copy).announced, len(read_attributes(text_copy).files)) == (202_599, 8)
    assert read_attributes(csv_copy).announced == 8


@pytest.mark.parametrize(("old", "new"), [(",-1", ",0"), (",", ";"), (",", ", "), (r"([^,\n]+)", r'"\1"')])
def test_other_ways_to_write_a_csv(csv_copy: Path, old: str, new: str) -> None:
    """Zeros for -1, semicolons, blanks after commas, quotes."""
    plain, splits = read_attributes(csv_copy), read_numbers(csv_copy, "list_eval_partition")
    for path in csv_copy.glob("*.csv"):
        path.write_text(re.sub(old, new, path.read_text()))
    assert read_attributes(csv_copy).labels.tolist() == plain.labels.tolist()
    assert read_attributes(csv_copy).names == plain.names
    assert read_numbers(csv_copy, "list_eval_partition") == splits


def test_numbers_of_rows_in_front_are_passed_over(csv_copy: Path) -> None:
    plain, splits = read_attributes(csv_copy), read_numbers(csv_copy, "list_eval_partition")
    for path in csv_copy.glob("*.csv"):
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([f",{head}", *(f"{number},{row}" for number, row in enumerate(rows))]))
    assert (read_attributes(csv_copy).names, read_attributes(csv_copy).files) == (plain.names, plain.files)
    assert read_attributes(csv_copy).labels.tolist() == plain.labels.tolist()
    assert read_numbers(csv_copy, "list_eval_partition") == splits


def test_a_column_that_is_no_attribute_is_named(csv_copy: Path) -> None:
    path = csv_copy / "list_attr_celeba.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{head},photographer", *(f"{row},Ann" for row in rows)]))
    with pytest.raises(InvalidValue, match=r"row 000001\.jpg, photographer=Ann: expected 1 or -1"):
        read_attributes(csv_copy)


def test_a_csv_that_is_none_is_refused(csv_copy: Path) -> None:
    (csv_copy / "list_attr_celeba.csv").write_text("image_id," + "x" * 200_000 + "\n000001.jpg,1\n")
    with pytest.raises(InvalidValue, match=r"list_attr_celeba\.csv=field larger than .* separated by commas$"):
        read_attributes(csv_copy)


def test_find_table_knows_both_forms(text_copy: Path, csv_copy: Path) -> None:
    assert find_table(text_copy, "identity_CelebA")
    assert not find_table(csv_copy, "identity_CelebA")
    assert find_table(csv_copy, "list_attr_celeba")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("8\n", "", r"^list_attr_celeba\.txt line 1=Bald Smiling Young: expected the number of images$"),
        ("000002.jpg  1", "000002.jpg", r"^list_attr_celeba\.txt row 000002\.jpg=2 values: expected 3 values"),
        (
            "000002.jpg  1",
            "000002.jpg  yes",
            r"^list_attr_celeba\.txt row 000002\.jpg, Bald=yes: expected 1 or -1, or in ",
        ),
        (
            "000002.jpg  1 -1",
            "000002.jpg  1 0",
            r"^list_attr_celeba\.txt row 000002\.jpg, Smiling=0: expected 1 or -1, or in ",
        ),
        ("000002.jpg", "000001.jpg", r"^list_attr_celeba\.txt=8 rows: expected each image once$"),
    ],
)
def test_a_damaged_attribute_list_is_refused(text_copy: Path, edit: Edit, old: str, new: str, message: str) -> None:
    edit("list_attr_celeba.txt", old, new)
    with pytest.raises(InvalidValue, match=message):
        read_attributes(text_copy)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"list_attr_celeba\.txt=empty: expected a list of images$"),
        ("0\n", r"^list_attr_celeba\.txt line 1=0: expected names in line 2 and a row for each image$"),
        ("0\nBald Young\n", r"^list_attr_celeba\.txt line 1=0: expected names in line 2 and a row for each image$"),
    ],
)
def test_an_empty_attribute_list_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "list_attr_celeba.txt").write_text(content)
    with pytest.raises(InvalidValue, match=message):
        read_attributes(tmp_path)


def test_a_damaged_list_of_numbers_is_refused(text_copy: Path, edit: Edit) -> None:
    edit("identity_CelebA.txt", "000004.jpg 7", "000004.jpg seven")
    rule = r"^identity_CelebA\.txt row=000004\.jpg seven: expected a file name and a whole number, and nothing else$"
    with pytest.raises(InvalidValue, match=rule):
        read_numbers(text_copy, "identity_CelebA")
