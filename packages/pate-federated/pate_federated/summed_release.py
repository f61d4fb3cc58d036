"""Releases of one secure sum of the counts of all holders' teachers, for any transport of the messages.

In a secure sum the server never reads the votes of a single holder. With distributed noise the server also reads no sum
without noise. Server and holders agree on the terms of a sum (`SumTerms`). Large numbers are split into digits that fit
these terms (`Limbs`). The class `HolderSum` runs at the holder. The class `SummedRelease` runs at the server, as does
`RoundsOfHolders` for sums in rounds.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pate.files.paths import make_folder
from pate.progress import Monitor
from pate.run.cohort import Cohort
from pate.run.places import Places
from pate.run.votes_release import ReleasePlan, Terms, release_votes
from pate.validation import require
from pate.votes.arrays import CountedVotes
from pate.votes.source import VoteSource
from pate_federated.distributed_votes import DistributedVotes
from pate_federated.holder_sum import HolderSum
from pate_federated.noisy_sum import NoisySum, Total
from pate_federated.question import Request, Roll
from pate_federated.sum_file import Summed, read_or_make_sum
from pate_federated.sum_terms import SumTerms

# The terms and the holder's part of a sum can be imported from here, too.
__all__ = ["HolderSum", "SumTerms", "SummedRelease"]

# The advice for a damaged file of a sum.
_REMEDY = "restore it from a backup; without noise, remove it and holders are asked again"


@dataclass(frozen=True, kw_only=True)
class SummedRelease:
    """The server's release of one secure sum, for any transport of the messages.

    With `DistributedVotes` the holders' sum is itself the release. So the ledger is charged before the holders are
    asked. Holders answer once. If the sum is lost afterwards, the release is refused and stays charged.

    Attributes:
        plan: the plan of the release, whose aggregator reads counts.
        roll: the expected holders.
        request: the queries.
        inbox: the folder for the sum, of mode 0700.
        output_dir: the folder of the release; its `release/` may be published.
        dataset: the public name of the holders' data. All charges for one name are in one account of the ledger.
        real: False for synthetic records.
        shares: the field `shares` of `SumTerms`. It must be None if holders share the noise, whose price
            depends on who can open the sum.
    """

    plan: ReleasePlan
    roll: Roll
    request: Request
    inbox: Path
    output_dir: Path
    dataset: str
    real: bool = True
    shares: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            rule = "None: holders have agreed on the noise; pate-account solves for it"
            require(
                self.plan.target_epsilon is None, "target_epsilon", self.plan.target_epsilon, rule
            )
            clip = self.request.vote_clip
            most = self.noise.max_votes
            require(clip == most, "vote_clip", clip, f"max_votes={most} of the aggregator")
            rule = "None with distributed_votes: nobody may open a sum of fewer holders than its price counts on"
            require(self.shares is None, "shares", self.shares, rule)

    @property
    def noise(self) -> DistributedVotes | None:
        """The aggregator whose noise the holders share; None for an aggregator whose noise the server adds."""
        aggregator = self.plan.aggregator
        return aggregator if isinstance(aggregator, DistributedVotes) else None

    @property
    def terms(self) -> SumTerms:
        """The terms of the secure sum, of counts alone or of counts to which holders add shares of the noise."""
        noise = self.noise
        roll = self.roll
        return (
            SumTerms.of_counts(roll, shares_per_key=self.shares)
            if noise is None
            else SumTerms.of_noise(aggregator=noise, roll=roll)
        )

    def run(self, make_sum: Callable[[], Summed], monitor: Monitor | None = None) -> Terms:
        """Makes the sum once and releases it; continues a call that was killed.

        Args:
            make_sum: makes the sum and returns it with the names of its holders, for example by `flower.secure_sum`.
            monitor: displays the progress; None for no display.

        Raises:
            InvalidValue: too few holders answered, or `release_votes` refuses the release.
        """
        # Raises `InvalidValue` before anything is asked, if this roll has no secure sum.
        _ = self.terms
        make_folder(self.inbox)
        request = self.request
        places = Places.from_holders(self.roll.holders)
        vote_source: VoteSource

        def total_and_num_holders() -> Total:
            total_of_holders, holders = self.sum_in_inbox(make_sum)
            return total_of_holders, len(holders)

        if self.noise is not None:
            # The sum is made only after the charge, so the digest is that of the request and of the holders.
            identity_text = repr(
                (request.digest, request.vote_clip, sorted(self.roll.holders.items()))
            )
            votes_digest = hashlib.sha256(identity_text.encode()).hexdigest()
            vote_source = NoisySum(
                make_sum=total_and_num_holders,
                num_teachers=self.roll.num_teachers,
                num_queries=request.num_queries,
                num_labels=request.num_labels,
                digest=votes_digest,
            )
        else:
            counted_votes = self.counted_votes(make_sum)
            summed_counts = np.ascontiguousarray(counted_votes.counts())
            votes_digest = hashlib.sha256(b"summed votes" + summed_counts.tobytes()).hexdigest()
            vote_source = counted_votes
        cohort = Cohort(
            dataset_name=self.dataset,
            has_real_records=self.real,
            record_ids=request.record_ids,
            label_names=request.label_names,
            votes_digest=votes_digest,
            queries_digest=request.digest,
            places=places,
        )
        return release_votes(
            self.plan,
            vote_source=vote_source,
            cohort=cohort,
            output_dir=self.output_dir,
            monitor=monitor,
        )

    def counted_votes(self, make_sum: Callable[[], Summed]) -> CountedVotes:
        """Returns a vote source with the counts over the teachers of all holders on the roll.

        A teacher of an absent holder votes for no label, or for the first label if the aggregator releases one label.

        Args:
            make_sum: makes the sum and returns it with the names of its holders, if the inbox has none.
        """
        summed_counts, holders = self.sum_in_inbox(make_sum)
        if self.plan.aggregator.single_label:
            summed_counts[:, 0] += sum(
                count for name, count in self.roll.holders.items() if name not in holders
            )
        return CountedVotes(
            summed_counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip
        )

    def sum_in_inbox(self, make_sum: Callable[[], Summed]) -> Summed:
        """Returns the sum in the inbox, with the names of its holders; if there is none, makes and writes it first."""
        sum_file = read_or_make_sum(
            sum_path=self.inbox / "sum.npz",
            shape=(None, None),
            make_sum=make_sum,
            remedy=_REMEDY,
            request_digest=self.request.digest,
        )
        rule = "those of the request; take another inbox for another request"
        require(str(sum_file["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return sum_file["total"].astype(np.int64), tuple(sum_file["holders"].tolist())
