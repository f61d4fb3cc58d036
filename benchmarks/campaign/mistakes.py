"""Bad input: settings that are none, vote files that are none, and arguments that no constructor expects."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.campaign.runs import refusal_faults
from benchmarks.campaign.strange_calls import strange_call
from benchmarks.campaign.strange_votes import strange_file
from benchmarks.campaign.tally import LOW_PRICE, UNCLEAR, Finding
from benchmarks.campaign.warm import Child, Ended, command
from pate.config import CONFIG_FOLDER

_PATIENCE_S = 30.0
_MEMORY = 12 * 2**30
_KILLED = -9
_NO_PRICE = 3
_SMALL = ("data=digits_grid", "data.num_private=120", "data.num_public=30", "data.num_test=20", "num_queries=20")
_VALUES = (
    *("nan", "inf", "-inf", "-1", "0", "1", "2.5", "1e308", "-1e-300", "1e-320", "1e400", "2147483648", "9" * 30),
    *("''", "null", "[]", "[1,2]", "[nan]", "{a: 1}", "true", "abc", "1_0", "0x10", "٣", "'", '"', "[", "{", "a b"),
    *("${oc.env:HOME}", "${missing}", "???", "x" * 3000, "/dev/null", "/proc/none", "a/../b", "é", "🙂", "\\", "="),
)
_TARGETS = (
    *("os.system", "builtins.eval", "pate.pipeline.train", "pate", "pate.none.None", "pate.files.atomic.write_text"),
    *(
        "sklearn.utils.parallel.joblib.load",
        "pate.data.DigitsGrid",
        "torch.load",
        ".",
        "pate..",
        "pate.accounting.Ledger",
    ),
)
_GROUPS = ("data", "teacher", "engine", "aggregator", "accountant", "student")


class Mistakes:
    """Commands and calls with input that is none; what is accepted is stopped before it works.

    Args:
        folder: for files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._here = folder, folder / "here"
        self._here.mkdir()

    def attempt(self, rng: random.Random) -> list[Finding]:
        """One command or call."""
        kind = rng.choice(["train", "train", "account", "audit", "library"])
        if kind == "library":
            name, act = strange_call(rng)
            return self._faults(self._limited(act).wait(_PATIENCE_S), name)
        if kind == "audit":
            path = self._folder / f"votes.{rng.choice(['npy', 'npz', 'csv', 'txt', 'pkl', 'json'])}"
            arguments, named = [f"votes={strange_file(path, rng)}", *_overrides("audit", rng, 0.3)], f"{path.suffix} "
        else:
            arguments = [*(_SMALL if kind == "train" else ()), *_overrides(kind, rng, 1.0)]
            named = ""
        child = command(kind, [a for a in arguments if "\0" not in a], self._prepare)
        return self._faults(child.wait(_PATIENCE_S), named + " ".join(arguments[-2:])[:200])

    def _limited(self, act: Callable[[], Any]) -> Child:
        def limited() -> None:
            self._prepare()
            act()

        return Child(limited)

    def _prepare(self) -> None:
        """Works in a folder of its own, within a memory, and stops where a run would begin to work."""
        os.chdir(self._here)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        from pate.run.folder import RunFolder

        def stop(*_: Any, **__: Any) -> None:
            raise SystemExit(0)

        folder_class: Any = RunFolder
        folder_class.claim = stop

    def _faults(self, ended: Ended, name: str) -> list[Finding]:
        if ended.code == 0:
            return []
        if ended.code == _NO_PRICE:
            return [Finding(LOW_PRICE, f"{name}: {ended.line[:300]}")]
        if ended.code == _KILLED:
            return [Finding(UNCLEAR, f"{name}: no end within {_PATIENCE_S:.0f} s")]
        no_memory = ended.code == 1 and ended.line.startswith("MemoryError")
        found = refusal_faults(ended, codes=(1, 2) if no_memory else (2,))
        return [Finding(finding.sort, f"{name}: {finding.text}") for finding in found]


def _overrides(kind: str, rng: random.Random, share: float) -> list[str]:
    """One or two words of a command line."""
    if rng.random() > share:
        return []
    words = []
    for _ in range(rng.choice([1, 1, 2])):
        how = rng.random()
        if how < 0.7:
            words.append(f"{rng.choice(_keys(kind))}={rng.choice(_VALUES)}")
        elif how < 0.8:
            words.append(f"{rng.choice(['', '+', '++', '~'])}{rng.choice(_GROUPS)}._target_={rng.choice(_TARGETS)}")
        elif how < 0.9:
            words.append(rng.choice(["", "+", "++", "~", "@"]) + rng.choice(_keys(kind)) + rng.choice(["", "=", "=1"]))
        else:
            words.append(f"{rng.choice([*_GROUPS, 'experiment'])}={rng.choice([*_choices(), 'none', '', '[linear]'])}")
    return words


def _keys(kind: str) -> list[str]:
    """Settings of a command, those of its groups' members included, and a few that do not exist."""
    names = [kind, "shared"] if kind != "audit" else [kind]
    keys = ["", "num_querys", "aggregator.none", "hydra.none"]
    for path in [CONFIG_FOLDER / f"{name}.yaml" for name in names]:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        keys += [key for key in loaded if key not in ("defaults", "hydra", "output_dir")]
    groups = {"train": _GROUPS, "account": ("aggregator", "accountant"), "audit": ("aggregator",)}[kind]
    for group in groups:
        for path in sorted((CONFIG_FOLDER / group).glob("*.yaml")):
            loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            keys += [f"{group}.{key}" for key in loaded if key not in ("_target_", "defaults")]
    return keys


def _choices() -> list[str]:
    return sorted({path.stem for group in _GROUPS for path in (CONFIG_FOLDER / group).glob("*.yaml")})
