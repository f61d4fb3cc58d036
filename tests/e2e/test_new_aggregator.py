"""An aggregator of a user, in a class, a YAML file and a file of cases, works with the commands and test suites."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest

from pate.accounting import Adjacency, PureDpAccountant, PureDpEvent, SelfComposedEvent
from pate.aggregators.aggregator import fields_marked
from tests.cases.discovery import CaseFile, read_case_files
from tests.contract.promises import promises, run_promise
from tests.e2e.commands import Arguments, call
from tests.privacy.case import SmallInstance
from tests.privacy.test_shipped import verdict_of
from tests.statistical.chi_square import chi_square_p_value

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_aggregator.py"
YAML = "# Laplace noise on every count.\n_target_: own_votes.LaplaceQuorum\nnoise_scale: 100.0\n"
CASES = """
import numpy as np
from own_votes import LaplaceQuorum

from pate.mechanisms import DiscreteLaplace
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase, rename_bits

CONTRACT = (Case("own_votes", LaplaceQuorum(noise_scale=1.5), refuses=False),)


def distribution(aggregator, histogram, small_instance):
    noise = DiscreteLaplace.at_most(1 / aggregator.noise_scale)
    smallest_released = small_instance.num_teachers // 2 + 1
    ones = noise.tail(smallest_released - histogram)
    patterns = np.ndindex(*(2,) * len(histogram))
    return {bits: float(np.where(bits, ones, 1 - ones).prod()) for bits in patterns}


DISTRIBUTIONS = (
    LawCase(
        "LaplaceQuorum",
        lambda small_instance: LaplaceQuorum(noise_scale=FACTOR, adjacency=small_instance.adjacency),
        distribution,
        lambda mechanism, small_instance: LaplaceQuorum(noise_scale=1.0).event_for(
            num_queries=1,
            num_labels=small_instance.num_labels,
            num_teachers=small_instance.num_teachers,
        ),
        relabel_outcome=rename_bits,
    ),
)
"""


@pytest.fixture(scope="module")
def project_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yields a folder with the class of an aggregator, its YAML file and its cases.

    A second file of cases states a price that is 10% too small.
    """
    project_folder = tmp_path_factory.mktemp("new")
    texts = {
        "own_votes.py": EXAMPLE.read_text() + '\nprint("own_votes was loaded")\n',
        "conf/aggregator/own_votes.yaml": YAML,
        "cases/own_votes.py": CASES.replace("FACTOR", "1.0"),
        "too_cheap/own_votes.py": CASES.replace("FACTOR", "0.9"),
    }
    for name, text in texts.items():
        (project_folder / name).parent.mkdir(exist_ok=True, parents=True)
        (project_folder / name).write_text(text)
    sys.path.insert(0, str(project_folder))
    yield project_folder
    sys.path.remove(str(project_folder))
    sys.modules.pop("own_votes", None)


@pytest.fixture(scope="module")
def case_file(project_folder: Path) -> CaseFile:
    """Returns the file of cases of the user's aggregator."""
    (file,) = read_case_files(folder=project_folder / "cases")
    return file


def account(project_folder: Path, arguments: Arguments = ()) -> subprocess.CompletedProcess[str]:
    """Prices 50 queries of the user's aggregator by `pate-account` with these settings."""
    options = [
        "--config-dir",
        str(project_folder / "conf"),
        "aggregator=own_votes",
        "allowed_targets=[own_votes.]",
    ]
    sys.modules.pop("own_votes", None)  # the test sees whether the command loads the module
    return call(
        "account",
        arguments=[
            *options,
            "num_queries=50",
            "num_labels=4",
            "format=json",
            "allow_useless=true",
            *arguments,
        ],
    )


def test_the_aggregator_is_priced_and_calibrated(project_folder: Path) -> None:
    """`pate-account` prices a user's aggregator by its own event, and solves its noise for epsilon 2."""
    done = account(project_folder, arguments=["aggregator.noise_scale=400", "accountant=pure_dp"])
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["aggregator"]["name"], answer["aggregator"]["noise_scale"]) == (
        "LaplaceQuorum",
        400.0,
    )
    bits = SelfComposedEvent(PureDpEvent(epsilon=1 / 400), count=50 * 4)
    assert answer["epsilon"] == pytest.approx(
        PureDpAccountant().compose(bits).get_epsilon(target_delta=1e-6), rel=1e-12
    )
    # the test of a class that is not allowed relies on this line
    assert "own_votes was loaded" in done.stdout
    solved = json.loads(
        account(project_folder, arguments=["target_epsilon=2"]).stdout.splitlines()[-1]
    )
    assert list(solved["solved_for"]) == ["noise_scale"]
    assert 1.99 < solved["epsilon"] <= 2
    again = account(
        project_folder, arguments=[f"aggregator.noise_scale={solved['aggregator']['noise_scale']}"]
    )
    assert json.loads(again.stdout.splitlines()[-1])["epsilon"] == solved["epsilon"]


def test_wrong_keys_are_refused_in_one_line(
    project_folder: Path,
) -> None:
    """Values of wrong type or range and unknown keys of a user's aggregator are refused in one line.

    If `allowed_targets` does not list the class, it is refused and its module is not imported.
    """
    for words, line in (
        (["aggregator.noise_scale=loud"], "aggregator.noise_scale=loud: expected a number\n"),
        (
            ["aggregator.noise_scal=3"],
            "aggregator.noise_scal: expected a key of the configuration: one of noise_sc",
        ),
        (["aggregator.quorum=-1"], "quorum=-1.0: expected a number in (0, 1)\n"),
        (
            ["allowed_targets=[]"],
            "_target_=own_votes.LaplaceQuorum: expected a name that begins with pate. or",
        ),
    ):
        done = account(project_folder, arguments=words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(line)
    assert done.stdout == "", "the module of a configuration that nobody trusts is never imported"


def test_noise_is_declared_and_each_promise_kept(
    case_file: CaseFile, request: pytest.FixtureRequest
) -> None:
    """A user's aggregator has one field marked as noise, and passes the suite of contract tests for aggregators.

    Tests of that suite that need `monkeypatch` or `tmp_path` are left out.
    """
    assert is_dataclass(case_file.kind)
    assert fields_marked(case_file.kind, mark="noise") == {"noise_scale"}
    (case,) = case_file.contract_cases
    num_promises = 0
    for parameters in promises(case):
        promise_test, values = parameters.values
        if (
            "monkeypatch" not in promise_test.__code__.co_varnames
            and "tmp_path" not in promise_test.__code__.co_varnames
        ):
            run_promise(promise_test, case=case, values=values, request=request)
            num_promises += 1
    assert num_promises >= 20


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_verifier_finds_a_price_too_small(
    case_file: CaseFile, project_folder: Path, adjacency: Adjacency
) -> None:
    """The verifier accepts the price of a user's aggregator, which is nearly attained, and refutes one 10% smaller."""
    (exact_case,) = case_file.distributions
    verdict = verdict_of(
        exact_case, small_instance=exact_case.largest_instance(adjacency)
    ).require()
    assert verdict.sound and exact_case.tightness <= verdict.ratio <= 1 + 1e-9
    (cheap,) = read_case_files(folder=project_folder / "too_cheap")[0].distributions
    assert not verdict_of(cheap, small_instance=exact_case.largest_instance(adjacency)).sound


@pytest.mark.slow
def test_the_distribution_for_the_verifier_is_that_of_draws(case_file: CaseFile) -> None:
    """4,000 releases of a user's aggregator have the frequencies of the distribution that the verifier is given.

    A distribution for counts that are larger by 1 is refuted.
    """
    num_releases = 4000
    counts = np.array([1, 3])
    (case,) = case_file.distributions
    small_instance = SmallInstance(Adjacency.REPLACE_ONE, num_labels=2, num_teachers=4)
    aggregator = case.mechanism_for(small_instance)
    release = aggregator.aggregate(
        np.tile(counts, (num_releases, 1)),
        num_teachers=small_instance.num_teachers,
        rng=np.random.default_rng(0),
    )
    count_by_bits = Counter(tuple(bits) for bits in release.labels.astype(int).tolist())
    distribution = case.distribution(aggregator, counts, small_instance)
    shifted = case.distribution(aggregator, counts + 1, small_instance)
    assert chi_square_p_value(count_by_bits, prob_by_outcome=distribution) > 1e-4
    assert chi_square_p_value(count_by_bits, prob_by_outcome=shifted) < 1e-4
