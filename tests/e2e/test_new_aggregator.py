"""What a new aggregator costs: its class, a YAML and its cases. Nothing else is touched, and everything finds it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from pate.accounting import Adjacency, PureDpAccountant, PureDpEvent, SelfComposedEvent
from pate.aggregators.aggregator import declared, noise_fields
from tests.cases.discovery import CaseFile, case_files
from tests.contract.promises import keep, promises
from tests.e2e.commands import call
from tests.privacy.case import Shape
from tests.privacy.test_shipped import verdict_of

CLASS = '''
from dataclasses import dataclass, field, replace

import numpy as np

from pate.accounting import PureDpEvent, SelfComposedEvent
from pate.aggregators import PerQueryAggregator
from pate.validation import require_count, require_positive

print("laplace_votes was loaded")


@dataclass(frozen=True, kw_only=True)
class LaplaceVotes(PerQueryAggregator):
    """Whether count + Laplace(murmur) exceeds half the teachers, for each label: (1 / murmur)-DP a label."""

    murmur: float = field(metadata={"noise": True})
    quorum: float = 0.5

    def __post_init__(self):
        super().__post_init__()
        require_positive("murmur", self.murmur)

    def event_for(self, *, num_queries, num_labels, num_teachers):
        require_count("num_teachers", num_teachers)
        num_bits = require_count("num_queries", num_queries, minimum=0) * require_count("num_labels", num_labels)
        return SelfComposedEvent(PureDpEvent(1 / self.murmur), num_bits)

    def scaled(self, factor):
        return replace(self, murmur=self.murmur * factor)

    def _draw(self, votes, *, num_teachers, rng):
        noisy = votes + rng.laplace(scale=self.murmur, size=votes.shape)
        return noisy > self.quorum * num_teachers, np.ones(len(votes), dtype=np.bool_)
'''
YAML = "# Laplace noise on every count.\n_target_: laplace_votes.LaplaceVotes\nmurmur: 100.0\n"
CASES = """
import numpy as np
from laplace_votes import LaplaceVotes

from tests.contract.case import Case
from tests.privacy.case import Case as LawCase, rename_bits

CONTRACT = (Case("laplace_votes", LaplaceVotes(murmur=1.5), refuses=False),)


def distribution(aggregator, histogram, shape):
    x = (histogram - shape.num_teachers / 2) / aggregator.murmur
    ones = np.where(x < 0, np.exp(-abs(x)) / 2, 1 - np.exp(-abs(x)) / 2)
    patterns = np.ndindex(*(2,) * len(histogram))
    return {bits: float(np.where(bits, ones, 1 - ones).prod()) for bits in patterns}


DISTRIBUTIONS = (
    LawCase(
        "LaplaceVotes",
        lambda shape: LaplaceVotes(murmur=FACTOR, adjacency=shape.adjacency),
        distribution,
        lambda subject, shape: LaplaceVotes(murmur=1.0).event_for(
            num_queries=1, num_labels=shape.num_labels, num_teachers=shape.num_teachers
        ),
        rename=rename_bits,
    ),
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("new")
    texts = {
        "laplace_votes.py": CLASS,
        "conf/aggregator/laplace_votes.yaml": YAML,
        "cases/laplace_votes.py": CASES.replace("FACTOR", "1.0"),
        "too_cheap/laplace_votes.py": CASES.replace("FACTOR", "0.9"),
    }
    for name, text in texts.items():
        (made / name).parent.mkdir(exist_ok=True, parents=True)
        (made / name).write_text(text)
    sys.path.insert(0, str(made))
    yield made
    sys.path.remove(str(made))
    sys.modules.pop("laplace_votes", None)


@pytest.fixture(scope="module")
def found(folder: Path) -> CaseFile:
    (file,) = case_files(folder / "cases")
    return file


def account(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = ["--config-dir", str(folder / "conf"), "aggregator=laplace_votes", "allowed_targets=[laplace_votes.]"]
    sys.modules.pop("laplace_votes", None)  # so that it is seen whether the command loads it
    return call("account", *own, "num_queries=50", "num_labels=4", "format=json", "allow_useless=true", *words)


def test_it_is_priced_and_solved_for(folder: Path) -> None:
    done = account(folder, "aggregator.murmur=400", "accountant=pure_dp")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["aggregator"]["name"], answer["aggregator"]["murmur"]) == ("LaplaceVotes", 400.0)
    bits = SelfComposedEvent(PureDpEvent(1 / 400), 50 * 4)
    assert answer["epsilon"] == pytest.approx(PureDpAccountant().compose(bits).get_epsilon(1e-6), rel=1e-12)
    assert "laplace_votes was loaded" in done.stdout  # as the test of a class that is not allowed relies on
    solved = json.loads(account(folder, "target_epsilon=2").stdout.splitlines()[-1])
    assert list(solved["solved_for"]) == ["murmur"]
    assert 1.99 < solved["epsilon"] <= 2


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("aggregator.murmur=loud", "aggregator.murmur=loud: expected a number"),
        (
            "aggregator.murmer=3",
            "aggregator.murmer: expected a key of the configuration: "
            "one of murmur, quorum (did you mean murmur or quorum?)",
        ),
        ("aggregator.murmur=-1", "murmur=-1.0: expected a number > 0"),
    ],
)
def test_its_keys_are_typed_and_others_refused(folder: Path, word: str, line: str) -> None:
    done = account(folder, word)
    assert (done.returncode, done.stderr.strip()) == (2, line)


def test_a_field_that_its_yaml_leaves_out_can_be_set(folder: Path) -> None:
    done = account(folder, "aggregator.quorum=0.7")
    assert json.loads(done.stdout.splitlines()[-1])["aggregator"]["quorum"] == 0.7


def test_a_class_is_not_loaded_before_it_is_allowed(folder: Path) -> None:
    """The module of a configuration that nobody trusts is never imported."""
    done = account(folder, "allowed_targets=[]", "aggregator.murmur=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("_target_=laplace_votes.LaplaceVotes: expected a name that begins with pate. or")


def test_every_promise_of_the_contract_is_kept(found: CaseFile, request: pytest.FixtureRequest) -> None:
    (case,) = found.contract
    kept = 0
    for each in promises(case):
        promise, values = each.values
        if "monkeypatch" not in promise.__code__.co_varnames and "tmp_path" not in promise.__code__.co_varnames:
            keep(promise, case, values, request)
            kept += 1
    assert kept >= 30


def test_its_noise_is_declared(found: CaseFile) -> None:
    assert is_dataclass(found.kind)
    assert declared(found.kind) == {"murmur"} == noise_fields(found.contract[0].aggregator)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_verifier_runs_on_it_and_finds_a_price_too_small(
    found: CaseFile, folder: Path, adjacency: Adjacency
) -> None:
    (distribution,) = found.distributions
    verdict = verdict_of(distribution, Shape(adjacency, *distribution.largest)).require()
    assert verdict.sound and distribution.tightness <= verdict.ratio <= 1 + 1e-9
    (cheap,) = case_files(folder / "too_cheap")[0].distributions
    assert not verdict_of(cheap, Shape(adjacency, *distribution.largest)).sound
