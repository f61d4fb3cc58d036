"""pate-vote, pate-release and pate-student as commands, for holders with files of their own, and what they refuse."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import pate
from pate.accounting import SharedLedger
from pate.report.metrics import average_precisions
from scripts import verify_release
from tests.e2e.commands import Arguments, call, refused_command, succeeded
from tests.e2e.small_run import contents, small_dataset

VOTE = "pate_federated.cli.vote"
STUDENT = "pate_federated.cli.student"
TEACHER = ("teacher.device=cpu", "teacher.num_teachers=12")
RELEASE = (
    "aggregator=gaussian_votes",
    "aggregator.noise_std=2",
    "noise=given",
    "allow_useless=true",
)


@pytest.fixture(scope="module")
def files_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with two holders' private files and vote files, and two files of public samples."""
    folder = tmp_path_factory.mktemp("places")
    data = small_dataset()
    for place, rows in (("north", slice(0, 480)), ("south", slice(480, 960))):
        part = data.private.take(rows)
        np.savez(
            folder / f"{place}.npz",
            label_names=np.array(data.label_names),
            inputs=part.inputs,
            labels=part.labels,
            ids=part.record_ids,
            groups=part.group_ids,
        )
    public = {
        "inputs": data.public.inputs,
        "ids": data.public.record_ids,
        "label_names": np.array(data.label_names),
    }
    np.savez(folder / "public.npz", **public)
    np.savez(folder / "others.npz", **(public | {"inputs": data.public.inputs + np.float32(1)}))
    for place in ("north", "south"):
        result = succeeded(VOTE, arguments=vote_arguments(folder, holder=place))
        assert "no epsilon covers it. It has mode 0600" in result.stdout
    return folder


def vote_arguments(
    folder: Path,
    holder: str,
    settings: Arguments = (),
    queries: str = "public",
    output: str = "votes",
) -> Arguments:
    """Returns the arguments of `pate-vote` for a holder; a later setting replaces an earlier one of the same name.

    Args:
        folder: the folder that the fixture `files_folder` returns.
        holder: the name of the holder; its private file is HOLDER.npz.
        settings: settings that replace the usual ones.
        queries: the name of the file of queries, in the folder.
        output: the name of the folder of vote files, in the folder.
    """
    words = (
        f"data.private={folder / holder}.npz",
        f"queries={folder / queries}.npz",
        "num_queries=40",
    )
    output = f"output={folder / output / holder}.npz"
    return (f"holder={holder}", "data=arrays", *words, *TEACHER, output, *settings)


def test_holders_an_aggregator_and_a_student_end_in_a_bundle(
    files_folder: Path, tmp_path: Path
) -> None:
    """From the votes of two holders, pate-release and pate-student make a model that `pate.load` reads.

    pate-student refuses a missing release, missing queries and other queries. A second release spends nothing.
    """
    folder = tmp_path / "many"
    ledger = tmp_path / "ledger.db"
    public = f"queries={files_folder / 'public.npz'}"
    words = (
        f"votes={files_folder}/votes/*.npz",
        *RELEASE,
        f"ledger={ledger}",
        f"output_dir={folder}",
    )
    assert (
        "40 of 40 queries answered, 5 labels, by 2 holders, 24 teachers"
        in succeeded("release", arguments=words).stdout
    )
    for student_arguments, line in (
        (("release=???",), "release=???"),
        ((f"release={files_folder}",), "queries=None: expected queries=FILE or data=NAME"),
        ((f"release={tmp_path}", public), "expected the folder that pate-release wrote"),
        ((f"release={folder}", f"queries={files_folder / 'others.npz'}"), "queries=others"),
        (
            (f"release={folder}", "queries=public.csv"),
            "expected the file of pate-schema beside a table",
        ),
    ):
        assert line in refused_command(STUDENT, arguments=student_arguments)
    assert (folder / "release" / "terms.json").exists()
    succeeded(STUDENT, arguments=[f"release={folder}", public])
    assert pate.load(folder / "release").labels == small_dataset().label_names
    names = {path.name for path in (folder / "release").iterdir()}
    texts = {
        "README.md",
        "privacy_card.md",
        "config.yaml",
        "schema.json",
        "privacy.json",
        "manifest.json",
    }
    assert names == {"release.npz", "student", *texts}
    settings = (folder / "release" / "config.yaml").read_text()
    assert "num_teachers: 24" in settings
    assert str(files_folder) not in settings
    assert "nothing was drawn or spent again" in call("release", arguments=words).stderr
    assert len(SharedLedger.stored(ledger).entries) == 1


def test_invalid_votes_give_one_line_errors_and_no_files(
    files_folder: Path, tmp_path: Path
) -> None:
    """pate-release refuses votes that are missing, cut off, repeated, foreign or on other queries.

    The refusal names the fault, and no output folder is made.
    """
    votes_folder = tmp_path / "votes"
    folder = tmp_path / "many"
    shutil.copytree(files_folder / "votes", votes_folder)
    vote_files = f"{votes_folder}/*.npz"

    def refusal_of_release(vote_files_value: object, changes: Arguments = ()) -> str:
        """Runs `pate-release` on vote files and returns its refusal; fails if an output folder was made."""
        text = refused_command(
            "release",
            arguments=[f"votes={vote_files_value}", *RELEASE, f"output_dir={folder}", *changes],
        )
        assert not folder.exists()
        return text

    assert "no file has this name" in refusal_of_release(f"{tmp_path}/none/*.npz")
    assert "votes=???: expected a vote file of each holder" in refusal_of_release("???")
    assert (
        "25 teachers in all vote files: expected 24, which these files hold"
        in refusal_of_release(vote_files, changes=["num_teachers=25"])
    )
    shutil.copy(votes_folder / "north.npz", votes_folder / "west.npz")
    assert "holder=north: expected each holder once" in refusal_of_release(vote_files)
    (votes_folder / "west.npz").write_bytes((votes_folder / "north.npz").read_bytes()[:-400])
    assert "west.npz: expected a whole vote file, as pate-vote writes it" in refusal_of_release(
        vote_files
    )
    (votes_folder / "west.npz").unlink()
    succeeded(
        VOTE, arguments=vote_arguments(files_folder, holder="south", queries="others", output="odd")
    )
    assert "queries=others: expected the queries that" in refusal_of_release(
        f"[{votes_folder}/north.npz,{files_folder}/odd/south.npz]"
    )
    np.save(votes_folder / "foreign.npy", np.zeros((3, 40, 5), dtype=np.bool_))
    assert "expected files of pate-vote alone" in refusal_of_release(
        f"[{votes_folder}/north.npz,{votes_folder}/foreign.npy]"
    )
    (tmp_path / "other.jsonl").write_text("no ledger\n")
    assert "other.jsonl" in refusal_of_release(
        vote_files, changes=[f"ledger={tmp_path / 'other.jsonl'}"]
    )


def test_invalid_holders_give_one_line_errors_and_finished_votes_stay(
    files_folder: Path, tmp_path: Path
) -> None:
    """pate-vote refuses impossible holders, seeds, teachers and outputs.

    The command does not overwrite a file of somebody else, and trains nothing again that is finished.
    """
    of_four = (f"output={tmp_path}/v.npz", "holders=4")
    file = tmp_path / "v.npz"
    changes = (f"output={file}", f"output_dir={tmp_path}/work")
    for arguments, line in (
        ((f"output={file}",), "holder=???: expected the name of this place"),
        (("holder=a",), "output=???"),
        ((*of_four, "holder=a", "seed=1"), "holder=a: expected a number in 1..4"),
        ((*of_four, "holder=5", "seed=1"), "holder=5: expected a number in 1..4"),
        ((*of_four, "holder=1"), "seed=None: expected a number beside holders="),
        (
            (*of_four, "holder=1", "seed=1", "teacher=kernel"),
            "teacher=KernelTeacher: expected teachers that vote yes",
        ),
        (
            vote_arguments(files_folder, holder="north", settings=("num_queries=9999", *changes)),
            "num_queries=9999: expected at most 140",
        ),
        (
            vote_arguments(
                files_folder, holder="north", settings=("teacher.num_teachers=999", *changes)
            ),
            "num_teachers=999: expected at most 480",
        ),
        (
            vote_arguments(files_folder, holder="north", settings=("cast=words", *changes)),
            "cast=words: expected one of bits, confidences",
        ),
    ):
        assert line in refused_command(VOTE, arguments)
    file.write_bytes(b"somebody's")
    assert "output=" in refused_command(
        VOTE, arguments=vote_arguments(files_folder, holder="north", settings=changes)
    )
    assert file.read_bytes() == b"somebody's"
    shutil.copytree(files_folder, tmp_path / "own")
    # The folder is of another private file's path.
    refused_command(VOTE, arguments=vote_arguments(tmp_path / "own", holder="north"))
    path = files_folder / "votes" / "north.npz"
    content = path.read_bytes()
    assert (
        "nothing was trained or asked again"
        in call(VOTE, arguments=vote_arguments(files_folder, holder="north")).stderr
    )
    path.write_bytes(content[:-1] + b"x")
    assert "expected the file as this command left it" in refused_command(
        VOTE, arguments=vote_arguments(files_folder, holder="north")
    )
    path.write_bytes(content)


def test_votes_of_another_project_become_a_published_model_in_two_commands(
    files_folder: Path, tmp_path: Path
) -> None:
    """pate-release reads a histogram of votes from a NumPy file, and pate-student trains a model on the release.

    The 250 teachers are not pate's, and the card names no holders. An aggregator that needs the votes of single
    teachers is refused.
    """
    data = small_dataset()
    counts = np.round(data.public.labels[:40] * 180 + 35).astype(np.int64)
    np.save(tmp_path / "histogram.npy", counts)
    folder = tmp_path / "theirs"
    words = (
        f"votes={tmp_path}/histogram.npy",
        "num_teachers=250",
        "name=theirs",
        f"output_dir={folder}",
    )
    succeeded(
        "release",
        arguments=[*words, "layout=histogram", "aggregator=gaussian_votes", "target_epsilon=20"],
    )
    with np.load(folder / "release" / "release.npz") as arrays:
        assert arrays["labels"].shape == (40, 5)
        assert arrays["label_names"][0] == "label_0"
    np.savez(tmp_path / "numbers.npz", inputs=data.public.inputs)
    succeeded(STUDENT, arguments=[f"release={folder}", f"queries={tmp_path}/numbers.npz"])
    assert pate.load(folder / "release").form.name == "theirs"
    card = (folder / "release" / "privacy_card.md").read_text()
    assert "| data set | theirs |" in card
    assert "holders" not in card, "whose teachers they are is not known"
    bits = refused_command(
        "release",
        arguments=[
            *words[:-1],
            "layout=histogram",
            "aggregator=powerset_gnmax",
            f"output_dir={tmp_path}/x",
        ],
    )
    assert "counts do not show the votes of one teacher" in bits


def test_tables_at_the_holders_and_at_the_student(tmp_path: Path) -> None:
    """Two holders vote on CSV tables by a schema that was made from the public table.

    The student of their release predicts for a row with the same columns.
    """
    rng = np.random.default_rng(1)
    column_names = ("age", "dose", "days", "patient", "ill")
    for place, num_rows, width in (("a", 60, 5), ("b", 60, 5), ("public", 50, 3)):
        cells = rng.standard_normal((num_rows, 3))
        rows = np.column_stack([cells, np.arange(num_rows) // 2, cells[:, 0] > 0])[:, :width]
        number_formats = ["%.3f", "%.3f", "%.3f", "%d", "%d"][:width]
        heading = ",".join(column_names[:width])
        np.savetxt(
            tmp_path / f"{place}.csv", rows, number_formats, ",", header=heading, comments=""
        )
    schema = f"schema={tmp_path / 'schema.yaml'}"
    queries = f"queries={tmp_path / 'public.csv'}"
    succeeded(
        "schema",
        arguments=[f"data={tmp_path / 'public.csv'}", f"output={tmp_path / 'schema.yaml'}"],
    )
    for place in ("a", "b"):
        roles = (
            f"data.private={tmp_path / place}.csv",
            "data.labels=[ill]",
            "data.group=patient",
            f"data.{schema}",
        )
        words = (
            "data=table",
            *roles,
            queries,
            "num_queries=20",
            "teacher.num_teachers=5",
            "teacher.device=cpu",
        )
        succeeded(
            VOTE, arguments=[f"holder={place}", *words, f"output={tmp_path / 'votes' / place}.npz"]
        )
    succeeded(
        "release",
        arguments=[f"votes={tmp_path}/votes/*.npz", *RELEASE, f"output_dir={tmp_path / 'many'}"],
    )
    succeeded(STUDENT, arguments=[f"release={tmp_path / 'many'}", queries, f"table_{schema}"])
    model = pate.load(tmp_path / "many" / "release")
    assert model.predict({"age": [1.5], "dose": [0.0], "days": [0.0]}).shape == (1, 1)


def test_rounds_by_files_end_in_a_bundle(files_folder: Path, tmp_path: Path) -> None:
    """In rounds by files in a folder, two holders answer the questions of a server, and a model is published.

    The questions come in the documented order. Wrong settings are refused.
    """
    mail = tmp_path / "mail"
    release_folder = tmp_path / "many"
    settings = (
        "roll={north: 12, south: 12}",
        f"mailbox={mail}",
        f"queries={files_folder / 'public.npz'}",
        "num_queries=40",
    )
    terms = (
        "aggregator=centered_votes",
        "aggregator.rounds=2",
        "allow_useless=true",
        f"output_dir={release_folder}",
    )
    question_names = []
    for _ in range(20):
        released = succeeded("release", arguments=[*settings, *terms])
        if "queries answered" in released.stdout:
            break
        (name,) = {path.stem for path in (mail / "questions").iterdir()} - set(question_names)
        question_names.append(name)
        assert "2 of 2 are missing: north, south" in released.stdout.replace("\n", " ")
        for place in ("north", "south"):
            question_words = (
                f"question={mail / 'questions' / name}.npz",
                f"output={mail / 'answers' / name / place}.npz",
            )
            data_words = (
                "data=arrays",
                f"data.private={files_folder / place}.npz",
                *TEACHER,
                f"output_dir={tmp_path / place}",
            )
            succeeded(VOTE, arguments=[f"holder={place}", *data_words, *question_words])
    assert [name.partition("-")[0] for name in question_names] == [
        "opening",
        "lengths",
        *2 * ["shares"],
        *2 * ["moments"],
    ]
    assert "by 2 holders, 24 teachers" in released.stdout
    succeeded(
        STUDENT,
        arguments=[
            f"release={release_folder}",
            f"queries={files_folder / 'public.npz'}",
            "student=low_rank",
        ],
    )
    assert pate.load(release_folder / "release").labels == small_dataset().label_names
    question_words = (
        "holder=north",
        "data=arrays",
        f"output={tmp_path}/north.npz",
        "question=q.npz",
    )
    for command, arguments, line in (
        (VOTE, question_words, "output_dir=None: expected the folder of this place's teachers"),
        (
            VOTE,
            (*question_words, f"output_dir={tmp_path}/north", settings[2]),
            "public.npz: expected nothing beside question=",
        ),
        ("release", ("roll={north: 12}", terms[0]), "mailbox=None: expected a folder"),
        (
            "release",
            ("roll=[north]", terms[0], settings[1]),
            "roll=['north']: expected each holder",
        ),
        ("release", ("roll={north: 12.5}", terms[0], settings[1]), "holders[north]=12.5"),
        (
            "release",
            ("roll={north: 12}", terms[0], "sum=sum.npz"),
            "sum.npz: expected nothing beside roll=",
        ),
    ):
        assert line in refused_command(command, arguments)


def test_release_of_sums_equals_the_release_of_votes(files_folder: Path, tmp_path: Path) -> None:
    """Sums of holders' votes, which `sum=` writes to files, give the same release as the votes, byte for byte.

    An aggregator that does not read counts, a holder that occurs twice, and a sum with the name of a vote file are
    refused.
    """
    for place in ("north", "south"):
        added = succeeded(
            "release",
            arguments=[f"votes={files_folder}/votes/{place}.npz", f"sum={tmp_path}/{place}.npz"],
        )
        assert "the votes of 1 holders, 12 teachers, added up" in added.stdout.replace("\n", " ")
    for name, votes in (("whole", f"{files_folder}/votes/*.npz"), ("tree", f"{tmp_path}/*.npz")):
        succeeded(
            "release",
            arguments=[f"votes={votes}", *RELEASE, "seed=4", f"output_dir={tmp_path / name}"],
        )
    assert contents(tmp_path / "whole" / "release") == contents(tmp_path / "tree" / "release")
    assert "aggregator: expected one that reads counts" in refused_command(
        "release",
        arguments=[f"votes={tmp_path}/*.npz", "aggregator=centered_votes", "aggregator.rounds=1"],
    )
    votes_and_their_sum = f"votes=[{files_folder}/votes/north.npz,{tmp_path}/north.npz]"
    assert "holder=north: expected each holder once" in refused_command(
        "release", arguments=[votes_and_their_sum, *RELEASE]
    )
    sum_over_a_vote_file = f"sum={files_folder}/votes/north.npz"
    assert "expected another name than those of the votes" in refused_command(
        "release", arguments=[f"votes={files_folder}/votes/*.npz", sum_over_a_vote_file]
    )


def test_answers_of_experts_become_a_student(files_folder: Path, tmp_path: Path) -> None:
    """pate-release reads answers of 200 experts beside public ones, and pate-student learns from the release.

    The student is better than one at epsilon 0.01, and the verifier finds no fault. Public answers beside files of
    pate-vote, or beside rounds, are refused.
    """
    data = small_dataset()
    rng = np.random.default_rng(0)
    truth = data.public.labels[:60]
    public_log_odds = np.where(truth, 0.2, -0.2) + rng.normal(size=truth.shape)
    lifts = np.where(truth, 1.0, -1.0) + rng.normal(size=(200, *truth.shape))
    names = {"record_ids": data.public.record_ids[:60], "label_names": np.array(data.label_names)}
    np.savez(tmp_path / "public_answers.npz", answers=public_log_odds, **names)
    np.savez(tmp_path / "answers.npz", answers=public_log_odds + lifts, **names)
    public_answers = f"public_answers={tmp_path / 'public_answers.npz'}"
    words = (
        f"votes={tmp_path / 'answers.npz'}",
        public_answers,
        "aggregator=centered_votes",
        "seed=1",
    )
    scores = []
    for epsilon in (0.01, 8):
        folder = tmp_path / f"{epsilon}"
        changes = (f"target_epsilon={epsilon}", "allow_useless=true", f"output_dir={folder}")
        succeeded("release", arguments=[*words, *changes, f"ledger={folder}.db"])
        queries = f"queries={files_folder / 'public.npz'}"
        succeeded(STUDENT, arguments=[f"release={folder}", queries, "student=low_rank"])
        bundle = pate.load(folder / "release")
        probabilities = bundle.predict_proba(data.test.inputs)
        scores.append(np.nanmean(average_precisions(probabilities, true_labels=data.test.labels)))
        assert verify_release.main([str(folder / "release")]) == 0
    assert scores[1] > scores[0] + 0.05
    own_vote_words = (
        f"votes={files_folder}/votes/*.npz",
        "aggregator=centered_votes",
        public_answers,
    )
    refusal = refused_command("release", arguments=[*own_vote_words, f"output_dir={tmp_path}/own"])
    assert "files of pate-vote have no public answers" in refusal
    rounds_words = ("roll={north: 12, south: 12}", f"mailbox={tmp_path}/mail", public_answers)
    refusal = refused_command("release", arguments=["aggregator=centered_votes", *rounds_words])
    assert "nothing beside roll=" in refusal
