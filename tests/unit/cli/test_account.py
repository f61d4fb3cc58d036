"""pate-account and pate-audit on a composed configuration: sessions, files of votes, ledgers, and refusals.

A session answers queries until a given number of them are hits. A hit is a query that is charged, mostly one on which
teachers disagree, or whose public prediction, the prior, they contradict. A query that is no hit is free.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.core.hydra_config import HydraConfig

from pate.accounting import AutoAccountant, GaussianEvent, Ledger, RdpAccountant, SharedLedger
from pate.aggregators import BoundaryTopK, GaussianVotes
from pate.cli.account import price_or_list_charges as account_command
from pate.cli.audit import audit
from pate.mechanisms import CertifiedTable
from pate.pricing.ledger_accounts import ledgers_in
from pate.setting_names import COMMAND
from pate.validation import InvalidValue
from pate.votes import VoteShape
from tests.e2e.commands import Arguments
from tests.refusals import ANY, refused_parameter

# Digests of two data sets.
FIRST_DIGEST = "a" * 64
OTHER_DIGEST = "b" * 64
# The aggregator of a session of hits, and the same aggregator and its shape as settings of a command.
BOUNDARY = BoundaryTopK(selection_scale=20.0, test_std=5.0, target_hits=5, failure_prob=1e-10)
SIZE = ["num_queries=2000", "num_labels=6", "num_teachers=400"]
NOISE = ("selection_scale=20", "test_std=5", "target_hits=5", "failure_prob=1e-10")
SESSION = ["aggregator=stable_top_k_boundary", *(f"aggregator.{word}" for word in NOISE), *SIZE]
PRIOR = ("prior_scale=30", "prior_margin=0", "first_queries=50")
NOT_PRIOR = ["aggregator=stable_top_k_not_prior", *(f"aggregator.{word}" for word in PRIOR), *SIZE]


@pytest.fixture
def page_of(
    composed: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Returns a function that runs `pate-account` with settings, and returns the printed page."""
    monkeypatch.setenv("COLUMNS", "120")

    def run_account(arguments: Arguments) -> str:
        """Runs `pate-account` with these settings and returns its printed page."""
        account_command(config=composed(arguments, command="account"))
        return capsys.readouterr().out

    return run_account


@pytest.fixture
def quote_of(page_of: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Returns a function that runs `pate-account` with given settings and returns the price that it prints as JSON."""

    def run_with_json(arguments: Arguments) -> dict[str, Any]:
        """Runs `pate-account` with these settings and returns its printed JSON."""
        return dict(json.loads(page_of([*arguments, "format=json"])))

    return run_with_json


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """Returns the path of a file of votes on 300 queries with one clear label, and on 100 without a clear label."""
    clear = np.tile([390, 9, 4, 0, 1, 2], (300, 1))
    unclear = np.tile([210, 200, 190, 180, 170, 160], (100, 1))
    np.save(tmp_path / "votes.npy", np.concatenate([clear, unclear]))
    return str(tmp_path / "votes.npy")


@pytest.mark.slow
def test_a_narrow_terminal_shows_every_bound_on_attacks(
    page_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns, as in a pipe, names that are longer than the terminal is wide leave room for their values."""
    monkeypatch.setenv("COLUMNS", "80")
    page = page_of(["aggregator=gaussian_votes", "target_epsilon=3", "accountant=rdp"])
    attacks = page.partition("what an attacker finds\n")[2].partition("\n\n")[0]
    assert max(map(len, attacks.splitlines())) <= 80
    lines_with_values = re.findall(r"\S {2,}(\d[\d.e-]*%?) *$", attacks, flags=re.MULTILINE)
    assert len(lines_with_values) == 7, attacks


@pytest.mark.slow
def test_plain_composition_is_shown_only_for_a_session(
    page_of: Callable[..., str], quote_of: Any
) -> None:
    """The price of a session stands beside that of plain composition, and the page says which is smaller.

    For `gaussian_votes`, which has no sessions, no plain composition is shown.
    """
    quote = quote_of(arguments=SESSION)
    plain_accountant = AutoAccountant().compose(
        BOUNDARY.plain_event(VoteShape(num_queries=2_000, num_labels=6, num_teachers=400))
    )
    assert (
        quote["plain_epsilon"] == plain_accountant.get_epsilon(target_delta=1e-6) > quote["epsilon"]
    )
    page = page_of(arguments=SESSION)
    assert "the session costs less" in page
    assert "votes=FILE" in page
    short_session = quote_of(arguments=[*SESSION, "num_queries=10"])
    assert short_session["plain_epsilon"] < short_session["epsilon"]
    assert "plain composition costs less" in page_of(arguments=[*SESSION, "num_queries=10"])
    # An epsilon of 4 pays for more than the five queries of the command.
    quote = quote_of(arguments=["aggregator=gaussian_votes", "num_queries=5", "max_epsilon=4"])
    assert quote["plain_epsilon"] is None
    assert quote["solved_for"] == {"num_queries": quote["num_queries"]}
    assert quote["num_queries"] > 5


@pytest.mark.slow
def test_a_session_whose_failures_use_up_delta_is_refused(quote_of: Any) -> None:
    """A session of 20,000 queries is refused, as their failure probabilities sum to more than delta.

    Each suggested remedy works. With 5,000 queries, plain composition, which charges every query, has a finite price.
    """
    assert isinstance(quote_of(arguments=[*SESSION, "num_queries=5000"])["plain_epsilon"], float)
    remedy_names = ("failure_prob", "num_queries")
    with refused_parameter(
        "failure_prob", value=1e-10, rule_words="2e-06 in all", remedies=remedy_names
    ) as caught:
        quote_of(arguments=[*SESSION, "num_queries=20000"])
    assert str(caught.value).endswith("what works: failure_prob=3e-11, or num_queries=6000")
    for remedy in map(COMMAND.settings_of, caught.value.remedies):
        assert quote_of(arguments=[*SESSION, "num_queries=20000", remedy])["epsilon"]


@pytest.mark.slow
def test_votes_and_prior_give_the_expected_hits(
    page_of: Callable[..., str], quote_of: Any, votes: str, tmp_path: Path
) -> None:
    """With a file of votes, the expected number of hits is that of `hit_probabilities`.

    With a prior, that is, public predictions of the labels, fewer hits are expected than without one.
    """
    hits = quote_of(arguments=[*SESSION, f"votes={votes}"])["hits"]
    expected = BOUNDARY.hit_probabilities(votes=np.load(votes), num_teachers=400).sum()
    assert hits["expected_hits"] == pytest.approx(expected, rel=1e-12)
    page = page_of(arguments=[*SESSION, f"votes={votes}"])
    assert f"{expected:.1f} expected" in page
    assert f"{hits['expected_asked']} queries until 5 hits" in page
    words = [*NOT_PRIOR, "accountant=rdp"]
    np.savez(tmp_path / "prior.npz", prior=np.load(votes) > 200)
    with_prior = quote_of(arguments=[*words, f"votes={votes}", f"prior={tmp_path / 'prior.npz'}"])
    without_prior = quote_of(arguments=[*words, f"votes={votes}"])
    assert with_prior["hits"]["expected_hits"] < without_prior["hits"]["expected_hits"]


@pytest.mark.slow
def test_stability_table_is_written_and_reported(
    page_of: Callable[..., str], quote_of: Any, tmp_path: Path
) -> None:
    """`write_table` writes a certified table, the pass probabilities of a stability test, for the best Renyi order.

    JSON and page report the table.
    """
    path = tmp_path / "table.json"
    words = [
        "aggregator=stable_top_k_gumbel",
        "num_teachers=800",
        "accountant=rdp",
        f"write_table={path}",
    ]
    quote = quote_of(arguments=words)
    table = CertifiedTable.load(path)
    assert table.order == quote["best_order"]
    assert quote["table"] == {
        "path": str(path),
        "order": table.order,
        "rdp": table.rdp,
        "sha256": table.digest,
    }
    assert f"certified to cost at most {table.rdp} a test" in page_of(arguments=words)


@pytest.mark.slow
def test_files_that_do_not_fit_are_refused(quote_of: Any, votes: str, tmp_path: Path) -> None:
    """Votes, priors and tables that do not suit the aggregator or their shape are refused by the setting's name."""
    np.save(tmp_path / "numbers.npy", np.array([[0, 2]]))
    np.save(tmp_path / "line.npy", np.array([True]))
    gaussian = ["aggregator=gaussian_votes"]
    prior = [*NOT_PRIOR, f"votes={votes}", f"prior={tmp_path}/"]
    for words, refusal in (
        (
            [*gaussian, f"votes={votes}"],
            refused_parameter("votes", value=ANY, rule_words="GaussianVotes, which"),
        ),
        ([*SESSION, "num_labels=7", f"votes={votes}"], refused_parameter("num_labels", value=7)),
        (
            [*prior[:-1], prior[-1] + "missing.npy"],
            refused_parameter("prior", value=ANY, rule_words="existing .npy"),
        ),
        (
            [*prior[:-1], prior[-1] + "numbers.npy"],
            refused_parameter("prior[0, 1]", rule_words="bits"),
        ),
        (
            [*prior[:-1], prior[-1] + "line.npy"],
            refused_parameter("prior.shape", value=(1,)),
        ),
        (
            [*gaussian, f"write_table={tmp_path}"],
            refused_parameter("write_table", value=ANY, rule_words="not a folder"),
        ),
        (
            [*gaussian, f"write_table={tmp_path}/x"],
            refused_parameter("write_table", value=ANY, rule_words="aggregator with"),
        ),
    ):
        with refusal:
            quote_of(arguments=words)


def write_shared_ledger(path: Path, max_epsilon: float | None = None) -> SharedLedger:
    """Creates a ledger with one release of a first data set and two of a second."""
    shared = SharedLedger(
        path, target_delta=1e-6, accountant=RdpAccountant, max_epsilon=max_epsilon
    )
    for data_digest, multiplier, key in (
        (FIRST_DIGEST, 2.0, "first"),
        (OTHER_DIGEST, 8.0, "first"),
        (OTHER_DIGEST, 8.0, "second"),
    ):
        event = GaussianEvent(noise_multiplier=multiplier)
        shared.account(data=data_digest).charge(
            event, key=key, adjacency="replace_one", description="GaussianVotes"
        )
    return shared


GAUSSIAN = [
    "aggregator=gaussian_votes",
    "aggregator.noise_std=400",
    "allow_useless=true",
    "num_queries=100",
    "num_labels=10",
]


@pytest.mark.slow
def test_remaining_budget_of_a_ledger_is_what_it_admits(
    quote_of: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """The number and the epsilon of the releases that an account has left, as stated, are what the account affords.

    An account has the charges of a ledger for one data set.
    """
    shared = write_shared_ledger(path=tmp_path / "ledger.db", max_epsilon=4.0)
    quote = quote_of(arguments=[*GAUSSIAN, f"ledger={shared.path}"])
    first, second = quote["accounts"]
    accounts = [
        (entry["data"], entry["num_releases"], entry["max_epsilon"]) for entry in (first, second)
    ]
    assert accounts == [(FIRST_DIGEST, 1, 4.0), (OTHER_DIGEST, 2, 4.0)]
    assert second["epsilon"] < first["epsilon"] <= 4.0
    assert second["more_releases"] > first["more_releases"] > 0
    assert first["target_epsilon"] < second["target_epsilon"] < 4.0
    account = shared.account(data=OTHER_DIGEST)
    aggregator = GaussianVotes(noise_std=400.0)
    assert (
        account.affords(aggregator.event_for(num_queries=100, num_labels=10, num_teachers=400))
        == second["more_releases"]
    )
    for share, fits in ((1.0, True), (1.02, False)):
        target = share * second["target_epsilon"]
        event = aggregator.calibrated(
            target_epsilon=target,
            target_delta=1e-6,
            num_queries=100,
            num_labels=10,
            num_teachers=400,
        ).event_for(num_queries=100, num_labels=10, num_teachers=400)
        assert (account.affords(event) >= 1) is fits


def test_a_missing_ledger_names_the_one_in_outputs(tmp_path: Path) -> None:
    """If a ledger is missing, but its folder has a file `outputs/ledger.db`, the error names that file."""
    path = tmp_path / "outputs" / "ledger.db"
    path.parent.mkdir()
    path.touch()
    with refused_parameter(
        "ledger", value=tmp_path / "ledger.db", rule_words=f"found no file; there is {path}"
    ):
        ledgers_in(tmp_path / "ledger.db")


@pytest.mark.slow
def test_a_ledger_gives_a_row_for_each_data_set(
    page_of: Callable[..., str], quote_of: Any, tmp_path: Path
) -> None:
    """The page about a ledger has a row for each data set, with what the ledger has charged for it.

    A missing ledger is refused, and so are a delta and an adjacency other than those of the ledger.
    """
    with refused_parameter("ledger", value=tmp_path / "none.db", rule_words="found no file"):
        page_of(arguments=[*GAUSSIAN, f"ledger={tmp_path / 'none.db'}"])
    assert not list(tmp_path.iterdir())
    shared = write_shared_ledger(path=tmp_path / "ledger.db")
    for word, known in (("target_delta=1e-07", "1e-06"), ("adjacency=add_remove", "replace_one")):
        with pytest.raises(InvalidValue, match=rf"^{word}: expected {known}, as ledger="):
            page_of(arguments=[*GAUSSIAN, f"ledger={shared.path}", word])
    page = page_of(arguments=[*GAUSSIAN, f"ledger={shared.path}"])
    assert page.count("none") >= 2, "there is no cap"
    assert "aaaaaaaaaaaa " in page and "bbbbbbbbbbbb " in page
    unnamed_ledger = Ledger(tmp_path / "one.db", target_delta=1e-6, max_epsilon=4.0)
    unnamed_ledger.charge(GaussianEvent(noise_multiplier=2.0), adjacency="replace_one", key="a fit")
    (row,) = quote_of(arguments=[*GAUSSIAN, f"ledger={unnamed_ledger.path}"])["accounts"]
    assert (row["data"], row["num_releases"]) == ("", 1)


@pytest.fixture
def output_of(composed: Any, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """Yields a function that runs `pate-account` as from the command line, and returns its output.

    The command then knows which settings were given.
    """

    def run_account(arguments: Arguments) -> str:
        config = composed(arguments, command="account", return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        account_command(config)
        return capsys.readouterr().out

    yield run_account
    HydraConfig.instance().cfg = None


UNIT = ["unit", "unit_columns", "charges_without_unit", "accountant", "accountant_epsilon"]
CHARGE = ["time", "user", "command", "mechanism", "draw", "epsilon"]


@pytest.mark.slow
def test_ledger_is_listed_alone_or_quoted_with_an_aggregator(
    output_of: Callable[..., str], tmp_path: Path
) -> None:
    """Without an aggregator, a ledger is listed as JSON, as lines or as a page, with totals, caps and charges.

    An empty ledger is listed too. With an aggregator, a release is priced beside the ledger.
    """
    shared = write_shared_ledger(path=tmp_path / "ledger.db", max_epsilon=4.0)
    (line,) = output_of(arguments=[f"ledger={shared.path}", "format=json"]).splitlines()
    (first, second) = json.loads(line)["accounts"]
    assert list(first) == ["data", "spent_epsilon", "delta", "cap", *UNIT, "charges"]
    account = shared.account(data=OTHER_DIGEST)
    entry = shared.entries[0]
    assert (second["data"], second["delta"], second["cap"]) == (OTHER_DIGEST, 1e-6, 4.0)
    assert second["spent_epsilon"] == account.spent_epsilon
    assert [list(charge) for charge in first["charges"]] == [CHARGE]
    gaussian = (
        RdpAccountant().compose(GaussianEvent(noise_multiplier=8.0)).get_epsilon(target_delta=1e-6)
    )
    assert [charge["epsilon"] for charge in second["charges"]] == [gaussian, gaussian]
    assert second["charges"][0]["time"] == account.entries[0].time
    lines = [
        json.loads(line)
        for line in output_of(arguments=[f"ledger={shared.path}", "format=jsonl"]).splitlines()
    ]
    assert [line["data"][0] for line in lines] == ["a", "b", "b"]
    assert list(lines[0]) == ["data", "delta", *CHARGE]
    page = output_of(arguments=[f"ledger={shared.path}"])
    assert (
        "records aaaaaaaaaaaa: 1 charge, epsilon " in page
        and "records bbbbbbbbbbbb: 2 charges, epsilon " in page
    )
    assert (page.count("cap 4"), page.count("GaussianVotes")) == (2, 3)
    assert f"{entry.time[:19].replace('T', ' ')} UTC, {entry.user}: epsilon " in page
    assert output_of(arguments=[f"ledger={shared.path}", "format=text"]) == page
    path_of_empty_ledger = Ledger(tmp_path / "empty.db", target_delta=1e-6).path
    assert output_of(arguments=[f"ledger={path_of_empty_ledger}"]).startswith(
        "all records: 0 charges, epsilon 0"
    )
    quote = json.loads(output_of(arguments=[*GAUSSIAN, f"ledger={shared.path}", "format=json"]))
    assert quote["epsilon"] > 0 and "more_releases" in quote["accounts"][0]
    with refused_parameter("format", value="jsonl"):
        output_of(arguments=[*GAUSSIAN, "format=jsonl"])


@pytest.mark.slow
def test_suggested_settings_can_be_pasted_and_priced(page_of: Callable[..., str]) -> None:
    """With too many queries and too few teachers, the page suggests numbers of both.

    The suggested settings are then priced without a warning.
    """
    words = ["aggregator=peeling", "target_epsilon=4"]
    assert "num_private=… says it" in page_of(arguments=[*words, "suggest=true"])
    page = page_of(
        arguments=[
            *words,
            "num_queries=2000000",
            "num_teachers=2",
            "suggest=true",
            "num_private=62115",
        ]
    )
    (settings,) = [
        line.split()[1:] for line in page.splitlines() if line.strip().startswith("settings ")
    ]
    assert [setting.partition("=")[0] for setting in settings] == ["num_teachers", "num_queries"]
    assert "private groups each" in page and "num_private=" not in page
    assert "teachers are heard" not in page_of(
        arguments=[*words, *settings, "num_private=62115"]
    ), "neither refused nor doubted"


@pytest.mark.slow
def test_stability_test_that_no_gap_passes_has_a_row(
    page_of: Callable[..., str],
) -> None:
    """A stability test that no gap of votes passes with probability 1/2 is refused.

    With `allow_useless`, the page has a row about it.
    """
    useless = [
        "aggregator=stable_top_k_table",
        "target_epsilon=1",
        "num_teachers=100",
        "accountant=rdp",
    ]
    with refused_parameter("num_teachers", value=100):
        page_of(arguments=useless)
    page = page_of(arguments=[*useless, "allow_useless=true"])
    assert "no gap of 100 votes passes with probability 1/2" in page
    assert "cheapest accountant" in page


TEACHER_VOTES = np.random.default_rng(0).random((50, 20, 6)) < 0.3


@pytest.fixture
def audit_of(
    composed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Returns a function that writes votes into a file, runs `pate-audit` on it, and returns its output."""

    def run_audit(votes_or_counts: Any, arguments: Arguments = ()) -> str:
        np.save(tmp_path / "votes.npy", votes_or_counts)
        settings = [f"votes={tmp_path / 'votes.npy'}", *arguments]
        audit(config=composed(settings, command="audit"))
        return capsys.readouterr().out

    return run_audit


@pytest.mark.slow
def test_prices_and_claims_of_a_vote_file(audit_of: Callable[..., str]) -> None:
    """`pate-audit` prices three aggregators on the votes of teachers under both adjacencies.

    The aggregator that the settings name is the first. The page marks the noise that was given, and the JSON lists the
    settings that were assumed.
    """
    arguments = ["aggregator=clipped_votes", "vote_clip=2", "noise_std=10", "accountant=rdp"]
    answer = json.loads(
        audit_of(votes_or_counts=TEACHER_VOTES, arguments=[*arguments, "format=json"]).splitlines()[
            -1
        ]
    )
    assert {"epsilon", "delta", "adjacency", "accountant", "paper_epsilon"} <= answer.keys()
    findings = {each["aggregator"]: each for each in answer["findings"]}
    assert next(iter(findings)) == answer["aggregator"] == "clipped_votes"
    # The findings are about the settings that were given.
    assert set(findings) == {"clipped_votes", "gaussian_votes", "powerset_gnmax"}
    assert answer["epsilon"] == findings["clipped_votes"]["epsilon"]["replace_one"]
    removed = json.loads(
        audit_of(
            votes_or_counts=TEACHER_VOTES,
            arguments=[*arguments, "format=json", "adjacency=add_remove"],
        )
    )
    assert (
        removed["epsilon"] == findings["clipped_votes"]["epsilon"]["add_remove"] < answer["epsilon"]
    )
    page = audit_of(votes_or_counts=TEACHER_VOTES, arguments=arguments)
    assert "teacher_votes: 50 teachers, 20 queries, 6 labels" in page
    assert "(given)" in page and "(assumed)" not in page
    assert "priced once these are given: screening_std=, threshold_share=" in page
    assert answer["assumed"] == {"screening_std": 50.0, "threshold_share": 0.6}
    assert page.index("clipped_votes") < page.index("gaussian_votes")


@pytest.mark.slow
def test_audit_without_noise_is_infinite_and_histogram_needs_num_teachers(
    audit_of: Callable[..., str],
) -> None:
    """An audit without noise has an infinite epsilon.

    A histogram is refused without the number of teachers, and read with it.
    """
    class_counts = np.array([[7, 2, 1], [4, 3, 3]])
    answer = json.loads(
        audit_of(votes_or_counts=class_counts, arguments=["noise_std=0", "format=json"])
    )
    assert (answer["layout"], answer["epsilon"], answer["paper_epsilon"]) == ("classes", "inf", 0.0)
    assert "infinite" in audit_of(votes_or_counts=class_counts, arguments=["noise_std=0"])
    with refused_parameter("num_teachers", value=None):
        audit_of(votes_or_counts=TEACHER_VOTES.sum(axis=0))
    assert "histogram: 50 teachers" in audit_of(
        votes_or_counts=TEACHER_VOTES.sum(axis=0), arguments=["num_teachers=50", "accountant=rdp"]
    )


@pytest.mark.slow
def test_mistakes_are_refused_in_one_line(audit_of: Callable[..., str], composed: Any) -> None:
    """`pate-audit` refuses impossible settings by their names, and missing votes."""
    for override, rule in (
        ("format=xml", "expected one of text, json"),
        ("target_delta=0.0", r"expected a number in \(0, 1\)"),
        ("adjacency=sideways", "expected one of replace_one, add_remove"),
        ("layout=table", "expected one of auto"),
        ("vote_clip=0", "expected a whole number >= 1"),
        ("aggregator=gnmax", "expected one that releases several labels"),
    ):
        with pytest.raises(InvalidValue, match=f"^{override}: {rule}"):
            audit_of(votes_or_counts=TEACHER_VOTES, arguments=[override])
    with refused_parameter("votes", value="???"):
        audit(config=composed(command="audit"))
