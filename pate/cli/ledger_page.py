"""What a ledger holds, for people and for programs: who was charged for what and when, and the price."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.text import Text

from pate.files.values import plain, to_json_line
from pate.pricing.account_left import charges_of, ledgers_in
from pate.report import format_delta, format_epsilon
from pate.report.console import PlainConsole

_SHOWN = 12  # digits of an account's digest


def print_ledger(path: str | Path, form: str) -> None:
    """Prints all charges.

    Args:
        path: of the ledger.
        form: "text" for tables; "json" for one object on a line; "jsonl" for a line for each charge.

    Raises:
        InvalidValue: no ledger, or one that was damaged.
    """
    ledgers = ledgers_in(path)
    accounts = [charges_of(ledger) for ledger in ledgers]
    if form == "json":
        _print(to_json_line(plain({"accounts": accounts})))
    elif form == "jsonl":
        for account in accounts:
            for charge in account["charges"]:
                _print(to_json_line(plain({"data": account["data"], "delta": account["delta"], **charge})))
    else:
        console = PlainConsole()
        for ledger, account in zip(ledgers, accounts, strict=True):
            console.print(_heading(account, str(ledger.adjacency)), soft_wrap=True)
            for charge in account["charges"]:
                console.print(_lines(charge), soft_wrap=True)


def _heading(account: dict[str, Any], adjacency: str) -> Text:
    count, cap = len(account["charges"]), account["cap"]
    whose = f"records {account['data'][:_SHOWN]}" if account["data"] else "all records"
    spent = f"epsilon {format_epsilon(account['spent_epsilon'])} at delta {format_delta(account['delta'])}, {adjacency}"
    limit = "no cap" if cap is None else f"cap {cap:g}"
    return Text.assemble((whose, "bold"), f": {count} charge{'' if count == 1 else 's'}, {spent}; {limit}")


def _lines(charge: dict[str, Any]) -> Text:
    """Two lines for a charge, the second with the command that made it."""
    when, draw = charge["time"][:19].replace("T", " "), f", draw {charge['draw']}" if charge["draw"] > 1 else ""
    price = f"epsilon {format_epsilon(charge['epsilon'])}"
    return Text(f"  {when} UTC, {charge['user']}: {price}{draw}, {charge['mechanism']}\n      {charge['command']}")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
