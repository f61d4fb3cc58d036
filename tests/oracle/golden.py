"""Computes each golden entry, a stored value from outside the package, through the functions of the package."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit, ndtr

from pate import accounting
from pate.accounting.conversion import zcdp_to_epsilon_classic
from pate.accounting.pure_dp import pure_dp_composition_epsilon
from pate.accounting.rdp import rdp_curve_of
from pate.accounting.target_charging import (
    boundary,
    boundary_distribution,
    exact_hit_prob,
    min_accesses,
    not_prior,
    overrun_probability,
    revise,
)
from pate.aggregators import StableTopK
from pate.auditing.gap_selection_divergence import gap_selection_rdp
from pate.auditing.gnmax_divergence import gnmax_log_q, theorem_6_rdp
from pate.mechanisms import (
    CanonicalTopK,
    GapSelection,
    JointTopK,
    LimitedDomainTopK,
    LipschitzTopK,
    PeelingTopK,
    PermuteAndFlipJointTopK,
    PermuteAndFlipTopK,
    StabilityTest,
    optimal_stability_table,
)
from pate.mechanisms.noise.maxima import gaussian_argmax
from pate.mechanisms.top_k.mechanism import TopKMechanism
from pate.validation import InvalidValue, nearest

Inputs = dict[str, Any]

PATH = Path(__file__).with_name("golden.json")

_NOISES = {"gumbel": "gumbel", "gauss": "gaussian", "laplace": "laplace", "expo": "exponential"}
_ADJACENCIES = {1: accounting.Adjacency.ADD_REMOVE, 2: accounting.Adjacency.REPLACE_ONE}


def entries() -> list[dict[str, Any]]:
    """Returns the golden entries, each with a name, inputs, a value, a relative tolerance and a note."""
    loaded: list[dict[str, Any]] = json.loads(PATH.read_text())["entries"]
    return loaded


def evaluate(name: str, inputs: Inputs) -> Any:
    """Returns the value that the package computes for a golden entry.

    Raises:
        InvalidValue: if the package computes nothing under this name.
    """
    if name not in EVALUATORS:
        expected = tuple(EVALUATORS)
        raise InvalidValue(
            "name", name, rule=f"one of {', '.join(expected)}{nearest(name, choices=expected)}"
        )
    return EVALUATORS[name](inputs)


def _gap_select_probs(inputs: Inputs) -> list[float]:
    """Returns the probability of each candidate k in a gap selection, the choice of k by noisy gaps of counts."""
    selection = GapSelection(
        noise_scale=inputs["scale"],
        noise=_NOISES[inputs["noise"]],
        num_labels=len(inputs["hist"]),
        num_teachers=inputs["n_teachers"],
        padded=inputs["padded"],
        regularizer=inputs["regularizer"],
    )
    smallest_k = selection.candidates[0]
    if smallest_k != inputs["first_k"]:
        raise InvalidValue("first_k", inputs["first_k"], rule=smallest_k)
    return [float(p) for p in selection.probabilities(np.array(inputs["hist"]))]


def _failure_prob(inputs: Inputs) -> float:
    """Returns the failure probability for which our stability test has the threshold of the entry.

    The threshold is std * sqrt(2 log(1 / delta_t)), as in the paper, or the normal quantile of delta_t, which is lower.
    """
    delta_t = float(inputs["delta_t"])
    return (
        delta_t if inputs["exact_quantile"] else float(ndtr(-math.sqrt(2 * math.log(1 / delta_t))))
    )


def _gaussian_test(
    inputs: Inputs, *, sens: int, failure_prob: float, num_teachers: int
) -> StabilityTest:
    """Returns a Gaussian stability test with the noise std of the entry.

    Args:
        inputs: the inputs of the entry.
        sens: the gap sensitivity, which decides the adjacency.
        failure_prob: the failure probability.
        num_teachers: the number of teachers.
    """
    return StabilityTest.gaussian(
        test_std=inputs["sigma"],
        adjacency=_ADJACENCIES[sens],
        failure_prob=failure_prob,
        num_teachers=num_teachers,
    )


def _ptr_gauss_pass_prob(inputs: Inputs) -> float:
    """Returns the probability that a Gaussian stability test passes at the entry's gap."""
    failure = _failure_prob(inputs)
    gap = inputs["gap"]
    test = _gaussian_test(inputs, sens=inputs["floor"], failure_prob=failure, num_teachers=gap)
    return float(test.pass_probabilities(np.array(gap)))


def _ptr_laplace_pass_prob(inputs: Inputs) -> float:
    """Returns the probability that a Laplace stability test passes at the entry's gap.

    The paper's threshold is ours for half the failure probability.
    """
    noise_std = inputs["scale"] * math.sqrt(2)
    failure = inputs["delta_t"] / 2
    test = StabilityTest.laplace(
        test_std=noise_std,
        failure_prob=failure,
        num_teachers=inputs["gap"],
        adjacency=accounting.Adjacency.ADD_REMOVE,
    )
    return float(test.pass_probabilities(np.array(inputs["gap"])))


def _price_at(event: accounting.Event, order: float) -> float:
    """Returns the Renyi divergence of an event at one Renyi order."""
    return float(rdp_curve_of(event)(np.array([order]))[0])


def _ptr_onebit_rdp_worst(inputs: Inputs) -> float:
    """Returns the price of a Gaussian stability test's bit at the entry's Renyi order."""
    largest_gap = inputs["gap_range"][1]
    test = _gaussian_test(
        inputs, sens=inputs["sens"], failure_prob=inputs["delta_t"], num_teachers=largest_gap
    )
    return _price_at(test.event, order=inputs["alpha"])


def _stable_topk(inputs: Inputs, failure_prob: float, sensitivity_key: str) -> StableTopK:
    """Returns stable top-k with the entry's noise; `sensitivity_key` names the input that holds the gap sensitivity."""
    return StableTopK(
        failure_prob=failure_prob,
        adjacency=_ADJACENCIES[inputs[sensitivity_key]],
        selection_scale=inputs["gumbel_beta"],
        test_std=inputs["sigma2"],
    )


def _stable_topk_output_dist(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of stable top-k over sets of labels, written as texts."""
    counts = np.array(inputs["hist"])
    aggregator = _stable_topk(inputs, _failure_prob(inputs), sensitivity_key="floor")
    distribution = aggregator.distribution(counts, num_teachers=int(counts.max()))
    return {"bot" if labels is None else str(list(labels)): p for labels, p in distribution.items()}


def _stable_topk_eps_zcdp(inputs: Inputs) -> float:
    """Returns the epsilon of stable top-k, with selection and test at their zCDP prices.

    These are range**2 / 8 and sens**2 / (2 std**2).
    """
    adjacency = _ADJACENCIES[inputs["sens"]]
    selection_rho = (adjacency.gap_range / inputs["gumbel_beta"]) ** 2 / 8
    test_rho = adjacency.gap_sensitivity**2 / (2 * inputs["sigma2"] ** 2)
    steps = accounting.ComposedEvent(
        (
            accounting.ZCdpEvent(rho=selection_rho),
            accounting.ApproximateEvent(
                event=accounting.ZCdpEvent(rho=test_rho), failure_prob=inputs["delta_t"]
            ),
        )
    )
    return (
        accounting.RdpAccountant()
        .compose(accounting.SelfComposedEvent(event=steps, count=inputs["T"]))
        .get_epsilon(target_delta=inputs["delta"])
    )


def _stable_topk_eps_tight(inputs: Inputs) -> float:
    """Returns the Renyi epsilon of stable top-k for the entry's number of queries."""
    aggregator = _stable_topk(inputs, failure_prob=inputs["delta_t"], sensitivity_key="sens")
    event = aggregator.event_for(num_queries=inputs["T"], num_labels=40, num_teachers=800)
    return accounting.RdpAccountant().compose(event).get_epsilon(target_delta=inputs["delta"])


def _rnm_gauss_tie_renyi(inputs: Inputs) -> float:
    """Returns the Renyi divergence of a bit on tied noisy gaps from the same bit on gaps that moved by one.

    The bit tells whether the largest noisy gap is one of the `n_up` gaps that move up. The other gaps move down.
    """
    num_gaps_up = inputs["n_up"]
    sigma = inputs["sigma"]
    order = inputs["alpha"]
    gap_moves = np.where(np.arange(inputs["n_gaps"]) < num_gaps_up, 1.0, -1.0)
    p, q = (
        float(gaussian_argmax(gap_shifts / sigma)[:num_gaps_up].sum())
        for gap_shifts in (np.zeros_like(gap_moves), gap_moves)
    )
    moment = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
    return math.log(moment) / (order - 1)


def _top_k_distribution(mechanism: TopKMechanism, inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of a top-k mechanism over sequences of labels, written as texts."""
    distribution = mechanism.distribution(np.array(inputs["hist"]))
    return {str(list(outcome)): p for outcome, p in distribution.items()}


def _epsilon_of_selections(k: int, noise_scale: float) -> float:
    """Returns the epsilon of k selections at a noise scale, if counts move by 1 in the same direction."""
    return float(k / noise_scale)


def _peel_ordered_probs_gumbel(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of peeling with Gumbel noise over sequences of labels, written as texts."""
    mechanism = PeelingTopK(
        k=inputs["k"],
        epsilon=_epsilon_of_selections(k=inputs["k"], noise_scale=inputs["scale"]),
        adjacency=accounting.Adjacency.ADD_REMOVE,
    )
    return _top_k_distribution(mechanism, inputs)


def _peel_ordered_probs_exponential(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of peeling with exponential noise over sequences of labels, written as texts."""
    mechanism = PermuteAndFlipTopK(
        k=inputs["k"],
        epsilon=_epsilon_of_selections(k=inputs["k"], noise_scale=inputs["scale"]),
        adjacency=accounting.Adjacency.ADD_REMOVE,
    )
    return _top_k_distribution(mechanism, inputs)


def _oneshot_set_probs(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of one-shot top-k over sets of labels, written as texts."""
    mechanism = LipschitzTopK(
        noise=_NOISES[inputs["noise"]],
        k=inputs["k"],
        epsilon=_epsilon_of_selections(k=inputs["k"], noise_scale=inputs["scale"]),
        adjacency=accounting.Adjacency.ADD_REMOVE,
    )
    sets: dict[str, float] = {}
    for outcome, probability in mechanism.distribution(np.array(inputs["hist"])).items():
        set_as_text = str(sorted(outcome))
        sets[set_as_text] = sets.get(set_as_text, 0.0) + probability
    return sets


def _tct_q_values(inputs: Inputs) -> dict[str, float]:
    """Returns the hit probabilities q of three kinds of target at the entry's epsilon, and the boundary's epsilon."""
    wrapped = boundary(call_epsilon=inputs["eps"])
    return {
        "notprior": not_prior(inputs["eps"]).hit_prob,
        "revise_notprior": revise(inputs["eps"]).hit_prob,
        "t_boundary": wrapped.epsilon,
        "q_boundary": wrapped.hit_prob,
    }


def _joint_em_probs(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of the joint exponential mechanism over sequences of labels, written as texts."""
    mechanism = JointTopK(
        k=inputs["k"], epsilon=inputs["eps"], adjacency=_ADJACENCIES[inputs["sens"]]
    )
    return _top_k_distribution(mechanism, inputs)


def _pnf_joint_probs(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of joint permute-and-flip over sequences of labels, written as texts."""
    mechanism = PermuteAndFlipJointTopK(
        k=inputs["k"], epsilon=inputs["eps"], adjacency=_ADJACENCIES[inputs["sens"]]
    )
    return _top_k_distribution(mechanism, inputs)


def _joint_class_counts(inputs: Inputs) -> dict[str, int]:
    """Returns how many sequences of labels have each loss, by the loss as a text.

    The loss is the largest shortfall of a chosen count from the true count at its place.
    """
    mechanism = JointTopK(k=inputs["k"], epsilon=1.0)
    counts = mechanism.class_counts(np.array(inputs["hist"]))
    return {str(loss): count for loss, count in counts.items()}


def _canonical_subset_probs(inputs: Inputs) -> dict[str, float]:
    """Returns the distribution of canonical top-k over sets of labels, written as texts."""
    mechanism = CanonicalTopK(
        k=inputs["k"],
        epsilon=inputs["weight"],
        gamma=inputs["gamma"],
        noise=_NOISES[inputs["noise"]],
        adjacency=accounting.Adjacency.ADD_REMOVE,
    )
    return _top_k_distribution(mechanism, inputs)


def _gnmax_logq(inputs: Inputs) -> float:
    """Returns the logarithm of the bound on the probability that GNMax does not release the likeliest label."""
    return float(gnmax_log_q(np.array([inputs["hist"]]), noise_std=inputs["sigma"])[0])


def _gnmax_probs(inputs: Inputs) -> list[float]:
    """Returns the probability that GNMax releases each label."""
    return list(gaussian_argmax(np.array(inputs["hist"]) / inputs["sigma"]).tolist())


def _gnmax_data_dependent_rdp(inputs: Inputs) -> float:
    """Returns the data-dependent cost of GNMax by Theorem 6 of Papernot et al. 2018."""
    log_q = np.array([_gnmax_logq(inputs)])
    rdp = theorem_6_rdp(log_q, noise_std=inputs["sigma"], orders=inputs["alpha"])
    return float(rdp[0, 0])


def _optimal_stability_table_logit(inputs: Inputs) -> list[float]:
    """Returns the logits of the pass probabilities in the optimal table of a stability test."""
    table = optimal_stability_table(
        order=inputs["alpha"],
        rdp_budget=inputs["rdp_budget"],
        failure_prob=inputs["delta_t"],
        num_levels=inputs["first_n"],
    )
    return list(table.logits)


def _tct_exact_q_pair(inputs: Inputs) -> float:
    """Returns the largest q for which the entry's outcomes are a q-target, for one pair of neighbors."""
    outcomes = np.arange(len(inputs["P0"]))
    return exact_hit_prob(
        first_law=inputs["P0"],
        second_law=inputs["P1"],
        in_target=np.isin(outcomes, inputs["target"]),
        epsilon=inputs["eps"],
    )


def _em_data_dependent_rdp(inputs: Inputs) -> dict[str, float]:
    """Returns the data-dependent cost of a gap selection in both directions."""
    log_odds_of_likeliest_k = logit(np.array([inputs["p_top"]]))
    event = accounting.BoundedRangeEvent(epsilon=inputs["eps_range"])
    forward, backward = gap_selection_rdp(
        log_odds_of_likeliest_k, event=event, orders=inputs["alpha"]
    )
    return {"P_to_Pprime": float(forward[0, 0]), "Pprime_to_P": float(backward[0, 0])}


def _limited_domain_probs(inputs: Inputs) -> dict[str, float]:
    """Returns the probabilities of the outcomes of limited-domain top-k.

    The epsilon of the entry is that of one of k selections.
    """
    mechanism = LimitedDomainTopK(
        k=inputs["k"],
        domain_size=inputs["kbar"],
        epsilon=inputs["k"] * inputs["eps"],
        failure_prob=inputs["delta"],
        adjacency=accounting.Adjacency.ADD_REMOVE,
    )
    distribution = mechanism.distribution(np.array(inputs["hist"]))
    return {
        str([i for i in outcome if i >= 0] + ["bot"] * (-1 in outcome)): p
        for outcome, p in distribution.items()
    }


EVALUATORS: dict[str, Callable[[Inputs], Any]] = {
    "zcdp_to_dp_simple": lambda inputs: zcdp_to_epsilon_classic(
        inputs["rho"], target_delta=inputs["delta"]
    ),
    "gaussian_exact_eps": lambda inputs: accounting.gaussian_epsilon(
        inputs["mu"], target_delta=inputs["delta"]
    ),
    "rdp_to_dp_cks_linear_rdp": lambda inputs: accounting.zcdp_to_epsilon(
        inputs["rho"], target_delta=inputs["delta"]
    ),
    "gap_select_probs": _gap_select_probs,
    "rdp_bounded_range": lambda inputs: _price_at(
        accounting.BoundedRangeEvent(epsilon=inputs["eps"]), order=inputs["alpha"]
    ),
    "ptr_gauss_pass_prob": _ptr_gauss_pass_prob,
    "ptr_laplace_pass_prob_paper_alg5": _ptr_laplace_pass_prob,
    "ptr_onebit_rdp_worst": _ptr_onebit_rdp_worst,
    "stable_topk_output_dist": _stable_topk_output_dist,
    "stable_topk_eps_zcdp_cks": _stable_topk_eps_zcdp,
    "stable_topk_eps_tight_rdp_cks": _stable_topk_eps_tight,
    "optimal_stability_table_logit": _optimal_stability_table_logit,
    "rnm_gauss_tie_renyi": _rnm_gauss_tie_renyi,
    "tct_q_values": _tct_q_values,
    "boundary_wrapper_dist": lambda inputs: boundary_distribution(inputs["base"]),
    "tct_overrun_prob": lambda inputs: overrun_probability(
        num_accesses=inputs["n"], target_hits=inputs["tau"], hit_prob=inputs["q"]
    ),
    "tct_min_accesses": lambda inputs: min_accesses(
        target_hits=inputs["tau"], hit_prob=inputs["q"], overrun_prob=inputs["delta_star"]
    ),
    "kov_optimal_composition_eps": lambda inputs: pure_dp_composition_epsilon(
        epsilon=inputs["eps"], count=inputs["n"], target_delta=inputs["delta"]
    ),
    "tct_exact_q_pair": _tct_exact_q_pair,
    "peel_ordered_probs_gumbel": _peel_ordered_probs_gumbel,
    "peel_ordered_probs_expo": _peel_ordered_probs_exponential,
    "oneshot_set_probs": _oneshot_set_probs,
    "joint_em_probs": _joint_em_probs,
    "pnf_joint_probs": _pnf_joint_probs,
    "joint_class_counts": _joint_class_counts,
    "canonical_subset_probs": _canonical_subset_probs,
    "limited_domain_probs": _limited_domain_probs,
    "gnmax_probs": _gnmax_probs,
    "gnmax_logq": _gnmax_logq,
    "gnmax_data_dep_rdp": _gnmax_data_dependent_rdp,
    "em_data_dependent_rdp": _em_data_dependent_rdp,
}
"""The functions that compute the package's value of an entry, by the name of the entry."""
