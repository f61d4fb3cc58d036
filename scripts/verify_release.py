"""Recomputes the published numbers of a release folder without any code of pate, and says "holds" or what differs.

`python scripts/verify_release.py release/` needs Python and numpy. It checks that the files are those of
`manifest.json`, and that `privacy.json`, both cards, `config.yaml` and the released arrays agree. It recomputes the
price of released scores, epsilon, and the bounds on attacks from the stated noise. A Gaussian sum has an exact epsilon;
noisy bits and picks have one by Renyi orders (at most) and by two neighbors (at least).

The exit code is 0 if everything holds, 1 if something differs, 2 if the folder cannot be read, and 3 for "not
recomputed": nothing differs, but the script cannot prove the stated epsilon.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

_ROWS = "epsilon|delta|queries priced|queries answered|labels per query|teachers"
_NAMES = "epsilon|delta|num_queries|num_answered|num_labels|num_teachers|scores"
_ORDERS = 1 + np.geomspace(1e-3, 1e6, 2000)
_RATES = np.geomspace(1e-9, 0.5, 2000)  # of false alarms
_normal_cdf = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2, otypes=[float])
_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


@dataclass(frozen=True)
class _Noise:
    """The noise of `count` equal parts of a release: Gaussian sums with sensitivity / std = mu, or bits.

    `pairs` are the logarithms of p, 1 - p, q and 1 - q of a bit on two neighbors, `[4, num_pairs]`, p >= q.
    """

    count: int = 1
    mu: float = 0.0
    pairs: Any = None
    is_attained: bool = False  # whether two neighbors can differ in all bits by the same pair
    rdp: float = 0.0  # of the table of a test
    order: float | None = None  # the only Renyi order at which the table has it
    failure_prob: float = 0.0

    def proven_epsilon(self, delta: float) -> float:
        """Returns the epsilon that Renyi orders prove (Mironov 2017; Canonne, Kamath & Steinke 2020)."""
        orders = _ORDERS if self.order is None else np.array([self.order])
        rdp = orders * self.mu**2 / 2 + self.rdp
        if self.pairs is not None:
            p, not_p, q, not_q = self.pairs[:, :, None]
            up = np.logaddexp(p + (orders - 1) * (p - q), not_p + (orders - 1) * (not_p - not_q))
            down = np.logaddexp(q + (orders - 1) * (q - p), not_q + (orders - 1) * (not_q - not_p))
            rdp = rdp + np.maximum(up, down).max(axis=0) / (orders - 1)
        log_delta = math.log(max(delta - self.count * self.failure_prob, 1e-300))
        penalty = np.log1p(-1 / orders) - (log_delta + np.log(orders)) / (orders - 1)
        return max(float((self.count * rdp + penalty).min()), 0.0)

    def attained(self) -> np.ndarray:
        """Returns points of a curve that two neighbors attain: found members and false alarms, `[2, num_points]`."""
        if self.mu:
            mu = self.mu * math.sqrt(self.count)
            edges = np.linspace(12 + mu, -12, 100_001)
            return np.array([_normal_cdf(mu - edges), _normal_cdf(-edges)])
        if not self.is_attained:
            return np.ones((2, 1))
        logs = self.pairs[:, np.argmax(np.exp(self.pairs[0]) - np.exp(self.pairs[2]))]
        zeros = np.arange(self.count + 1)
        factorials = np.append(0.0, np.cumsum(np.log(zeros[1:])))
        choices = factorials[-1] - factorials - factorials[::-1]
        masses = np.exp(choices + logs[[0, 2], None] * zeros[::-1] + logs[[1, 3], None] * zeros)
        return np.cumsum(masses, axis=1)

    def least_epsilon(self, delta: float) -> float:
        """Returns the least epsilon that can be true, which is the exact one of a Gaussian sum."""
        found, alarms = np.maximum(self.attained(), 1e-300)
        return max(float(np.log(np.maximum(found - delta, 1e-300) / alarms).max()), 0.0)

    def least_found(self, alarms: Any) -> np.ndarray:
        """Returns the least bounds on found members that can be true, which are exact for a Gaussian sum."""
        curve = np.insert(self.attained(), 0, 0.0, axis=1)
        return np.asarray(np.interp(alarms, curve[1], curve[0])).clip(0, 1 - 1e-12)


def _threshold_bit(std: float, reach: int, threshold: float, most: int) -> np.ndarray:
    """Returns the pairs of the bit whether a count from 0 to `most` plus Gaussian noise is above a threshold."""
    low = max(threshold - 9 * std, 0)
    high = max(min(threshold + 9 * std, most) - reach, low)
    q = (np.unique(np.linspace(low, high, 1001).round()) - threshold) / std
    return np.log([_normal_cdf(sign * z) for z in (q + reach / std, q) for sign in (1, -1)])


def _pick(epsilon: float, *, is_ranged: bool) -> np.ndarray:
    """Returns the pairs of an epsilon-DP pick; those of the exponential mechanism have losses in a range."""
    up = epsilon * np.linspace(0, 1, 1001)[1:-1] if is_ranged else np.array([epsilon])
    down = epsilon - up if is_ranged else up
    p, not_q = (np.log(np.expm1(-loss) / np.expm1(-up - down)) for loss in (down, up))
    return np.stack([p, not_q - down, p - up, not_q])


def _noise_of(statement: dict[str, Any]) -> _Noise:
    """Returns the noise of a release by its mechanism and public parameters; without bounds if it is not known here."""
    given = statement["parameters"]
    queries, _, labels, teachers = (statement[name] for name in _NAMES.split("|")[2:6])
    moved = 2 if statement["adjacency"] == "replace_one" else 1
    is_known = statement["epsilon"] != "inf" and not statement.get("classes")
    match statement["mechanism"] if is_known else None:
        case "CenteredVotes":
            return _Noise(mu=1 / given["noise_multiplier"])
        case "GaussianVotes" | "ClippedVotes":
            count = queries * min(moved * given.get("vote_clip", labels), labels)
            if given.get("norm") == "l2":
                return _Noise(count=count, mu=1 / given["noise_std"])
            reach, threshold = given.get("teachers_reached", 1), given.get("threshold_share", 0.5)
            bit = _threshold_bit(given["noise_std"], reach, threshold * teachers, most=teachers)
            return _Noise(count=count, pairs=bit, is_attained=True)
        case "FixedTopK":
            picks = given["k"] if given["mechanism"] in ("peeling", "permute_and_flip") else 1
            is_ranged = given["mechanism"] in ("peeling", "joint", "canonical")
            pick = _pick(given["epsilon"] / picks, is_ranged=is_ranged)
            return _Noise(count=queries * picks if given["k"] < labels else 0, pairs=pick)
        case "StableTopK" if "table_order" in given and given["selection_noise"] == "gumbel":
            pick = _pick(2 * moved / given["selection_scale"], is_ranged=True)
            table = _Noise(count=queries, rdp=given["table_budget"], order=given["table_order"])
            return replace(table, pairs=pick, failure_prob=given["failure_prob"])
    return _Noise(rdp=math.inf)


def _price(statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each number that the noise does not give, and for an epsilon that cannot be recomputed."""
    if "tuning" in statement:
        yield from _tuned_price(statement)
        return
    noise = _noise_of(statement)
    epsilon, delta = float(statement["epsilon"]), float(statement["delta"])
    for draws in range(1, 17):  # a lost release may be drawn again
        drawn = replace(noise, count=noise.count * draws)
        least, proven = drawn.least_epsilon(delta), drawn.proven_epsilon(delta)
        if epsilon <= proven * 1.001 + 0.01:
            break
    if not _is_between(epsilon, least, proven * 1.001):
        yield f"privacy.json: epsilon is {epsilon:g}, and the noise gives {least:.4f} to {proven:.4f}"
        return
    if draws > 1 or (not noise.mu and epsilon < proven * (1 - 1e-5)):
        bounds = f": {least:.4f} to {proven:.4f}, drawn {draws} times" if proven < math.inf else ""
        yield f"not recomputed: the epsilon {epsilon:g} of {statement['mechanism']}{bounds}"
    growth = math.exp(min(epsilon, 700.0))
    found = drawn.least_found(_RATES)
    mu = (_quantile(np.maximum(found, _RATES)) - _quantile(_RATES)).max()
    least_by_name = {"gdp_mu": mu, "advantage": (found - _RATES).max()}
    for name, stated in (statement.get("attacks") or {}).items():
        for rate, share in stated.items() if isinstance(stated, dict) else [("", float(stated))]:
            alpha = float(rate or 1)
            least = float(least_by_name.get(name, drawn.least_found(alpha)))
            most = min(growth * alpha + delta, 1 - (1 - delta - alpha) / growth)
            high = least if noise.mu else most if rate else math.inf
            if not _is_between(share, least, 1.011 * high):
                yield f"privacy.json: attacks.{name}.{rate} is {share:g}, and the noise gives {least:.4g}"


def _tuned_price(statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for an epsilon that is not that of the best of a secret number of Gaussian releases."""
    tuning = statement["tuning"]
    eta, gamma = float(tuning["eta"]), float(tuning["gamma"])
    epsilon, delta = float(statement["epsilon"]), float(statement["delta"])
    noise = _noise_of(statement)
    if not noise.mu or noise.count > 1:
        yield f"not recomputed: the epsilon {epsilon:g} of a tuned {statement['mechanism']}"
        return
    one_run = noise.least_epsilon(delta)
    if not _is_between(float(tuning["run_epsilon"]), one_run * 0.999, one_run * 1.001):
        yield f"privacy.json: tuning.run_epsilon is {tuning['run_epsilon']}, and the noise gives {one_run:.4f}"
    log_gamma = math.log(gamma)
    mean = math.expm1(-log_gamma) / -log_gamma
    if eta:
        mean = eta * math.expm1(-log_gamma) / -math.expm1(eta * log_gamma)
    # the selection multiplies likelihood ratios by at most e^r, where delta(r) = (e^r - 1) gamma / (1 - gamma)
    low, high = 0.0, -log_gamma
    for _ in range(60):
        r = (low + high) / 2
        far = math.exp(r) * float(_normal_cdf(-r / noise.mu - noise.mu / 2))
        is_less = float(_normal_cdf(-r / noise.mu + noise.mu / 2)) - far <= math.expm1(
            r
        ) * gamma / (1 - gamma)
        low, high = (low, r) if is_less else (r, high)
    ratio = (1 + eta) * high
    rdp = _ORDERS * noise.mu**2 / 2 + ratio + math.log(mean) / (_ORDERS - 1)
    penalty = np.log1p(-1 / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1)
    # at least one run is in an event with the probability delta, if one run is with the probability `share`
    log_factor = -delta * log_gamma
    if eta:
        log_factor = -math.log1p(delta * math.expm1(eta * log_gamma)) / eta
    share = math.expm1(log_factor) / math.expm1(-log_gamma)
    by_profile = ratio + noise.least_epsilon(share)
    exact = min(by_profile, float((rdp + penalty).min()))
    if not _is_between(epsilon, exact * 0.999, exact * 1.001):
        yield f"privacy.json: epsilon is {epsilon:g}, and noise and tuning give {exact:.4f}"


def _is_between(stated: float, low: float, high: float) -> bool:
    """Returns True if a stated number lies between two others, or is the higher one rounded up."""
    return low * (1 - 1e-6) <= stated <= high + (0.01 if high >= 1 else 0.0001)


def _scores(folder: Path, scores: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each released score that does not hold, and for a price that is not that of the noise."""
    exact = _Noise(mu=1 / scores["noise_multiplier"]).least_epsilon(scores["delta"])
    if not _is_between(scores["epsilon"], exact, exact * 1.001):
        yield f"privacy.json: scores.epsilon is {scores['epsilon']}, and the noise gives {exact:.4f}"
    named = {k: score for k, score in scores.items() if isinstance(score, dict) and "low" in score}
    for column, of_values in scores["subgroups"].items():
        named |= {f"subgroups.{column}.{value}": score for value, score in of_values.items()}
    for name, score in named.items():
        low, value, high = score["low"], score["value"], score["high"]
        if not 0 <= low <= value <= high <= 1:
            yield f"privacy.json: scores.{name} is {value}, outside of its interval"
        ends = f"{math.floor(low * 1000) / 1000:.3f} to {math.ceil(high * 1000) / 1000:.3f}"
        for card in folder.glob("*.md"):
            if f"| {value:.3f} ({ends}) |" not in card.read_text(encoding="utf-8"):
                yield f"{card.name}: does not state scores.{name}, {value:.3f} ({ends})"


def _stated_twice(folder: Path, statement: dict[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Yields the name, the text and the expected value of what the files of a release state together."""
    digests = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    for name in sorted(digests.keys() | found.keys() - {"manifest.json"}):
        yield f"{name}: SHA-256", found.get(name, "missing"), digests.get(name, "missing")
    text = (folder / "privacy_card.md").read_text(encoding="utf-8")
    card = dict(re.findall(r"^\| (.+?) \| (.*) \|$", text, flags=re.MULTILINE))
    numbers = statement | {"scores": statement.get("scores", {}).get("epsilon")}
    rows = [*_ROWS.split("|"), "epsilon of the scores"]
    for row, name in zip(rows, _NAMES.split("|"), strict=True):
        yield f"privacy_card.md: {name}", card.get(row), numbers[name]
    for rate, share in (statement.get("attacks") or {"found": {}})["found"].items():
        row = f"members that attacks find with {100 * float(rate):g}% false alarms, at most"
        text = card.get(row, "nan%")
        if not _is_between(float(text.rstrip("%")), 100 * share, 100 * share + 0.1):
            yield f"privacy_card.md: {row}", text, f"{100 * share:.4g}%"
    text = (folder / "config.yaml").read_text(encoding="utf-8").split("\naccountant:")[0]
    settings = dict(re.findall(r"^(?:  )?(\w+): (.+)$", text, flags=re.MULTILINE))
    for name, value in statement["parameters"].items():
        yield f"privacy_card.md: {name}", card.get(f"mechanism.{name}"), value
    public = {"target_delta": statement["delta"], "num_queries": statement["num_queries"]}
    for name, value in (public | statement["parameters"]).items():
        yield f"config.yaml: {name}", settings.get(name, value), value
    for readme in folder.glob("README.md") if statement["epsilon"] != "inf" else ():
        terms = re.search(r"epsilon <= ([\d.]+) at delta = ([\d.e-]+)", readme.read_text("utf-8"))
        yield "README.md: epsilon", terms and terms[1], statement["epsilon"]
        yield "README.md: delta", terms and terms[2], statement["delta"]
    with np.load(folder / "release.npz", allow_pickle=False) as arrays:
        num_records, num_labels = arrays["labels"].shape
        yield "release.npz: num_labels", num_labels, statement["num_labels"]
        yield "release.npz: num_answered", arrays["answered"].sum(), statement["num_answered"]
        yield "release.npz: num_queries is enough", num_records <= statement["num_queries"], True


def _is_same(text: Any, value: Any) -> bool:
    """Returns True if a text of a card stands for a value of `privacy.json`."""
    text = str(text).replace("\\", "").replace("infinite: no guarantee", "inf")
    try:
        return math.isclose(float(text), float(value), rel_tol=1e-12)
    except (TypeError, ValueError):
        return bool(text.lower() == str(value).lower())


def main(arguments: list[str]) -> int:
    """Prints "holds", "not recomputed" or what differs, and returns the exit code."""
    folder = Path(arguments[0] if arguments else "release")
    try:
        statement = json.loads((folder / "privacy.json").read_text(encoding="utf-8"))
        lines = list(_price(statement))
        for name, text, value in _stated_twice(folder, statement):
            if not _is_same(text, value):
                lines.append(f"{name} is {text}, and not {value}")
        if "scores" in statement:
            lines += _scores(folder, statement["scores"])
    except (OSError, KeyError, ValueError, TypeError, ArithmeticError) as error:
        sys.stderr.write(f"{folder}: cannot be verified: {type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write("\n".join(lines or ["holds"]) + "\n")
    is_open = all(line.startswith("not recomputed") for line in lines)
    return (3 if lines else 0) if is_open else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
