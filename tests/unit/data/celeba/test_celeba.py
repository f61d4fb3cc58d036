import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pate.data import CelebA, Partition, celeba
from pate.validation import InvalidValue

Edit = Callable[[str, str, str], None]


@pytest.fixture(params=["text_copy", "csv_copy"])
def copy(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


def test_both_forms_by_hand(copy: Path) -> None:
    dataset = CelebA(root=copy, image_size=8).load()
    assert (dataset.name, dataset.real, dataset.kind) == ("celeba", True, "images")
    assert dataset.label_names == ("Bald", "Smiling", "Young")
    assert dataset.private.record_ids.tolist() == [1, 2, 3, 4]
    assert dataset.public.record_ids.tolist() == [5, 6]
    assert dataset.test.record_ids.tolist() == [7, 8]
    assert dataset.private.labels.tolist() == [
        [False, False, False],
        [True, False, False],
        [False, True, False],
        [True, True, False],
    ]
    assert dataset.private.inputs.shape == (4, 3, 8, 8)
    brightness = np.asarray(dataset.test.inputs).mean(axis=(1, 2, 3)) * 255
    np.testing.assert_allclose(brightness, [180, 210], atol=1)  # JPEG may move a level


def test_the_root_may_be_the_folder_above(text_copy: Path) -> None:
    for name in ("celeba", "CelebA"):
        text_copy = text_copy.rename(text_copy.with_name(name))
        assert len(CelebA(root=str(text_copy.parent), image_size=4).load().private) == 4


def test_the_authors_folders(text_copy: Path) -> None:
    plain = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()
    for name, place in (("list_attr", "Anno"), ("identity", "Anno"), ("list_eval", "Eval"), ("img", "Img")):
        (text_copy / place).mkdir(exist_ok=True)
        (path,) = text_copy.glob(f"{name}*")
        path.rename(text_copy / place / path.name)
    assert CelebA(root=text_copy, image_size=4, partition_by_identity=True).load().digest() == plain.digest()


@pytest.mark.parametrize("suffix", [".JPG", ".jpeg", ".png"])
def test_photographs_with_another_suffix_than_listed(copy: Path, suffix: str) -> None:
    plain = CelebA(root=copy, image_size=4).load()
    for path in [*copy.rglob("*.jpg")]:
        path.rename(path.with_suffix(suffix))
    (copy / "img_align_celeba" / "000001.txt").write_text("no photograph")
    assert CelebA(root=copy, image_size=4, missing="error").load().digest() == plain.digest()


def test_links_to_elsewhere_are_followed_and_what_is_no_file_is_missing(text_copy: Path, tmp_path: Path) -> None:
    plain = CelebA(root=text_copy, image_size=4).load()
    images = text_copy / "img_align_celeba"
    images.rename(tmp_path / "elsewhere")
    images.symlink_to(tmp_path / "elsewhere")
    assert CelebA(root=text_copy, image_size=4, missing="error").load().digest() == plain.digest()
    for number, make in (("1", Path.mkdir), ("2", lambda path: path.symlink_to("/nonexistent")), ("3", os.mkfifo)):
        path = images / f"00000{number}.jpg"
        path.unlink()
        make(path)
    assert CelebA(root=text_copy, image_size=4).load().private.record_ids.tolist() == [4]


def test_a_folder_with_blanks_and_one_below_home(text_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text_copy = text_copy.rename(text_copy.with_name("my own copy"))
    monkeypatch.setenv("HOME", str(text_copy.parent))
    assert len(CelebA(root="~/my own copy", image_size=4, cache="~/a cache").load().private) == 4
    assert (text_copy.parent / "a cache").is_dir()


def test_a_split_that_is_none_is_refused(text_copy: Path, edit: Edit) -> None:
    edit("list_eval_partition.txt", "000002.jpg 0", "000002.jpg 3")
    rule = r"^list_eval_partition row 000002\.jpg=3: expected 0 \(training\), 1 \(validation\) or 2 \(test\)$"
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root=text_copy).load()


def test_identities_of_others_are_passed_over(text_copy: Path, edit: Edit) -> None:
    edit("identity_CelebA.txt", "000001.jpg 5", "999999.jpg 4\n000001.jpg 5")
    private = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load().private
    assert private.group_ids.tolist() == [5, 5, 6, 7]


def test_a_photograph_is_its_own_group_unless_people_are_asked_for(text_copy: Path) -> None:
    alone = CelebA(root=text_copy, image_size=4).load().private
    people = CelebA(root=text_copy, image_size=4, partition_by_identity=True).load().private
    assert alone.group_ids.tolist() == [1, 2, 3, 4]
    assert people.group_ids.tolist() == [5, 5, 6, 7]
    drawn = Partition.draw(people.group_ids, 3, np.random.default_rng(0))
    assert drawn.teacher_of[0] == drawn.teacher_of[1]


def test_limit_keeps_the_first_of_each_split(text_copy: Path) -> None:
    dataset = CelebA(root=text_copy, image_size=4, limit=1).load()
    kept = [split.record_ids.tolist() for split in (dataset.private, dataset.public, dataset.test)]
    assert kept == [[1], [5], [7]]


def test_missing_photographs_are_passed_over_with_a_count(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in (2, 4):
        next(copy.rglob(f"00000{number}.jpg")).unlink()
    with caplog.at_level(logging.WARNING):
        dataset = CelebA(root=copy, image_size=4).load()
    assert dataset.private.record_ids.tolist() == [1, 3]
    assert dataset.private.labels[:, 1].tolist() == [False, True]
    (message,) = [record.getMessage() for record in caplog.records]
    rule = r"^data\.root=\S+: expected all 4 listed photographs of the private split, 2 are missing; "
    assert re.match(rule + r"going on with what is there \(data\.missing=error refuses\)$", message)
    with pytest.raises(InvalidValue, match=rule + r"data\.missing=skip goes on with what is there$"):
        CelebA(root=copy, missing="error").load()


def test_a_wrong_number_of_rows_is_told_or_refused(
    text_copy: Path, edit: Edit, caplog: pytest.LogCaptureFixture
) -> None:
    edit("list_attr_celeba.txt", "8\n", "202599\n")
    with caplog.at_level(logging.WARNING):
        assert len(CelebA(root=text_copy, image_size=4).load().private) == 4
    rule = r"^list_attr_celeba line 1=202599: expected 8, the rows that follow; "
    assert re.match(rule, caplog.records[0].getMessage())
    with pytest.raises(InvalidValue, match=rule + r"data\.missing=skip goes on"):
        CelebA(root=text_copy, missing="error").load()


def test_a_damaged_photograph_is_named_and_nothing_is_lost(text_copy: Path) -> None:
    damaged = text_copy / "img_align_celeba" / "000006.jpg"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:200])
    with pytest.raises(InvalidValue, match=r"^image=\S+000006\.jpg: expected a readable image; fetch it again, or "):
        CelebA(root=text_copy, image_size=4).load()
    damaged.write_bytes(whole)
    mended = CelebA(root=text_copy, image_size=4).load()
    damaged.unlink()
    assert CelebA(root=text_copy, image_size=4).load().public.record_ids.tolist() == [5]
    assert np.asarray(mended.public.inputs).mean() * 255 == pytest.approx(135, abs=1)


def test_a_photograph_that_was_replaced_is_decoded_again(text_copy: Path) -> None:
    first = CelebA(root=text_copy, image_size=4).load()
    Image.new("RGB", (18, 22), (250, 250, 250)).save(text_copy / "img_align_celeba" / "000007.jpg")
    again = CelebA(root=text_copy, image_size=4).load()
    assert again.test.inputs[:1].min() * 255 == pytest.approx(250, abs=1)
    assert again.test.inputs[1:].tolist() == first.test.inputs[1:].tolist()


def test_photographs_are_decoded_once_for_each_size_and_crop(
    text_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [CelebA(root=text_copy, **change) for change in ({"image_size": 4}, {"image_size": 5}, {"crop": 8})]
    digests = {copy.load().digest() for copy in copies}
    assert len(digests) == len(list((text_copy / "pate_cache").iterdir())) == 3
    monkeypatch.setattr(celeba, "decode_images", None)
    assert {copy.load().digest() for copy in copies} == digests
    monkeypatch.undo()
    elsewhere = CelebA(root=text_copy, image_size=4, cache=tmp_path / "elsewhere").load()
    assert elsewhere.digest() in digests
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def test_a_copy_that_is_synthetic_says_so(text_copy: Path) -> None:
    (text_copy / "synth_faces.json").write_text("{}")
    assert not CelebA(root=text_copy, image_size=4).load().real


@pytest.mark.parametrize("blanks", [" \r\n", "   \n", "\t\n", "\n\n"])
def test_stray_blanks_and_line_ends_are_no_values(text_copy: Path, blanks: str) -> None:
    plain = CelebA(root=text_copy, image_size=4).load()
    for path in text_copy.glob("*.txt"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_text().replace("\n", blanks).replace(" ", "  ").encode())
    assert CelebA(root=text_copy, image_size=4, missing="error").load().digest() == plain.digest()


def test_a_complete_copy_warns_of_nothing(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    CelebA(root=copy, image_size=4).load()
    assert caplog.records == []


def test_a_split_without_any_photograph_is_refused(text_copy: Path) -> None:
    for row in (7, 8):
        (text_copy / "img_align_celeba" / f"00000{row}.jpg").unlink()
    rule = (
        r"^data\.root=\S+: expected the photographs of the test split unpacked in img_align_celeba/, found none of 2$"
    )
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root=text_copy).load()


def test_a_copy_without_the_photographs_is_refused(text_copy: Path) -> None:
    (text_copy / "img_align_celeba").rename(text_copy / "photographs")
    with pytest.raises(InvalidValue, match=r"expected the photographs of the private split unpacked in"):
        CelebA(root=text_copy).load()


def test_a_root_that_is_not_there_says_what_to_do() -> None:
    rule = r"^data\.root=/nonexistent: expected the folder of your own copy of CelebA, with list_attr_celeba\.txt .*$"
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root="/nonexistent").load()


def test_identities_are_needed_only_where_people_are_the_groups(csv_copy: Path) -> None:
    assert len(CelebA(root=csv_copy, image_size=4).load().public) == 2
    rule = r"^data\.root=\S+: expected identity_CelebA\.txt or \S+ in it, or data\.partition_by_identity=false$"
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root=csv_copy, partition_by_identity=True).load()


def test_a_person_in_two_splits_is_refused(text_copy: Path, edit: Edit) -> None:
    edit("identity_CelebA.txt", "000005.jpg 8", "000005.jpg 7")
    assert len(CelebA(root=text_copy, image_size=4).load().public) == 2
    with pytest.raises(
        InvalidValue, match=r"^group_ids: expected each group in one split, found 1 in private and public$"
    ):
        CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()


def test_a_photograph_that_has_no_split_is_refused(text_copy: Path, edit: Edit) -> None:
    edit("list_eval_partition.txt", "000003.jpg 0\n", "")
    rule = r"^list_eval_partition=000003\.jpg: expected a row for each image of list_attr_celeba, found none$"
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root=text_copy).load()


@pytest.mark.parametrize("name", ["list_eval_partition", "identity_CelebA"])
@pytest.mark.parametrize("row", ["000001.jpg 1", "000001.jpg 0", "000005.jpg 0"])
def test_a_photograph_that_a_list_has_twice_is_refused(text_copy: Path, name: str, row: str) -> None:
    path = text_copy / f"{name}.txt"
    path.write_text(f"{path.read_text()}{row}\n")
    file = row.partition(" ")[0].replace(".", r"\.")
    with pytest.raises(InvalidValue, match=rf"^{name}\.txt row={file}: expected each image once, found it twice$"):
        CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()


@pytest.mark.parametrize("row", ["000001.jpg 0 1", "000001.jpg", "000001.jpg -1", f"000001.jpg {10**30}"])
@pytest.mark.parametrize("name", ["list_eval_partition", "identity_CelebA"])
def test_a_row_that_is_no_file_and_number_is_refused(text_copy: Path, edit: Edit, name: str, row: str) -> None:
    edit(f"{name}.txt", "000001.jpg 5" if name.startswith("id") else "000001.jpg 0", row)
    rule = r"row=000001\.jpg.*: expected a file name and a whole number, and nothing else$"
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()


def test_two_names_of_one_photograph_are_refused(text_copy: Path, edit: Edit) -> None:
    """A private picture would be public, too."""
    edit("list_attr_celeba.txt", "000005.jpg", "000001.png")
    edit("list_eval_partition.txt", "000005.jpg", "000001.png")
    with pytest.raises(InvalidValue, match=r"^img_align_celeba/000001\.jpg: expected one row for each photograph, two"):
        CelebA(root=text_copy, image_size=4).load()


def test_a_picture_without_attributes_is_told_or_refused(
    text_copy: Path, edit: Edit, caplog: pytest.LogCaptureFixture
) -> None:
    edit("list_eval_partition.txt", "000001.jpg 0", "999999.jpg 0\n000001.jpg 0")
    message = "list_attr_celeba=8 images: expected also the 1 that only list_eval_partition lists"
    assert len(CelebA(root=text_copy, image_size=4).load().private) == 4
    assert message in caplog.text
    with pytest.raises(InvalidValue, match=message):
        CelebA(root=text_copy, image_size=4, missing="error").load()


def test_a_list_of_people_that_lacks_a_picture_is_refused(text_copy: Path, edit: Edit) -> None:
    edit("identity_CelebA.txt", "000003.jpg 6\n", "")
    with pytest.raises(
        InvalidValue, match=r"^identity_CelebA=000003\.jpg: expected a row for each image of list_attr_"
    ):
        CelebA(root=text_copy, image_size=4, partition_by_identity=True).load()


def test_a_list_that_is_not_there_is_named(text_copy: Path) -> None:
    (text_copy / "list_eval_partition.txt").unlink()
    rule = r"^data\.root=\S+: expected list_eval_partition\.txt or list_eval_partition\.csv in it, from where "
    with pytest.raises(InvalidValue, match=rule):
        CelebA(root=text_copy).load()


def test_impossible_parameters_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"^image_size=0: expected a whole number >= 1$"):
        CelebA(root="celeba", image_size=0)
    with pytest.raises(InvalidValue, match=r"^limit=0: expected a whole number >= 1$"):
        CelebA(root="celeba", limit=0)
    with pytest.raises(InvalidValue, match=r"^crop=-1: expected a whole number >= 1$"):
        CelebA(root="celeba", crop=-1)
    with pytest.raises(InvalidValue, match=r"^missing=warn: expected one of skip, error$"):
        CelebA(root="celeba", missing="warn")


def test_a_model_is_told_how_photographs_become_inputs(copy: Path) -> None:
    """The published model's users have photographs: they are brought to what the private ones were."""
    dataset = CelebA(root=copy, image_size=8).load()
    assert dataset.preprocessing is not None
    (path,) = copy.rglob("000007.jpg")
    np.testing.assert_array_equal(dataset.preprocessing.inputs([path])[0], np.asarray(dataset.test.inputs)[0])
    assert CelebA(root=copy, image_size=8, crop=4).load().preprocessing is None
