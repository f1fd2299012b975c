"""What a caller holds while its request is in a batch, and what the batch knows of it meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from nova_sched.model.decision import Placement
from nova_sched.model.messages import Cast, Event
from nova_sched.model.quick import quick_init
from nova_sched.model.request import HostNode, InstanceRef, SchedulingRequest
from nova_sched.service.ports import RequestMessages

RUN_INSTANCE = "run_instance"
PREP_RESIZE = "prep_resize"


class Answer(Protocol):
    """Where an answer is wanted besides the ticket (the RPC server's deferred reply)."""

    def set_result(self, result: Any) -> None:
        """The request is done."""
        ...

    def set_exception(self, error: BaseException) -> None:
        """The request failed."""
        ...


class Ticket:
    """A submitted request; answered once its outcome is committed and its casts are confirmed.

    ``explains``: dry run, answered with the decision record and nothing else done.
    """

    __slots__ = ("_answer", "_error", "_value", "done", "explains", "request")

    def __init__(
        self, request: SchedulingRequest, answer: Answer | None = None, explains: bool = False
    ) -> None:
        self.request = request
        self.explains = explains
        self.done = False
        self._answer = answer
        self._value: Any = None
        self._error: BaseException | None = None

    @property
    def is_call(self) -> bool:
        """Whether the caller waits for a reply, and nothing but the reply tells it of a failure."""
        return self.explains or self.request.method not in (RUN_INSTANCE, PREP_RESIZE)

    def resolve(self, value: Any = None) -> None:
        """Answer; the message may be acknowledged."""
        self.done, self._value = True, value
        if self._answer is not None:
            self._answer.set_result(value)

    def reject(self, error: BaseException) -> None:
        """Answer with an error: a reply for calls, a dead letter for casts that nothing else could end."""
        self.done, self._error = True, error
        if self._answer is not None:
            self._answer.set_exception(error)

    def result(self) -> Any:
        """The answer; raises what the ticket was rejected with. Raises RuntimeError while there is none."""
        if not self.done:
            raise RuntimeError("the batch has not answered this ticket yet")
        if self._error is not None:
            raise self._error
        return self._value


@quick_init
@dataclass(frozen=True, slots=True)
class CastOf:
    """One cast to a compute and the claim behind it; ``before`` is the event that goes out with it.

    ``uuid``/``attempt``: key of the claim. ``deadline``: monotonic second after which the claim has to be read again
    before the cast may leave (half of its life).
    """

    message: Cast
    before: Event | None
    placement: Placement
    uuid: str
    attempt: int
    deadline: float


@dataclass(frozen=True, slots=True)
class ErrorOf:
    """The ERROR event of one instance; ``outbox_id`` names its row until the broker has confirmed it.

    ``before``: the event of its new state, which goes out with it.
    """

    message: Event
    before: Event | None
    outbox_id: int | None


Outgoing = CastOf | ErrorOf


@dataclass(slots=True)
class Job:
    """One ticket inside a wave.

    ``request``: of the ticket, with the hosts excluded that refused too often. ``todo``: instances to decide.
    ``replaces``: claim uuid → host id whose claim of the same key gives way (its cast came back undeliverable).
    ``claim_uuids``: launch index → key of a claim that is not the instance's own.
    ``outgoing``: to publish next, in order. ``placements``: of a call, by launch index, committed.
    ``failed``: instances committed as ERROR, for metrics. ``announces``: something happens for it, so .start and .end are sent. ``rounds``: decisions made so far.
    ``refused``: (host, node) → rounds in which its guard refused; ``avoided``: those that did so too often, tried again
    only when no other host is left. ``stalled``: rounds in a row in which
    nothing of the wave could be committed. ``exhausted``: why no further host is tried.
    """

    ticket: Ticket
    request: SchedulingRequest
    messages: RequestMessages
    todo: list[InstanceRef] = field(default_factory=list)
    replaces: dict[str, int] = field(default_factory=dict)
    claim_uuids: dict[int, str] = field(default_factory=dict)
    outgoing: list[Outgoing] = field(default_factory=list)
    placements: dict[int, Placement] = field(default_factory=dict)
    refused: Counter[HostNode] = field(default_factory=Counter)
    avoided: set[HostNode] = field(default_factory=set)
    failed: int = 0
    announces: bool = False
    started: bool = False
    rounds: int = 0
    stalled: int = 0
    undeliverable: int = 0
    exhausted: str | None = None
    failure: BaseException | None = None

    @property
    def is_move(self) -> bool:
        """Whether a running instance is moved: its claim stands beside the build's, under a key of its own."""
        return self.request.method == PREP_RESIZE

    def claim_uuid(self, instance: InstanceRef) -> str:
        """Key of this instance's claim."""
        uuid = self.claim_uuids.get(instance.launch_index) or instance.uuid
        assert uuid is not None
        return uuid

    def remaining(self) -> SchedulingRequest:
        """The request for the instances that are left to decide."""
        return (
            self.request
            if len(self.todo) == len(self.request.instances)
            else self.request.only(tuple(self.todo))
        )

    def exclude(self, host: HostNode) -> None:
        """Do not try this host again for this request."""
        self.request = self.request.excluding(host)
