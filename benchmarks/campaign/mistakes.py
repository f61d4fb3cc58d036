"""Bad input: invalid settings, invalid vote files, and arguments that no constructor expects."""

from __future__ import annotations

import importlib
import inspect
import math
import os
import pickle
import random
import resource
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.campaign.runs import find_refusal_faults
from benchmarks.campaign.tally import LOW_PRICE, UNCLEAR, Finding
from benchmarks.campaign.warm import Child, Ended, command
from pate.config import CONFIG_FOLDER
from pate.settings import settings_of

_PATIENCE_S = 30.0
_MEMORY = 12 * 2**30
_KILLED = -9
_NO_PRICE = 3
_SMALL = (
    "data=digits_grid",
    "data.num_private=120",
    "data.num_public=30",
    "data.num_test=20",
    "num_queries=20",
)
_VALUES = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1",
    "2.5",
    "1e308",
    "-1e-300",
    "1e-320",
    "1e400",
    "2147483648",
    "9" * 30,
    "''",
    "null",
    "[]",
    "[1,2]",
    "[nan]",
    "{a: 1}",
    "true",
    "abc",
    "1_0",
    "0x10",
    "٣",
    "'",
    '"',
    "[",
    "{",
    "a b",
    "${oc.env:HOME}",
    "${missing}",
    "???",
    "x" * 3000,
    "/dev/null",
    "/proc/none",
    "a/../b",
    "é",
    "🙂",
    "\\",
    "=",
)
_TARGETS = (
    "os.system",
    "builtins.eval",
    "pate.run.train.train",
    "pate",
    "pate.none.None",
    "pate.files.atomic.write_text",
    "sklearn.utils.parallel.joblib.load",
    "pate.data.DigitsGrid",
    "torch.load",
    ".",
    "pate..",
    "pate.accounting.Ledger",
)
_GROUPS = ("data", "teacher", "engine", "aggregator", "accountant", "student")


class Mistakes:
    """Commands and calls with bad input; `pate-train` is stopped before it works if it accepts its input.

    Args:
        folder: for files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._here = folder / "here"
        self._here.mkdir()

    def attempt(self, rng: random.Random) -> list[Finding]:
        """Runs one command or call with bad input; returns the faults of its refusal."""
        kind = rng.choice(["train", "train", "account", "audit", "library"])
        if kind == "library":
            name, act = strange_call(rng)
            return self._faults(self._limited(act).wait(_PATIENCE_S), name)
        if kind == "audit":
            path = self._folder / f"votes.{rng.choice(['npy', 'npz', 'csv', 'txt', 'pkl', 'json'])}"
            arguments = [
                f"votes={strange_file(path, rng)}",
                *_overrides(kind="audit", rng=rng, share=0.3),
            ]
            file_name = f"{path.suffix} "
        else:
            arguments = [*(_SMALL if kind == "train" else ()), *_overrides(kind, rng, share=1.0)]
            file_name = ""
        child = command(
            kind, arguments=[a for a in arguments if "\0" not in a], prepare=self._prepare
        )
        return self._faults(
            child.wait(_PATIENCE_S), name=file_name + " ".join(arguments[-2:])[:200]
        )

    def _limited(self, act: Callable[[], Any]) -> Child:
        def limited() -> None:
            self._prepare()
            act()

        return Child(limited)

    def _prepare(self) -> None:
        """Moves the process to a folder of its own, limits its memory, and stops it where a run would begin to work."""
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
            return [Finding(LOW_PRICE, text=f"{name}: {ended.line[:300]}")]
        if ended.code == _KILLED:
            return [Finding(UNCLEAR, text=f"{name}: no end within {_PATIENCE_S:.0f} s")]
        no_memory = ended.code == 1 and ended.line.startswith("MemoryError")
        findings = find_refusal_faults(ended, codes=(1, 2) if no_memory else (2,))
        return [Finding(finding.sort, text=f"{name}: {finding.text}") for finding in findings]


def _overrides(kind: str, rng: random.Random, share: float) -> list[str]:
    """Returns one or two words of a command line with the probability `share`, else none."""
    if rng.random() > share:
        return []
    words = []
    for _ in range(rng.choice([1, 1, 2])):
        draw = rng.random()
        if draw < 0.7:
            words.append(f"{rng.choice(_keys(kind))}={rng.choice(_VALUES)}")
        elif draw < 0.8:
            words.append(
                f"{rng.choice(['', '+', '++', '~'])}{rng.choice(_GROUPS)}._target_={rng.choice(_TARGETS)}"
            )
        elif draw < 0.9:
            words.append(
                rng.choice(["", "+", "++", "~", "@"])
                + rng.choice(_keys(kind))
                + rng.choice(["", "=", "=1"])
            )
        else:
            words.append(
                f"{rng.choice([*_GROUPS, 'experiment'])}={rng.choice([*_choices(), 'none', '', '[linear]'])}"
            )
    return words


def _keys(kind: str) -> list[str]:
    """Returns the settings of a command but for `output_dir`, those of its groups' members, and a few that are none."""
    keys = ["", "num_querys", "aggregator.none", "hydra.none"]
    keys += [item.name for item in settings_of(kind) if item.name != "output_dir"]
    groups = {"train": _GROUPS, "account": ("aggregator", "accountant"), "audit": ("aggregator",)}[
        kind
    ]
    for group in groups:
        for path in sorted((CONFIG_FOLDER / group).glob("*.yaml")):
            loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            keys += [f"{group}.{key}" for key in loaded if key not in ("_target_", "defaults")]
    return keys


def _choices() -> list[str]:
    """Returns the names of all members of the configuration groups."""
    return sorted(
        {path.stem for group in _GROUPS for path in (CONFIG_FOLDER / group).glob("*.yaml")}
    )


_MODULES = (
    "pate.aggregators",
    "pate.mechanisms",
    "pate.accounting",
    "pate.accounting.target_charging",
)
_ARGUMENTS: tuple[Any, ...] = (
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    1,
    2,
    3.5,
    40.0,
    1e-9,
    1e-300,
    5e-324,
    1e13,
    1e308,
    -0.0,
    2**31,
    2**63,
    10**400,
    True,
    None,
    "",
    "abc",
    "gumbel",
    "gaussian",
    b"x",
    [],
    [1],
    (),
    (1.0, 2.0),
    {},
    {"a": 1},
    object(),
    print,
    1j,
    np.float64(2.0),
    np.int64(3),
    np.float32("nan"),
    np.array(2.0),
    np.zeros(3),
    np.ones((2, 2), bool),
)
_PLAUSIBLE: dict[str, Any] = {
    "accountant": None,
    "adjacency": "replace_one",
    "count": 3,
    "epsilon": 0.5,
    "event": None,
    "failure_prob": 1e-9,
    "hit_prob": 0.4,
    "k": 2,
    "max_k": 3,
    "noise_multiplier": 2.0,
    "noise_std": 3.0,
    "num_labels": 5,
    "num_queries": 4,
    "num_teachers": 7,
    "rho": 0.1,
    "selection_scale": 2.0,
    "target_delta": 1e-6,
    "target_hits": 3,
    "test_std": 2.0,
}
# an enum; files; searches that take time
_SKIPPED = ("Adjacency", "Ledger", "calibrate", "optimal_stability_table")
_STRANGE = 0.4


def public_calls() -> list[tuple[str, str]]:
    """Returns the public callables of `_MODULES` but for `_SKIPPED`, as pairs of a module and a name."""
    calls = []
    for path in _MODULES:
        module = importlib.import_module(path)
        names = getattr(module, "__all__", None)
        if names is None:  # a module of a package: what it defines itself
            preamble = (
                name
                for name, value in vars(module).items()
                if getattr(value, "__module__", "") == path
            )
            names = [name for name in preamble if not name.startswith("_")]
        calls += [
            (path, name)
            for name in names
            if callable(getattr(module, name)) and name not in _SKIPPED
        ]
    return calls


def strange_call(rng: random.Random) -> tuple[str, Callable[[], None]]:
    """Returns a call of a random public name; see `call_of`."""
    of_module: dict[str, list[str]] = {}
    for path, name in public_calls():
        of_module.setdefault(path, []).append(name)
    path = rng.choice(_MODULES)
    return call_of(path, name=rng.choice(of_module[path]), rng=rng)


def call_of(path: str, name: str, rng: random.Random) -> tuple[str, Callable[[], None]]:
    """Returns the text of a call of this name, and the call.

    The call exits with 2 and one line if it refuses its arguments, and with 3 if its price is no number >= 0.
    """
    class_ = getattr(importlib.import_module(path), name)
    try:
        parameters = list(inspect.signature(class_).parameters.values())
    except ValueError:
        parameters = []
    arguments = {
        p.name: _argument(p, rng)
        for p in parameters
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    arguments = {
        key: value for key, value in arguments.items() if value is not inspect.Parameter.empty
    }
    votes = strange_array(rng)
    teachers = rng.choice([7, 7, *_ARGUMENTS])

    def act() -> None:
        try:
            _use(class_(**arguments), votes, teachers)
        except (ValueError, TypeError, MemoryError) as error:
            lines = str(error).splitlines()
            if len(lines) > 1:
                raise RuntimeError(f"a message of {len(lines)} lines") from error
            sys.stderr.write(f"{error or type(error).__name__}\n")
            raise SystemExit(2) from None

    words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{path}.{name}({words})"[:300], act


def _argument(parameter: inspect.Parameter, rng: random.Random) -> Any:
    """Returns a strange value, a plausible value, or the marker `empty` for no argument."""
    if rng.random() < _STRANGE / 2:
        return rng.choice(_ARGUMENTS)
    if parameter.default is not inspect.Parameter.empty:
        return inspect.Parameter.empty
    if parameter.name in _PLAUSIBLE and rng.random() > _STRANGE / 2:
        return _PLAUSIBLE[parameter.name]
    return rng.choice(_ARGUMENTS)


def _use(made: Any, votes: Any, teachers: Any) -> None:
    """Prices an object that has a price; aggregators and mechanisms also read votes."""
    from pate.accounting import Event, RdpAccountant

    if hasattr(made, "aggregate"):
        event = made.aggregate(votes, num_teachers=teachers, rng=np.random.default_rng(0)).event
    elif isinstance(made, Event):
        event = made
    else:
        event = getattr(made, "event", None)
        if callable(made) and event is not None:
            made(votes, rng=np.random.default_rng(0))
    if isinstance(event, Event):
        epsilon = RdpAccountant().compose(event).get_epsilon(target_delta=1e-3)
        if not epsilon >= 0:
            sys.stderr.write(f"epsilon {epsilon} of {event}\n")
            raise SystemExit(_NO_PRICE)


def strange_array(rng: random.Random) -> Any:
    """Returns an array of a random kind, rank and content, or a list."""
    shape = tuple(rng.choice([0, 1, 2, 3, 7]) for _ in range(rng.randrange(5)))
    fill = np.random.default_rng(rng.randrange(2**32))
    kinds: list[Any] = [
        lambda: fill.random(shape) < 0.5,
        lambda: fill.integers(-2, 5, shape),
        lambda: fill.integers(0, 2, shape),
        lambda: fill.random(shape),
        lambda: fill.normal(size=shape) * rng.choice([1.0, 1e38, 1e308]),
        lambda: np.full(shape, rng.choice([np.nan, np.inf, -np.inf, 2.0**63])),
        lambda: np.full(shape, rng.choice(["a", "1", ""])),
        lambda: np.full(shape, 1 + 2j),
        lambda: np.full(shape, None, dtype=object),
        lambda: np.zeros(shape, dtype=[("a", int), ("b", float)]),
        lambda: np.full(shape, np.datetime64("2020-01-01")),
        lambda: fill.integers(0, 2, shape).astype(
            rng.choice(["uint8", "int8", "float16", ">i4", "uint64"])
        ),
        lambda: np.asfortranarray(np.zeros(shape)).T,
        lambda: [[1, 2], [3]],
    ]
    return rng.choice(kinds)()


def strange_file(path: Path, rng: random.Random) -> Path:
    """Writes a file that calls itself a vote file; returns its path, at which sometimes no file stands."""
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    kind = rng.choice(
        [
            "array",
            "arrays",
            "cut",
            "garbage",
            "text",
            "header",
            "pickle",
            "zip",
            "folder",
            "nothing",
            "empty",
        ]
    )
    if kind in ("array", "cut"):
        _save(path, _as_array(strange_array(rng)))
        if kind == "cut":
            path.write_bytes(path.read_bytes()[: rng.randrange(200)])
    elif kind == "arrays":
        names = ["votes", "labels", "arr_0", "x", "../x", "num_teachers", "header"]
        with path.open("wb") as file:
            np.savez(file, **{name: _as_array(strange_array(rng)) for name in rng.sample(names, 2)})
    elif kind == "garbage":
        path.write_bytes(rng.randbytes(rng.randrange(3000)))
    elif kind == "text":
        path.write_text(
            rng.choice(["a,b\n1,2\n", "1,0\n0\n", "\n\n", "nan,inf\n", "{}", "[[1,0],[1]]", "é\n"])
        )
    elif kind == "header":
        shape = rng.choice(["(99999999999, 99999999)", "(-1,)", "(3, 'a')", "()", "(2, 2"])
        text = f"{{'descr': '|b1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + text.encode() + b"\1\0\1\0")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"votes": [1, 2]}))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                rng.choice(["votes.npy", "a.txt", "../votes.npy"]),
                b"\0" * rng.choice([0, 10, 10**7]),
            )
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    return path


def _as_array(made: Any) -> Any:
    return np.asarray(made, dtype=object if isinstance(made, list) else None)


def _save(path: Path, array: Any) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=True)
