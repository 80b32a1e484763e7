"""What `target_wait` has to reach on a trace, held against what was simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from proxy.scaling.figures import Figures

OF_THRESHOLD = 0.75  # of its node-hours, at no longer waits
OF_CLAIRVOYANT = {True: 1.08, False: 1.2}  # of its node-hours; is it a Stable Diffusion trace
OF_KNATIVE_STARTS = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy on one trace. `target_secs`: what `target_wait` was told."""

    policy: str
    figures: Figures
    target_secs: float | None = None


State = Literal["reached", "frontier", "missed"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`frontier`: it is not below and left of the rival, but told the rival's p95 no rival is below and left of it."""

    goal: str
    measured: str
    state: State


def verdicts(
    threshold: Outcome,
    ours: Mapping[str, Outcome],
    rivals: Sequence[Outcome],
    *,
    clairvoyant_hours: float,
    node_start_secs: float,
    is_diffusion: bool,
) -> Iterator[Verdict]:
    """`ours`: `target_wait` by whose p95 it was told, the threshold's and each rival's, or "start" for half of a
    node's start time; others may be among them."""
    if is_diffusion:
        yield _against_threshold(threshold.figures, ours["threshold"].figures)
    yield _against_clairvoyant(
        ours["start"].figures, clairvoyant_hours, node_start_secs / 2, OF_CLAIRVOYANT[is_diffusion]
    )
    for rival in rivals:
        told = ours[rival.policy].figures
        is_beaten = any(_is_below_and_left(other.figures, told) for other in rivals)
        yield _against_rival(rival, [outcome.figures for outcome in ours.values()], told, is_beaten)


def _against_threshold(theirs: Figures, own: Figures) -> Verdict:
    ratio = own.paid_hours / theirs.paid_hours
    return Verdict(
        f"p95 <= threshold's {theirs.wait_p95:.1f} s at <= {OF_THRESHOLD:.0%} of its node-hours",
        f"{own.wait_p95:.1f} s at {ratio:.1%}",
        "reached" if own.wait_p95 <= theirs.wait_p95 and ratio <= OF_THRESHOLD else "missed",
    )


def _against_clairvoyant(own: Figures, hours: float, most_secs: float, most_ratio: float) -> Verdict:
    ratio = own.paid_hours / hours
    return Verdict(
        f"p95 <= {most_secs:g} s at <= {most_ratio:g} x the clairvoyant {hours:.1f} node-hours",
        f"{own.wait_p95:.1f} s at {ratio:.2f} x",
        "reached" if own.wait_p95 <= most_secs and ratio <= most_ratio else "missed",
    )


def _against_rival(rival: Outcome, ours: Sequence[Figures], told: Figures, is_beaten: bool) -> Verdict:
    """`told`: ours when it is told the rival's p95; is it beaten by any rival."""
    theirs = rival.figures
    goal = f"below and left of {rival.policy} ({theirs.wait_p95:.1f} s, {theirs.paid_hours:.1f} h)"
    most_starts = float("inf")
    if rival.policy == "knative":
        most_starts = OF_KNATIVE_STARTS * theirs.starts
        goal += f" with <= {most_starts:g} starts"
    state: State = "missed"
    better = [own for own in ours if _is_below_and_left(own, theirs) and own.starts <= most_starts]
    if better:
        state, told = "reached", min(better, key=lambda own: own.paid_hours)
    elif not is_beaten and told.starts <= most_starts:
        state = "frontier"
    ratio = told.paid_hours / theirs.paid_hours
    return Verdict(
        goal, f"{told.wait_p95:.1f} s, {told.paid_hours:.1f} h ({ratio:.2f} x), {told.starts} starts", state
    )


def _is_below_and_left(one: Figures, other: Figures) -> bool:
    return one.wait_p95 <= other.wait_p95 and one.paid_hours <= other.paid_hours
