"""One decision in one bounded line: what a person reads in the log before anything else."""

from __future__ import annotations

from nova_sched.model.decision import Decision
from nova_sched.model.explanation import Round

NAMES_MAX = 4
SENTENCE_MAX = 600


def sentence(decision: Decision) -> str:
    """Who asked for what, which hosts were taken and what each filter of the telling round left over.

    The telling round is the last one: of a success it shows the choice, of a failure why nothing was left.
    """
    request = decision.request
    placements = decision.placements
    parts = [
        f"{request.method} {request.caller.request_id or '-'} attempt {request.attempt}",
        _named([instance.uuid or f"#{instance.launch_index}" for instance in request.instances]),
        f"{len(placements)} of {len(request.instances)} placed",
    ]
    if placements:
        parts.append("on " + _named([f"{p.host}/{p.node}" if p.node else p.host for p in placements]))
    explanation = decision.explanation
    if explanation.forced:
        parts.append("forced")
    if explanation.rounds:
        parts.append(_steps(explanation.rounds[-1]))
    if decision.refusals:
        parts.append(decision.refusals[0].reason)
    elif explanation.refused:
        parts.append(explanation.refused)
    text = "; ".join(part for part in parts if part)
    return text if len(text) <= SENTENCE_MAX else text[: SENTENCE_MAX - 1] + "…"


def _named(names: list[str]) -> str:
    if len(names) <= NAMES_MAX:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_MAX])} and {len(names) - NAMES_MAX} more"


def _steps(last: Round) -> str:
    removing = [
        f"{step.name} {step.hosts_in}→{step.hosts_out}"
        for step in last.steps
        if step.hosts_in != step.hosts_out
    ]
    chosen = f", best weight {last.weighed[0].weight:.3g}" if last.weighed and last.chosen else ""
    subset = f", one of {len(last.choices)}" if len(last.choices) > 1 else ""
    return f"{last.hosts_seen} hosts" + (": " if removing else "") + ", ".join(removing) + chosen + subset
