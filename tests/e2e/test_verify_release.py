"""`scripts/verify_release.py` accepts real releases, and names each number that was changed in one."""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from pate.accounting import ExactAccountant, GaussianEvent, RdpAccountant
from scripts import verify_release
from tests.e2e.commands import refused_command, succeeded
from tests.e2e.golden_runs import write_data

pytestmark = pytest.mark.slow

FEW = ("all_records=false", "allow_useless=true", "logger=none", "target_epsilon=8", "seed=3")
VOTES = ("teacher=linear", "teacher.num_teachers=24", "student=linear", "num_queries=40")
CENTERED = ("experiment=centered_votes", "num_queries=100")
RUNS: dict[str, Sequence[str]] = {
    "experiment=centered_votes": CENTERED,
    "experiment=centered_votes_400": (
        "experiment=centered_votes_400",
        "teacher.num_teachers=40",
        "num_queries=60",
    ),
    "experiment=labels": ("experiment=labels", "num_queries=60"),
    "experiment=quick": ("experiment=quick", *VOTES, "target_epsilon=100", "accountant=rdp"),
    "score_epsilon": (*CENTERED, "score_epsilon=.5"),
    "gaussian_votes": (*VOTES, "aggregator=gaussian_votes", "accountant=rdp"),
    "clipped_votes": (*VOTES, "aggregator=clipped_votes", "accountant=exact"),
    "clipped_votes in l1": (
        *VOTES,
        "aggregator=clipped_votes",
        "aggregator.norm=l1",
        "aggregator.vote_clip=1",
        "adjacency=add_remove",
        "accountant=rdp",
    ),
    "centered_votes by rdp": (*VOTES, "aggregator=centered_votes", "accountant=rdp"),
    "peeling": (*VOTES, "aggregator=peeling", "aggregator.k=2", "accountant=rdp"),
    "lipschitz": (
        *VOTES,
        "aggregator=peeling",
        "aggregator.mechanism=lipschitz",
        "aggregator.k=2",
        "accountant=rdp",
    ),
    "stable_top_k_table": (*VOTES, "aggregator=stable_top_k_table", "accountant=rdp"),
    "gaussian_votes by exact": (*VOTES, "aggregator=gaussian_votes", "accountant=exact"),
    "boundary_max": (*VOTES, "aggregator=boundary_max", "accountant=rdp"),
}
NOT_RECOMPUTED = ("gaussian_votes by exact", "boundary_max")


@pytest.fixture(scope="module")
def release_folder_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Returns a function that makes the release of one of the `RUNS` when it is first asked for."""
    folder = tmp_path_factory.mktemp("verified")
    data_settings = write_data(folder)

    def release_of(name: str) -> Path:
        output = folder / name.replace("=", "-")
        if not output.exists():
            output_settings = [f"output_dir={output}", f"ledger={output}.db"]
            settings = [*FEW, *RUNS[name]]
            # the later one of two values counts
            run_settings = {setting.split("=")[0]: setting for setting in settings}
            succeeded("train", arguments=[*data_settings, *run_settings.values(), *output_settings])
        return output / "release"

    yield release_of


@pytest.fixture
def release(release_folder_of: Callable[[str], Path]) -> Path:
    """Returns the folder of a release of centered votes."""
    return release_folder_of("experiment=centered_votes")


def sign_again(folder: Path) -> None:
    """Writes the digests of all changed files into `manifest.json`, as a forger would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in manifest["sha256"]:
        manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest))


def change_statement(*sections: str, field: str, value: float) -> Callable[[Path], None]:
    """Returns a function that changes a number in `privacy.json` of a folder.

    Args:
        sections: the names of the objects around the field, from the outermost; none for a field of the file itself.
        field: the name of the number.
        value: the number that the file states afterwards.
    """

    def tamper(folder: Path) -> None:
        path = folder / "privacy.json"
        statement = json.loads(path.read_text())
        section = statement
        for name in sections:
            section = section[name]
        section[field] = value
        path.write_text(json.dumps(statement))

    return tamper


def change_text(name: str, before: str, after: str) -> Callable[[Path], None]:
    """Returns a function that replaces a text in a file of a folder."""

    def tamper(folder: Path) -> None:
        path = folder / name
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after, 1))

    return tamper


def halve_epsilon_everywhere(folder: Path) -> None:
    """Replaces the epsilon 8 with 4 in `privacy.json`, on the privacy card and on the model card."""
    change_statement(field="epsilon", value=4.0)(folder)
    change_text("privacy_card.md", before="| epsilon | 8.00 |", after="| epsilon | 4.00 |")(folder)
    change_text("README.md", before="epsilon <= 8.00", after="epsilon <= 4.00")(folder)


def change_stated_noise_everywhere(folder: Path, factor: float) -> None:
    """Multiplies the stated noise by a factor, in `privacy.json`, on the card and in `config.yaml`."""
    statement = json.loads((folder / "privacy.json").read_text())
    multiplier = statement["parameters"]["noise_multiplier"]
    for name in ("privacy.json", "privacy_card.md", "config.yaml"):
        change_text(name, before=str(multiplier), after=str(factor * multiplier))(folder)


TAMPERED: dict[str, Callable[[Path], None]] = {
    "epsilon is 4": halve_epsilon_everywhere,
    "delta is 1e-6": change_statement(field="delta", value=1e-9),
    "num_answered is 100, and not 90": change_statement(field="num_answered", value=90),
    "attacks.found.0.01 is 0.1": change_statement("attacks", "found", field="0.01", value=0.1),
    "attacks.gdp_mu. is 1": change_statement("attacks", field="gdp_mu", value=1.0),
    "config.yaml: noise_multiplier is 1.3": change_text(
        "config.yaml", before="noise_multiplier: 0.65", after="noise_multiplier: 1.3"
    ),
    "epsilon is 8, and the noise gives 12.2": partial(change_stated_noise_everywhere, factor=0.7),
    "README.md: epsilon is 3.00": change_text(
        "README.md", before="epsilon <= 8.00", after="epsilon <= 3.00"
    ),
    "false alarms, at most is 2.4%": change_text(
        "privacy_card.md", before="| 21.4% |", after="| 2.4% |"
    ),
}
TAMPERED_SCORES: dict[str, Callable[[Path], None]] = {
    "scores.micro_f1 is 0.001, outside of its interval": change_statement(
        "scores", "micro_f1", field="value", value=0.001
    ),
    "README.md: does not state scores.accuracy": change_statement(
        "scores", "accuracy", field="low", value=0.0
    ),
    "scores.epsilon is 0.1": change_statement("scores", field="epsilon", value=0.1),
}
TAMPERED_BITS: dict[str, Callable[[Path], None]] = {
    "epsilon is 4, and the noise gives": halve_epsilon_everywhere,
    "attacks.found.0.01 is 0.02": change_statement("attacks", "found", field="0.01", value=0.02),
    "attacks.gdp_mu. is 1": change_statement("attacks", field="gdp_mu", value=1.0),
}


TAMPERED_BY_RUN = {
    "experiment=centered_votes": TAMPERED,
    "score_epsilon": TAMPERED_SCORES,
    "gaussian_votes": TAMPERED_BITS,
}
"""Functions that tamper with a number, by the run and by the words in which the script names the number."""


@pytest.mark.parametrize("name", [name for name in RUNS if name not in NOT_RECOMPUTED])
def test_real_release_holds(
    name: str, release_folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The script prints "holds" for an unchanged release whose epsilon it can compute."""
    assert verify_release.main([str(release_folder_of(name))]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out == "holds\n"


def test_smaller_epsilon_of_a_better_accountant_is_not_recomputed(
    release_folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The script prints "not recomputed" for an epsilon below the one by Renyi divergences."""
    assert verify_release.main([str(release_folder_of("gaussian_votes by exact"))]) == 3
    printed = capsys.readouterr().out
    assert printed.startswith("not recomputed: the epsilon 8 of GaussianVotes: 7.")
    assert "holds" not in printed


def test_epsilon_of_an_unknown_mechanism_is_not_recomputed(
    release_folder_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The script prints "not recomputed" for `BoundaryMax`, whose epsilon it cannot compute."""
    assert verify_release.main([str(release_folder_of("boundary_max"))]) == 3
    assert capsys.readouterr().out == "not recomputed: the epsilon 8 of BoundaryMax\n"


def test_more_noise_than_epsilon_needs_is_not_recomputed(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If twice the noise is stated with the same epsilon, the script says that epsilon pays for four draws.

    Only the publisher knows whether the release was drawn four times.
    """
    folder = tmp_path / "release"
    shutil.copytree(release, folder)
    change_stated_noise_everywhere(folder, factor=2.0)
    sign_again(folder)
    assert verify_release.main([str(folder)]) == 3
    assert "drawn 4 times" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [(name, words) for name, tampered in TAMPERED_BY_RUN.items() for words in tampered],
)
def test_tampered_number_is_named(
    name: str,
    words: str,
    release_folder_of: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The script names a number that was changed, although all digests were written again."""
    folder = tmp_path / "release"
    shutil.copytree(release_folder_of(name), folder)
    TAMPERED_BY_RUN[name][words](folder)
    sign_again(folder)
    assert verify_release.main([str(folder)]) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("mu", [0.1, 1.5, 6.0])
def test_gaussian_epsilon_is_that_of_the_exact_accountant(mu: float) -> None:
    """For Gaussian noise, the script computes the epsilons of the package's exact and Renyi accountants.

    The script sums over a grid, and the exact accountant solves an equation.
    """
    noise = verify_release._Noise(mu=mu)
    exact = (
        ExactAccountant()
        .compose(GaussianEvent(noise_multiplier=1 / mu))
        .get_epsilon(target_delta=1e-6)
    )
    assert noise.least_epsilon(delta=1e-6) == pytest.approx(exact, rel=1e-6)
    by_renyi = (
        RdpAccountant()
        .compose(GaussianEvent(noise_multiplier=1 / mu))
        .get_epsilon(target_delta=1e-6)
    )
    assert noise.proven_epsilon(delta=1e-6) == pytest.approx(by_renyi, rel=1e-4)


def test_least_epsilon_of_bits_is_that_of_binomials() -> None:
    """The least epsilon of 50 noisy bits is that of two binomials, which count the ones on neighboring data.

    The least epsilon is the smallest that can be true, as some pair of neighbors needs it. On this pair, all 50 bits
    are half a vote from the threshold, on either side.
    """
    pairs = verify_release._threshold_bit(std=4.0, reach=1, threshold=10.5, most=21)
    noise = verify_release._Noise(count=50, pairs=pairs)
    epsilon = noise.least_epsilon(delta=1e-4)
    num_ones = np.arange(51)
    # the counts 11 and 10 are half a vote from the threshold, or 1/8 of the noise's standard deviation
    probs = binom.pmf(num_ones, n=50, p=ndtr(1 / 8))
    neighbor_probs = binom.pmf(num_ones, n=50, p=ndtr(-1 / 8))
    delta = np.maximum(probs - math.exp(epsilon) * neighbor_probs, 0).sum()
    assert delta == pytest.approx(1e-4, rel=1e-6)


@pytest.mark.parametrize("is_ranged", [True, False])
def test_losses_of_picks_lie_in_their_range(is_ranged: bool) -> None:
    """For a pick among labels, the probabilities of picking and of not picking one sum to 1 on either data set.

    The privacy losses of the two outcomes are epsilon apart if `is_ranged`, and otherwise 2 epsilon.
    """
    log_probs = verify_release._pick(epsilon=0.7, is_ranged=is_ranged)
    picked, not_picked, neighbor_picked, neighbor_not_picked = np.exp(log_probs)
    assert picked + not_picked == pytest.approx(np.ones_like(picked))
    assert neighbor_picked + neighbor_not_picked == pytest.approx(np.ones_like(picked))
    span = np.log(picked / neighbor_picked) - np.log(not_picked / neighbor_not_picked)
    assert span == pytest.approx(np.full_like(picked, 0.7 if is_ranged else 1.4))


def test_changed_file_differs_from_its_digest(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script names a file with an added byte, and a file that the manifest does not list."""
    folder = tmp_path / "release"
    shutil.copytree(release, folder)
    (folder / "schema.json").write_bytes((folder / "schema.json").read_bytes() + b" ")
    (folder / "votes.npz").write_bytes(b"")
    assert verify_release.main([str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "schema.json: SHA-256 is" in printed
    assert "votes.npz: SHA-256 is" in printed and "and not missing" in printed


def test_folder_without_statement_cannot_be_verified(tmp_path: Path) -> None:
    """The script ends with exit code 2 for an empty folder."""
    assert verify_release.main([str(tmp_path)]) == 2


def test_script_imports_nothing_of_pate() -> None:
    """The script imports nothing of the package whose releases it verifies."""
    text = Path(verify_release.__file__).read_text()
    assert "import pate" not in text and "from pate" not in text


def test_dossier_of_a_real_release_is_written_twice(release: Path, tmp_path: Path) -> None:
    """`pate-dossier` writes an HTML page and a JSON file about a release, and refuses an output within the release."""
    succeeded("dossier", arguments=[f"release={release}", f"output={tmp_path}/d.html"])
    succeeded("dossier", arguments=[f"release={release}", f"output={tmp_path}/d.json"])
    assert "epsilon" in (tmp_path / "d.html").read_text()
    facts = json.loads((tmp_path / "d.json").read_text())
    assert facts["privacy"] == json.loads((release / "privacy.json").read_text())
    line = refused_command("dossier", arguments=[f"release={release}", f"output={release}/d.html"])
    assert "a file outside of the release" in line
    assert not (release / "d.html").exists()
