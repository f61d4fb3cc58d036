"""The table of a copy of CheXpert for `pate-train data=image_folder`: a row for each picture, with its patient.

    python examples/chexpert.py CheXpert-v1.0-small chexpert.csv    # prints the command that trains on the table

The folder has `train.csv` and `valid.csv`, with a column `Path` such as CheXpert-v1.0-small/train/patient00001/…, and a
column for each finding: 1, 0, -1 (uncertain) or empty (not mentioned). Pictures of `valid.csv` are the test. A random
share of the patients of `train.csv` is the public pool, which no epsilon covers. The others are private.

Source: J. Irvin et al., "CheXpert: a large chest radiograph dataset with uncertainty labels", AAAI 2019.
"""

import argparse
import csv
from pathlib import Path, PurePosixPath

import numpy as np

# the five findings on which competitions report the mean AUROC
FINDINGS = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")
SEED = 0  # of the public patients


def pictures(file: Path) -> list[dict[str, str]]:
    """Returns the rows of a file of CheXpert, with the picture's path in the folder, and its patient."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        below = PurePosixPath(row["Path"]).parts[1:]  # without the name of the folder
        row["file"] = "/".join(below)
        row["patient"] = next(part for part in below if part.startswith("patient"))
    return rows


def label(cell: str, *, not_mentioned: str) -> str:
    """Returns 1, 0 or -1 for a cell such as 1.0 or -1.0, and `not_mentioned` for an empty one."""
    return str(int(float(cell))) if cell else not_mentioned


def write_table(
    folder: Path, table: Path, *, findings: tuple[str, ...], public_share: float, blank: str
) -> None:
    """Writes the table: file, split, patient and the findings of each picture.

    Args:
        folder: the copy of CheXpert.
        table: the file to write.
        findings: the columns that are labels.
        public_share: the share of the patients of train.csv whose pictures are public.
        blank: what is written where a report does not mention a finding: 0, or nothing for unknown.
    """
    of_train = pictures(folder / "train.csv")
    of_test = pictures(folder / "valid.csv")
    patients = sorted({row["patient"] for row in of_train})
    num_public = max(round(public_share * len(patients)), 1)
    public = set(np.random.default_rng(SEED).choice(patients, num_public, replace=False).tolist())
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "split", "patient", *findings])
        for row in of_train + of_test:
            is_test = row["file"].startswith("valid/")
            of_patient = "public" if row["patient"] in public else "private"
            labels = [label(row[name], not_mentioned=blank) for name in findings]
            split = "test" if is_test else of_patient
            rows.writerow([row["file"], split, row["patient"], *labels])


def main() -> None:
    """Writes the table and prints the command."""
    parser = argparse.ArgumentParser(description="Writes the table of a copy of CheXpert.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--findings", nargs="+", default=FINDINGS, help="columns that are labels")
    parser.add_argument("--public-share", type=float, default=0.1, help="of the patients")
    parser.add_argument("--blank", choices=("no", "unknown"), default="no", help="not mentioned")
    arguments = parser.parse_args()
    findings = tuple(arguments.findings)
    write_table(
        arguments.folder,
        arguments.table,
        findings=findings,
        public_share=arguments.public_share,
        blank="0" if arguments.blank == "no" else "",
    )
    print(
        f"pate-train data=image_folder data.root={arguments.folder} data.table={arguments.table}"
        f" 'data.labels=[{','.join(findings)}]' data.group=patient data.uncertain=missing"
    )


if __name__ == "__main__":
    main()
