"""Membership inference attacks: they guess by the student's losses whether a record was among the private records."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray

_RATES = (0.001, 0.01)  # of false positives, for which the text states what an attack finds
_FALSE_COUNTS = 24  # of the curve


@dataclass(frozen=True)
class Membership:
    """The success of two attacks that guess which records were private. No epsilon covers these numbers.

    The first attack guesses that the records with the least loss are private. The second attack compares the loss with
    the losses of reference models that have never used a private record. It is the offline LiRA of Carlini et al.
    (2022), "Membership inference attacks from first principles". The interval from `low` to `high` is the success by
    chance, if private and test records do not differ.
    """

    # `[P]`, false positive rates in (0, 1), rising, 0.1% and 1% among them, in whole records
    fpr: tuple[float, ...]
    # `[P]`, the share of private records found at each rate; equal losses count in proportion
    tpr: tuple[float, ...]
    low: tuple[float, ...]  # `[P]`, the lower end of the 95% interval of `tpr` by chance
    high: tuple[float, ...]  # `[P]`, the upper end of that interval
    num_private: int  # private records that were tried, n
    num_test: int  # test records that were tried, m
    # `[P]`, the share that LiRA finds; empty if no reference models were trained
    tpr_by_reference: tuple[float, ...] = ()

    @classmethod
    def from_losses(
        cls,
        private_losses: FloatArray,
        test_losses: FloatArray,
        *,
        private_deviations: FloatArray | None = None,
        test_deviations: FloatArray | None = None,
    ) -> Self | None:
        """Returns the success of both attacks; None without a private record, or with fewer than two test records.

        Args:
            private_losses: the student's losses on private records, `[num_private]`.
            test_losses: the student's losses on independent test records, `[num_test]`.
            private_deviations: the result of `unusual` for the private records, `[num_private]`; None without reference
                models.
            test_deviations: the result of `unusual` for the test records, `[num_test]`; None without reference models.
        """
        n = len(private_losses)
        m = len(test_losses)
        if not n or m < 2:
            return None
        wanted_counts = np.append(np.geomspace(1, m - 1, _FALSE_COUNTS), np.multiply(_RATES, m))
        counts = np.unique(np.clip(wanted_counts + 1e-9, 1, m - 1).astype(np.int64))
        low, high = _chance_interval(counts, n, m)
        tpr_by_reference: tuple[float, ...] = ()
        if private_deviations is not None and test_deviations is not None:
            tpr_by_reference = _true_positive_rates(
                private_losses=private_deviations,
                test_losses=test_deviations,
                num_false_positives=counts,
            )
        return cls(
            fpr=tuple((counts / m).tolist()),
            tpr=_true_positive_rates(private_losses, test_losses, num_false_positives=counts),
            low=tuple(low.tolist()),
            high=tuple(high.tolist()),
            num_private=n,
            num_test=m,
            tpr_by_reference=tpr_by_reference,
        )

    @property
    def text(self) -> str:
        """A sentence on how well an attacker can recognize a training record."""
        places = {int(np.abs(np.array(self.fpr) - rate).argmin()) for rate in _RATES}
        lines = [self._line_at(rate_index=place) for place in sorted(places)]
        return f"What an attacker sees of a training record: {'; '.join(lines)}."

    def _line_at(self, rate_index: int) -> str:
        """Returns a phrase on the share of private records found at the false positive rate with index `rate_index`."""
        shares = [f"{_percent(self.tpr[rate_index])} of them"]
        most = self.tpr[rate_index]
        if self.tpr_by_reference:
            shares.append(f"{_percent(self.tpr_by_reference[rate_index])} by reference models")
            most = max(most, self.tpr_by_reference[rate_index])
        high = self.high[rate_index]
        chance = "beyond" if most > high else "nothing beyond"
        fpr = _percent(self.fpr[rate_index])
        return (
            f"at a false positive rate of {fpr} it finds {' or '.join(shares)}, "
            f"{chance} chance (up to {_percent(high)})"
        )


def _percent(rate: float) -> str:
    """Returns a rate as a percentage with two significant digits."""
    return f"{float(f'{100 * rate:.2g}'):g}%"


def _true_positive_rates(
    private_losses: FloatArray, test_losses: FloatArray, num_false_positives: IntArray
) -> tuple[float, ...]:
    """Returns the shares of private records that an attack finds at given numbers of false positives, `[num_counts]`.

    If private and test records have equal losses, they are counted in proportion.

    Args:
        private_losses: the losses of private records, `[num_private]`.
        test_losses: the losses of test records, `[num_test]`.
        num_false_positives: the numbers of test records with the least loss, which are false positives, `[num_counts]`.
    """
    levels = np.unique(np.append(private_losses, test_losses))
    num_private = np.append(0, np.searchsorted(np.sort(private_losses), levels, side="right"))
    num_test = np.append(0, np.searchsorted(np.sort(test_losses), levels, side="right"))
    # the last level with no more than so many false positives, and the share of the next level
    last = np.searchsorted(num_test, num_false_positives, side="right") - 1
    share = (num_false_positives - num_test[last]) / (num_test[last + 1] - num_test[last])
    hits = num_private[last] + share * (num_private[last + 1] - num_private[last])
    return tuple((hits / len(private_losses)).tolist())


def label_losses(
    probabilities: NDArray[np.floating], true_labels: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """Returns the binary cross-entropy of each sample, summed over its known labels, `[num_samples]`.

    Args:
        probabilities: the predicted probabilities, `[num_samples, num_labels]`.
        true_labels: the true labels, bool `[num_samples, num_labels]`.
        known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
    """
    confidence = np.where(true_labels, probabilities, 1 - probabilities.astype(np.float64))
    logs = np.log(np.maximum(confidence, 1e-12))
    losses: FloatArray = -(logs if known is None else logs * known).sum(axis=1)
    return losses


def log_odds(
    probabilities: NDArray[np.floating], true_labels: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """Returns the log-odds of the true value of each known label, summed over labels, `[num_samples]`.

    Args:
        probabilities: the predicted probabilities, `[num_samples, num_labels]`.
        true_labels: the true labels, bool `[num_samples, num_labels]`.
        known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
    """
    return label_losses(probabilities, true_labels=~true_labels, known=known) - label_losses(
        probabilities, true_labels, known
    )


def unusual(sample_log_odds: FloatArray, reference_log_odds: FloatArray) -> FloatArray:
    """Returns by how many standard deviations log-odds are below those of reference models, `[num_samples]`.

    The log-odds of reference models are modeled as a Gaussian for each record, with their mean. Its variance is the
    mean of two numbers: the record's own variance, and the mean variance over all records. Few models do not determine
    the variance of one record.

    Args:
        sample_log_odds: the log-odds of the student, `[num_samples]`.
        reference_log_odds: the log-odds of models that have never used a private record, `[num_models, num_samples]`.
    """
    variance = reference_log_odds.var(axis=0)
    spread = np.sqrt((variance + variance.mean()) / 2)
    return np.asarray(
        (reference_log_odds.mean(axis=0) - sample_log_odds) / np.where(spread > 0, spread, 1)
    )


def _chance_interval(counts: IntArray, n: int, m: int) -> tuple[FloatArray, FloatArray]:
    """Returns the 95% interval of the true positive rate by chance, at each number of false positives.

    Let private and test losses have one distribution. Sort all records by loss. The number of private records before
    the (k + 1)-th of m test records is then binomial, with a rate that is Beta(k + 1, m - k). The probabilities of this
    beta-binomial distribution are computed from the ratios of neighboring ones.

    Args:
        counts: the numbers k of false positives.
        n: the number of private records.
        m: the number of test records.
    """
    places = np.arange(n)
    k = counts[:, None]
    steps = np.log((n - places) * (places + k + 1.0) / ((places + 1.0) * (m - k + n - 1 - places)))
    weights = np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)  # [P, n + 1], logarithms
    cumulative = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative < 0.025).sum(axis=1) / n, (cumulative < 0.975).sum(axis=1) / n
