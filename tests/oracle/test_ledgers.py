"""Events in ledgers of earlier versions are read unchanged and keep their recorded price.

No event may ever be renamed, or these ledgers could not be read.
"""

import dataclasses
import json
import math
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pate import accounting
from pate.accounting.event_json import EVENT_KINDS, event_from_json, event_to_json
from tests.refusals import ANY, refused_parameter

LEDGERS_FOLDER = Path(__file__).parent / "ledgers"
TOTALS = json.loads((LEDGERS_FOLDER / "totals.json").read_text())
FIELDS_OF_KINDS: dict[str, list[str]] = json.loads((LEDGERS_FOLDER / "kinds.json").read_text())
LATER_KINDS = {
    "BoundarySessionEvent",
    "OpposedMaximaEvent",
    "ScoresEvent",
    "SelectThenTestEvent",
    "SessionEvent",
    "ThresholdEvent",
    "TuningEvent",
    "WinnerEvent",
}
"""The kinds of events that were added after these ledgers, which are never written again."""
# The ledger `sampled` has smaller totals than its version printed: later versions price a sample by its worst pair.
ACCOUNTANTS = {
    kind.name: kind
    for kind in (
        accounting.RdpAccountant,
        accounting.ExactAccountant,
        accounting.PldAccountant,
        accounting.PureDpAccountant,
    )
}


def charged_ledger(
    ledger_name: str,
    path: Path | None = None,
    accountant: type[accounting.Accountant] = accounting.RdpAccountant,
) -> accounting.Ledger:
    """Returns a ledger with all events of a stored file, and with the settings in the first line of that file."""
    header = json.loads((LEDGERS_FOLDER / f"{ledger_name}.jsonl").read_text().splitlines()[0])
    ledger = accounting.Ledger(
        path,
        accountant=accountant,
        adjacency=header["adjacency"],
        target_delta=header["target_delta"],
    )
    for charge in charges(ledger_name):
        event = event_from_json(charge["event"])
        ledger.charge(
            event, adjacency=ledger.adjacency, key=charge["key"], description=charge["description"]
        )
    return ledger


def charges(ledger_name: str) -> list[dict[str, Any]]:
    """Returns the stored charges of a ledger, without its first line of settings."""
    return [
        json.loads(line)
        for line in (LEDGERS_FOLDER / f"{ledger_name}.jsonl").read_text().splitlines()[1:]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("ledger_name", TOTALS)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_totals_of_stored_ledgers_stay_the_same(ledger_name: str, accountant: str) -> None:
    """The events of a stored ledger have the total epsilon that was recorded for an accountant.

    An accountant that was recorded to refuse the events still does.
    """
    recorded_epsilon = TOTALS[ledger_name][accountant]
    accountant_class = ACCOUNTANTS[accountant]
    if recorded_epsilon == "refused":
        with refused_parameter("event", value=ANY, rule_words="an event"):
            charged_ledger(ledger_name, accountant=accountant_class)
    # The recorded totals of these accountants are for the order of the charges. A ledger's total is for every order.
    elif accountant in ("pld", "exact"):
        accountant_of_charges = accountant_class()
        for event, equal_ones in groupby(
            event_from_json(charge["event"]) for charge in charges(ledger_name)
        ):
            accountant_of_charges.compose(event, count=len(list(equal_ones)))
        # The last digits of a Fourier transform depend on the processor, and the bound of a session on the version.
        tolerance = 1e-6 if accountant == "exact" else 1e-9
        epsilon = accountant_of_charges.get_epsilon(charged_ledger(ledger_name).target_delta)
        assert epsilon == pytest.approx(float(recorded_epsilon), rel=tolerance)
    else:
        epsilon = charged_ledger(ledger_name, accountant=accountant_class).epsilon
        assert epsilon == pytest.approx(float(recorded_epsilon), rel=1e-9)


@pytest.mark.parametrize("ledger_name", TOTALS)
def test_charges_of_stored_ledgers_are_read_back(ledger_name: str, tmp_path: Path) -> None:
    """Stored charges that are written to a new file and read back keep their events, keys and descriptions.

    If one of them is charged again, its entry is returned.
    """
    path = tmp_path / "ledger.db"
    charged_ledger(ledger_name, path=path)
    ledger = accounting.Ledger.stored(path)
    for entry, charge in zip(ledger.entries, charges(ledger_name), strict=True):
        assert event_to_json(entry.event) == charge["event"]
        assert (entry.key, entry.description) == (charge["key"], charge["description"])
        assert ledger.charge(entry.event, adjacency=ledger.adjacency, key=entry.key) == entry


def test_the_stored_ledgers_cover_every_kind_of_event() -> None:
    """The stored ledgers have each kind of event, apart from those added later.

    They also have infinite parameters and both adjacencies.
    """
    texts = {name: (LEDGERS_FOLDER / f"{name}.jsonl").read_text() for name in TOTALS}
    assert {path.stem for path in LEDGERS_FOLDER.glob("*.jsonl")} == set(TOTALS)
    for name in ("every_kind", "every_kind_add_remove"):
        all_text = texts[name] + texts["infinite"] + texts["sampled"]
        assert all(f'"kind": "{kind}"' in all_text for kind in FIELDS_OF_KINDS.keys() - LATER_KINDS)
    assert '"inf"' in texts["infinite"]
    assert '"-inf"' in texts["infinite"]
    assert {json.loads(text.splitlines()[0])["adjacency"] for text in texts.values()} == {
        "replace_one",
        "add_remove",
    }


def test_the_list_names_every_field_of_every_event() -> None:
    """kinds.json lists the fields of every event in their order, and an infinite parameter is read back.

    A commit that adds an event must add it there, because ledgers may hold it from then on.
    """
    fields_of_kinds = {
        name: [field.name for field in dataclasses.fields(kind)]
        for name, kind in EVENT_KINDS.items()
    }  # type: ignore[arg-type]
    assert fields_of_kinds == FIELDS_OF_KINDS
    assert event_from_json(charges(ledger_name="infinite")[1]["event"]).rho == math.inf  # type: ignore[attr-defined]
