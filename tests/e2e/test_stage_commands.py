"""pate-vote, pate-release and pate-student as commands: holders with files of their own, and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import pate
from pate.accounting import SharedLedger
from tests.e2e.commands import call, refused, succeeded
from tests.e2e.small_run import small_dataset
from tests.e2e.stages_of_run import contents

TEACHER = ("teacher.device=cpu", "teacher.num_teachers=12")
RELEASE = ("aggregator=gaussian_votes", "aggregator.noise_std=2", "allow_useless=true")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private file for each of two holders, the public samples, and votes of both."""
    folder, data = tmp_path_factory.mktemp("places"), small_dataset()
    for place, rows in (("north", slice(0, 480)), ("south", slice(480, 960))):
        part = data.private.take(rows)
        arrays = {"inputs": part.inputs, "labels": part.labels, "ids": part.record_ids, "groups": part.group_ids}
        np.savez(folder / f"{place}.npz", label_names=np.array(data.label_names), **arrays)
    public = {"inputs": data.public.inputs, "ids": data.public.record_ids, "label_names": np.array(data.label_names)}
    np.savez(folder / "public.npz", **public)
    np.savez(folder / "others.npz", **(public | {"inputs": data.public.inputs + np.float32(1)}))
    for place in ("north", "south"):
        result = succeeded(*vote(folder, place))
        assert "no epsilon covers it. It has mode 0600" in result.stdout
    return folder


def vote(folder: Path, place: str, *changes: str, queries: str = "public", output: str = "votes") -> tuple[str, ...]:
    given = (f"data.private={folder / place}.npz", f"queries={folder / queries}.npz", "num_queries=40")
    output = f"output={folder / output / place}.npz"
    return ("vote", f"holder={place}", "data=arrays", *given, *TEACHER, output, *changes)


def test_holders_an_aggregator_and_a_student_end_in_a_bundle(files: Path, tmp_path: Path) -> None:
    pattern, ledger = f"votes={files}/votes/*.npz", tmp_path / "ledger.db"
    released = succeeded("release", pattern, *RELEASE, f"ledger={ledger}", f"output_dir={tmp_path / 'many'}")
    assert "40 of 40 queries answered, 5 labels, by 2 holders, 24 teachers" in released.stdout
    succeeded("student", f"release={tmp_path / 'many'}", f"queries={files / 'public.npz'}")
    model = pate.load(tmp_path / "many" / "release")
    assert model.labels == small_dataset().label_names
    names = {path.name for path in (tmp_path / "many" / "release").iterdir()}
    texts = {"README.md", "privacy_card.md", "config.yaml", "schema.json", "privacy.json", "manifest.json"}
    assert names == {"release.npz", "student", *texts}
    settings = (tmp_path / "many" / "release" / "config.yaml").read_text()
    assert "num_teachers: 24" in settings
    assert str(files) not in settings
    again = call("release", pattern, *RELEASE, f"ledger={ledger}", f"output_dir={tmp_path / 'many'}")
    assert "nothing was drawn or spent again" in again.stderr
    assert len(SharedLedger.stored(ledger).entries) == 1


def test_a_finished_vote_is_not_cast_again_and_an_altered_one_is_refused(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path / "own")
    assert call(*vote(tmp_path / "own", "north")).returncode == 2, "the folder is of another private file's path"
    path = files / "votes" / "north.npz"
    whole = path.read_bytes()
    assert "nothing was trained or asked again" in call(*vote(files, "north")).stderr
    path.write_bytes(whole[:-1] + b"x")
    assert "expected the file as this command left it" in refused(*vote(files, "north"))
    path.write_bytes(whole)


def released(tmp_path: Path, votes: object, *changes: str) -> str:
    folder = tmp_path / "many"
    text = refused("release", f"votes={votes}", *RELEASE, f"output_dir={folder}", *changes)
    assert not folder.exists(), "nothing is spent or left behind"
    return text


def test_wrong_votes_are_one_line_each(files: Path, tmp_path: Path) -> None:
    own = tmp_path / "votes"
    shutil.copytree(files / "votes", own)
    both = f"{own}/*.npz"
    assert "no file has this name" in released(tmp_path, f"{tmp_path}/none/*.npz")
    assert "votes=???: expected a vote file of each holder" in refused("release")
    shutil.copy(own / "north.npz", own / "west.npz")
    assert "holder=north: expected each holder once" in released(tmp_path, both)
    (own / "west.npz").write_bytes((own / "north.npz").read_bytes()[:-400])
    assert "west.npz: expected a whole vote file, as pate-vote writes it" in released(tmp_path, both)
    (own / "west.npz").unlink()
    assert call(*vote(files, "south", queries="others", output="odd")).returncode == 0
    odd = f"[{own}/north.npz,{files}/odd/south.npz]"
    assert "queries=others: expected the queries that" in released(tmp_path, odd)
    np.save(own / "foreign.npy", np.zeros((3, 40, 5), dtype=np.bool_))
    assert "expected files of pate-vote alone" in released(tmp_path, f"[{own}/north.npz,{own}/foreign.npy]")
    (tmp_path / "other.jsonl").write_text("no ledger\n")
    assert "other.jsonl" in released(tmp_path, both, f"ledger={tmp_path / 'other.jsonl'}")
    assert "expected a ledger= beside it" in released(tmp_path, both, "max_total_epsilon=3")


def test_wrong_holders_are_one_line_each(files: Path, tmp_path: Path) -> None:
    assert "holder=???: expected the name of this place" in refused("vote", f"output={tmp_path}/v.npz")
    assert "output=???" in refused("vote", "holder=a")
    whole = ("vote", f"output={tmp_path}/v.npz", "holders=4")
    assert "holder=a: expected a number in 1..4" in refused(*whole, "holder=a", "seed=1")
    assert "holder=5: expected a number in 1..4" in refused(*whole, "holder=5", "seed=1")
    assert "seed=None: expected a number beside holders=" in refused(*whole, "holder=1")
    assert "teacher=KernelTeacher: expected teachers that vote yes or no" in refused(
        *whole, "holder=1", "seed=1", "teacher=kernel"
    )
    changes = (f"output={tmp_path}/v.npz", f"output_dir={tmp_path}/work")
    assert "num_queries=9999: expected at most 140" in refused(*vote(files, "north", "num_queries=9999", *changes))
    assert "num_teachers=999: expected at most 480" in refused(
        *vote(files, "north", "teacher.num_teachers=999", *changes)
    )
    assert "cast=words: expected one of bits, confidences" in refused(*vote(files, "north", "cast=words", *changes))
    (tmp_path / "v.npz").write_bytes(b"somebody's")
    assert "output=" in refused(*vote(files, "north", *changes))
    assert (tmp_path / "v.npz").read_bytes() == b"somebody's"


def test_votes_of_another_project_become_a_published_model_in_two_commands(files: Path, tmp_path: Path) -> None:
    data = small_dataset()
    counts = np.round(data.public.labels[:40] * 180 + 35).astype(np.int64)
    np.save(tmp_path / "histogram.npy", counts)
    folder = tmp_path / "theirs"
    given = (f"votes={tmp_path}/histogram.npy", "num_teachers=250", "name=theirs", f"output_dir={folder}")
    succeeded("release", *given, "layout=histogram", "aggregator=gaussian_votes", "target_epsilon=20")
    with np.load(folder / "release" / "release.npz") as found:
        assert found["labels"].shape == (40, 5)
        assert found["label_names"][0] == "label_0"
    numbers = tmp_path / "numbers.npz"
    np.savez(numbers, inputs=data.public.inputs)
    succeeded("student", f"release={folder}", f"queries={numbers}")
    assert pate.load(folder / "release").form.name == "theirs"
    card = (folder / "release" / "privacy_card.md").read_text()
    assert "| data set | theirs |" in card
    assert "holders" not in card, "whose teachers they are is not known"
    bits = refused("release", *given[:-1], "layout=histogram", "aggregator=powerset_gnmax", f"output_dir={tmp_path}/x")
    assert "counts do not say what one teacher votes for" in bits


def test_wrong_students_are_one_line_each(files: Path, tmp_path: Path) -> None:
    assert "release=???" in refused("student")
    assert "queries=None: expected queries=FILE or data=NAME" in refused("student", f"release={files}")
    assert "expected the folder that pate-release wrote" in refused(
        "student", f"release={tmp_path}", f"queries={files / 'public.npz'}"
    )
    folder = tmp_path / "many"
    assert call("release", f"votes={files}/votes/*.npz", *RELEASE, f"output_dir={folder}").returncode == 0
    assert "queries=others" in refused("student", f"release={folder}", f"queries={files / 'others.npz'}")
    assert "expected the file of pate-schema beside a table" in refused(
        "student", f"release={folder}", "queries=public.csv"
    )
    assert (folder / "release" / "terms.json").exists()


def test_tables_at_the_holders_and_at_the_student(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)

    def table(path: Path, count: int, *, private: bool) -> None:
        rows = rng.standard_normal((count, 3))
        names = ["age", "dose", "days", *(["patient", "ill"] if private else [])]
        lines = [",".join(names)]
        for place, row in enumerate(rows):
            own = [str(place // 2), str(int(row[0] > 0))] if private else []
            lines.append(",".join([*(f"{cell:.3f}" for cell in row), *own]))
        path.write_text("\n".join(lines) + "\n")

    for place in ("a", "b"):
        table(tmp_path / f"{place}.csv", 60, private=True)
    table(tmp_path / "public.csv", 50, private=False)
    schema = f"schema={tmp_path / 'schema.yaml'}"
    assert call("schema", f"data={tmp_path / 'public.csv'}", f"output={tmp_path / 'schema.yaml'}").returncode == 0
    queries = f"queries={tmp_path / 'public.csv'}"
    for place in ("a", "b"):
        roles = (f"data.private={tmp_path / place}.csv", "data.labels=[ill]", "data.group=patient", f"data.{schema}")
        given = ("data=table", *roles, queries, "num_queries=20", "teacher.num_teachers=5", "teacher.device=cpu")
        succeeded("vote", f"holder={place}", *given, f"output={tmp_path / 'votes' / place}.npz")
    succeeded("release", f"votes={tmp_path}/votes/*.npz", *RELEASE, f"output_dir={tmp_path / 'many'}")
    succeeded("student", f"release={tmp_path / 'many'}", queries, f"table_{schema}")
    model = pate.load(tmp_path / "many" / "release")
    assert model.predict({"age": [1.5], "dose": [0.0], "days": [0.0]}).shape == (1, 1)


def test_rounds_by_files_end_in_a_bundle(files: Path, tmp_path: Path) -> None:
    mail, many = tmp_path / "mail", tmp_path / "many"
    given = ("roll={north: 12, south: 12}", f"mailbox={mail}", f"queries={files / 'public.npz'}", "num_queries=40")
    terms = ("aggregator=centered_votes", "aggregator.rounds=2", "allow_useless=true", f"output_dir={many}")
    kinds = []
    for _ in range(20):
        released = succeeded("release", *given, *terms)
        if "queries answered" in released.stdout:
            break
        (name,) = {path.stem for path in (mail / "questions").iterdir()} - set(kinds)
        kinds.append(name)
        assert "2 of 2 are missing: north, south" in released.stdout.replace("\n", " ")
        for place in ("north", "south"):
            asked = (f"question={mail / 'questions' / name}.npz", f"output={mail / 'answers' / name / place}.npz")
            own = ("data=arrays", f"data.private={files / place}.npz", *TEACHER, f"output_dir={tmp_path / place}")
            succeeded("vote", f"holder={place}", *own, *asked)
    assert [name.partition("-")[0] for name in kinds] == ["opening", "lengths", *2 * ["shares"], *2 * ["moments"]]
    assert "by 2 holders, 24 teachers" in released.stdout
    succeeded("student", f"release={many}", f"queries={files / 'public.npz'}", "student=low_rank")
    assert pate.load(many / "release").labels == small_dataset().label_names
    assert "output_dir=None: expected the folder of this place's teachers" in refused(
        "vote", "holder=north", "data=arrays", f"output={tmp_path}/north.npz", "question=q.npz"
    )
    assert "mailbox=None: expected a folder" in refused("release", "roll={north: 12}", "aggregator=centered_votes")
    for roll, said in (("[north]", "roll=['north']: expected each holder"), ("{north: 12.5}", "holders[north]=12.5")):
        assert said in refused("release", f"roll={roll}", "aggregator=centered_votes", f"mailbox={mail}")
    told_twice = (f"queries={files}/public.npz", "question=q.npz", f"output_dir={tmp_path}/north")
    assert "public.npz: expected nothing beside question=" in refused(
        "vote", "holder=north", "data=arrays", f"output={tmp_path}/north.npz", *told_twice
    )
    both = refused("release", "roll={north: 12}", f"sum={tmp_path}/sum.npz", "aggregator=centered_votes")
    assert "sum.npz: expected nothing beside roll=" in both


def test_a_release_of_sums_is_that_of_the_votes(files: Path, tmp_path: Path) -> None:
    for place in ("north", "south"):
        added = succeeded("release", f"votes={files}/votes/{place}.npz", f"sum={tmp_path}/{place}.npz")
        assert "the votes of 1 holders, 12 teachers, added up" in added.stdout.replace("\n", " ")
    for name, votes in (("whole", f"{files}/votes/*.npz"), ("tree", f"{tmp_path}/*.npz")):
        succeeded("release", f"votes={votes}", *RELEASE, "seed=4", f"output_dir={tmp_path / name}")
    assert contents(tmp_path / "whole" / "release") == contents(tmp_path / "tree" / "release")
    centered = ("aggregator=centered_votes", "aggregator.rounds=1")
    assert "aggregator: expected one that reads counts" in refused("release", f"votes={tmp_path}/*.npz", *centered)
    both = f"votes=[{files}/votes/north.npz,{tmp_path}/north.npz]"
    assert "holder=north: expected each holder once" in refused("release", both, *RELEASE)
    clash = f"sum={files}/votes/north.npz"
    assert "expected another name than those of the votes" in refused("release", f"votes={files}/votes/*.npz", clash)
