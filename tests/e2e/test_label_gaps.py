"""Runs on tables in which labels are missing or uncertain."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.commands import call, refused_command, rows_of, succeeded

pytest.importorskip("pyarrow")

CENTERED = ("experiment=centered_votes", "num_queries=60")
TRAINED = (
    "teacher=linear",
    "teacher.num_teachers=30",
    "num_queries=60",
    "aggregator=gaussian_votes",
)
COMMON = ("target_epsilon=8", "seed=1", "all_records=false", "logger=none", "student=linear")


def _text_of_flu(part: str, uniform_draw: float, truth: int, text_of_gap: str) -> str:
    """Returns the text of a cell in the label's column `flu`.

    The text is the label itself, but in about 60% of the private rows `text_of_gap`, -1 or "maybe".

    Args:
        part: the split that the row is in.
        uniform_draw: a uniform number in [0, 1) that decides which text it is.
        truth: the label, 0 or 1.
        text_of_gap: the text of a label that nobody knows: empty in a usual table.
    """
    if part != "private" or uniform_draw > 0.6:
        return str(truth)
    if uniform_draw > 0.3:
        return text_of_gap
    return "-1" if uniform_draw > 0.1 else "maybe"


@pytest.fixture(scope="module")
def tables_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with private, public and test tables.

    The private rows are also in a folder `many` of two files. Each table has a copy with zeros in place of empty cells;
    -1 and "maybe" stay.
    """
    folder = tmp_path_factory.mktemp("gaps")
    for part, num_rows in (("private", 900), ("public", 120), ("test", 100)):
        for name, text_of_gap in ((part, ""), (f"{part}_zeros", "0")):
            rng = random.Random(part)
            lines = ["id,a,b,flu,rash"]
            for row in range(num_rows):
                a, b, uniform_draw = rng.gauss(0, 1), rng.gauss(0, 1), rng.random()
                flu = _text_of_flu(part, uniform_draw, truth=int(a > 0), text_of_gap=text_of_gap)
                lines.append(f"{part}{row},{a:.3f},{b:.3f},{flu},{int(b > 0)}")
            (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
            if name == "private":
                (folder / "many").mkdir()
                for number, rows in enumerate((lines[1:500], lines[500:])):
                    content = "\n".join([lines[0], *rows]) + "\n"
                    (folder / "many" / f"{number}.csv").write_text(content)
    return folder


def _settings(tables_folder: Path, private_name: str) -> list[str]:
    """Returns the settings of `pate-train` for the tables, with the private rows of the named file or folder."""
    return [
        "data=table",
        f"data.private={tables_folder / private_name}",
        f"data.public={tables_folder / 'public.csv'}",
        f"data.test={tables_folder / 'test.csv'}",
        "data.labels=[flu,rash]",
        "data.id=id",
        "data.uncertain=missing",
        "data.uncertain_words=[maybe]",
        *COMMON,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "engines"),
    [
        (CENTERED, ("processes", "sequential")),
        (TRAINED, ("processes", "sequential")),
        (CENTERED, ("ray",)),
    ],
)
def test_masks_reach_every_engine_from_files_and_scratch(
    tables_folder: Path, tmp_path: Path, settings: tuple[str, ...], engines: tuple[str, ...]
) -> None:
    """With missing labels, the release has the same bytes with other engines as with `threads`.

    With `threads` the private rows are in one file; with the others they are in a folder of two files, and
    `scratch=false`. Zeros in place of the empty cells give another release.
    """
    if "ray" in engines:
        pytest.importorskip("ray")

    def published_bytes(private_name: str, engine: str, scratch: str) -> bytes:
        run = tmp_path / f"{private_name}_{engine}"
        run_settings = [f"engine={engine}", f"scratch={scratch}", f"output_dir={run}"]
        ended = call(
            "train", arguments=[*_settings(tables_folder, private_name), *settings, *run_settings]
        )
        assert ended.returncode == 0, ended.stderr
        return (run / "release" / "release.npz").read_bytes()

    usual = published_bytes(private_name="private.csv", engine="threads", scratch="true")
    for engine in engines:
        assert published_bytes(private_name="many", engine=engine, scratch="false") == usual, engine
    assert (
        published_bytes(private_name="private_zeros.csv", engine="threads", scratch="true") != usual
    )


def test_a_schema_with_readings_of_uncertain_labels_serves_a_run_and_predictions(
    tables_folder: Path, tmp_path: Path
) -> None:
    """The file that `pate-schema` writes tells a run what uncertain labels mean.

    The published model predicts for rows in which labels are missing.
    """
    schema = tmp_path / "schema.yaml"
    succeeded(
        "schema",
        arguments=[
            f"data={tables_folder / 'public.csv'}",
            f"output={schema}",
            "labels=[flu,rash]",
            "id=id",
            "uncertain=positive",
            "uncertain_words=[maybe]",
        ],
    )
    assert "  uncertain: positive\n  uncertain_words:\n  - maybe\n" in schema.read_text()
    files = [f"data.{part}={tables_folder / part}.csv" for part in ("private", "public", "test")]
    run = tmp_path / "run"
    arguments = ["data=table", f"data.schema={schema}", *files, *COMMON, *CENTERED]
    ended = call("train", arguments=[*arguments, f"output_dir={run}"])
    assert ended.returncode == 0, ended.stderr
    lines = (tables_folder / "private.csv").read_text().splitlines()[1:]
    share = sum(line.split(",")[3] == "" for line in lines) / (2 * len(lines))
    assert f"data.private: {share:.1%} of the labels are unknown" in ended.stderr
    succeeded(
        "predict",
        arguments=[
            f"release={run / 'release'}",
            f"data={tables_folder / 'private.csv'}",
            f"output={tmp_path / 'p.csv'}",
        ],
    )
    assert len(rows_of(csv_path=tmp_path / "p.csv")) == 900


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["data.uncertain=0.5"], "data.uncertain=0.5: expected one of missing, positive, negative"),
        (["data.uncertain=maybe"], "data.uncertain=maybe: expected one of missing"),
        (
            ["data.uncertain=null"],
            "data.uncertain_words=[maybe]: expected none without data.uncertain",
        ),
        (
            ["data.uncertain=null", "data.uncertain_words=[]"],
            "data.private.flu: expected 0 or 1 in a label's column",
        ),
    ],
)
def test_uncertain_labels_without_a_reading_are_refused_in_one_line(
    tables_folder: Path, tmp_path: Path, settings: list[str], line: str
) -> None:
    """A run refuses uncertain labels if `data.uncertain` does not say what they mean, and makes no ledger."""
    arguments = [
        *_settings(tables_folder, private_name="private.csv"),
        *settings,
        f"output_dir={tmp_path / 'run'}",
    ]
    stderr = refused_command("train", arguments=arguments)
    assert stderr.splitlines()[-1].startswith(line)
    assert not (tmp_path / "ledger.db").exists()
