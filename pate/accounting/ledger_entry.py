"""The entries of a ledger: the charges, as the lines of the ledger's file store them."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pate.accounting.event_json import event_from_json, event_to_json
from pate.accounting.events import Event
from pate.accounting.store import LedgerLine, LineText, damaged_ledger
from pate.accounting.unit import PrivacyUnit
from pate.files.strict_json import plain, read_number, to_json_line

# The largest number of characters of a command that is stored.
_LONGEST_COMMAND = 1000


@dataclass(frozen=True)
class LedgerEntry:
    """One charge of a ledger: the price of a release, with the time, user, machine and command of the charge.

    Attributes:
        key: the name of the release within its account. A second charge with this key costs nothing, and returns the
            same bytes.
        event: the price.
        description: a note for people.
        epsilon: the total of all charges on the same data up to and including this charge.
        data: the digest of the private data; empty where the ledger counts for one data set.
        draw: the number of the draw within its run, from 1 on; `redraw` makes a run draw again.
        seed_name: the name of the seed of the noise; empty for noise that nothing can repeat.
        time: the time of the charge in UTC, in the form of ISO 8601.
        user: the login name, or the number of a user without a name.
        host: the name of the machine.
        command: the command line, quoted for a shell and cut after 1,000 characters.
        unit: the unit of privacy of the price; None where the charge names none, as in earlier versions.
    """

    key: str
    event: Event
    description: str
    epsilon: float
    data: str = ""
    draw: int = 1
    seed_name: str = ""
    time: str = ""
    user: str = ""
    host: str = ""
    command: str = ""
    unit: PrivacyUnit | None = None

    @classmethod
    def from_line(cls, ledger_line: LedgerLine, ledger_path: Path | None) -> LedgerEntry:
        """Returns the charge on a line of the ledger's file.

        Args:
            ledger_line: the line.
            ledger_path: the ledger's file, for the error message; None for a ledger in memory.

        Raises:
            DamagedLedger: the line does not hold a charge.
        """
        try:
            charge_details = json.loads(ledger_line.charge_details_json)
            return cls(
                key=ledger_line.key,
                event=event_from_json(json.loads(ledger_line.event_json)),
                description=str(charge_details["description"]),
                epsilon=read_number(charge_details["epsilon"]),
                data=ledger_line.data_digest,
                draw=int(charge_details["draw"]),
                seed_name=str(charge_details["noise"]),
                time=str(charge_details["time"]),
                user=str(charge_details["user"]),
                host=str(charge_details["host"]),
                command=str(charge_details["command"]),
                unit=PrivacyUnit.from_json(charge_details["unit"])
                if "unit" in charge_details
                else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise damaged_ledger(
                ledger_path, rule=f"a charge on line {ledger_line.number}"
            ) from error

    def to_line_text(self) -> LineText:
        """Returns the text of the line that stores this charge, which `from_line` reads.

        The text lacks the key and the data set, which the line has in columns of their own.
        """
        total_epsilon = plain(self.epsilon)
        draw_number = self.draw
        charge_details = {
            "description": self.description,
            "epsilon": total_epsilon,
            "draw": draw_number,
            "noise": self.seed_name,
        }
        if self.unit is not None:
            charge_details["unit"] = self.unit.to_json()
        charge_details |= {
            "time": self.time,
            "user": self.user,
            "host": self.host,
            "command": self.command,
        }
        return LineText(
            event_json=to_json_line(event_to_json(self.event)), charge_details=charge_details
        )


@dataclass(frozen=True, kw_only=True)
class ChargeNote:
    """The information that is stored with a charge in addition to its price."""

    description: str = ""  # for people
    run_key: str = ""  # the beginning of all keys of one run, whose draws are numbered
    # the name of the seed of the noise; empty for noise that nothing can repeat
    seed_name: str = ""
    # In a ledger without a cap, True charges the release although another release drew from the seed. No epsilon covers
    # both releases then.
    may_share_noise: bool = False


@dataclass(frozen=True, kw_only=True)
class AccountStatement:
    """The total of one account at the moment when its file was read, with the figures that explain the total.

    Attributes:
        num_charges: the number of charges.
        epsilon: `Ledger.epsilon`, the total of all charges.
        spent_epsilon: `Ledger.spent_epsilon`, the smaller of that total and of the cap that the file stores.
        unit: `Ledger.unit`, the unit of privacy of all prices.
        num_without_unit: `Ledger.num_without_unit`, the number of charges that name no unit.
        noise_is_shared: `Ledger.noise_is_shared`, whether two releases have the same noise.
    """

    num_charges: int
    epsilon: float
    spent_epsilon: float
    unit: PrivacyUnit | None
    num_without_unit: int
    noise_is_shared: bool


def seed_name_of_line(ledger_line: LedgerLine, ledger_path: Path | None) -> str:
    """Returns the name of the seed that the noise of a charged release was drawn from.

    Returns an empty string where the noise had no seed, so that nobody can draw the same noise again.

    Args:
        ledger_line: the line of the charge.
        ledger_path: the ledger's file, for the error message; None for a ledger in memory.

    Raises:
        DamagedLedger: the line does not hold a charge.
    """
    try:
        return str(json.loads(ledger_line.charge_details_json)["noise"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged_ledger(ledger_path, rule=f"a charge on line {ledger_line.number}") from error


@dataclass(frozen=True, kw_only=True)
class ChargingProcess:
    """The process that writes a charge."""

    user: str  # the login name, or the number of a user without a name
    host: str  # the name of the machine
    command: str  # the command line, quoted for a shell and cut after 1,000 characters


@lru_cache(maxsize=4)
def charging_process(process_id: int) -> ChargingProcess:
    """Returns the user, the host and the command line of this process.

    Args:
        process_id: the id of this process. The id is the key of the cache, so that a forked process does not get the
            cached values of its parent.
    """
    try:
        import pwd  # a module of POSIX systems

        user = pwd.getpwuid(os.getuid()).pw_name
    except ImportError:
        user = os.environ.get("USERNAME", "")
    except (KeyError, OSError):
        user = str(os.getuid())
    command = shlex.join(map(str, getattr(sys, "argv", [])))[:_LONGEST_COMMAND]
    return ChargingProcess(user=user, host=platform.node(), command=command)
