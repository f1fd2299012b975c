"""The RPC endpoints: arguments are translated, queued into the batch, and answered when the batch has ended.

Only methods marked with ``expose`` can be called over the bus. A method that returns a ``Deferred`` is answered by
``end_batch``, which the server calls once everything it took has been dispatched.

===========  =======  ==========================================================
namespace    version  methods
===========  =======  ==========================================================
(none)       3.0      run_instance, prep_resize, select_destinations
baseapi      1.0      ping
nova_sched   1.0      explain, get_instance, delete_instance, get_hosts
===========  =======  ==========================================================

On the report topic (namespace none, version 1.0): report_state, update_instance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nova_sched.errors import BusUnavailable, MalformedMessage
from nova_sched.model.request import InstanceRef, Passthrough, SchedulingRequest
from nova_sched.rpc import Target, expose
from nova_sched.rpc.deferred import Deferred
from nova_sched.service.batch import Batch
from nova_sched.service.ports import DecisionRecord
from nova_sched.service.tickets import PREP_RESIZE, RUN_INSTANCE
from nova_sched.settings import Settings
from nova_sched.wire import inbound
from nova_sched.wire.context import caller

LOG = logging.getLogger(__name__)

HOSTS_PAGE_MAX = 1000
NAME_MAX = 255
Context = Mapping[str, Any]


class SchedulerManager:
    """Nova's scheduler RPC API 3.0.

    Arguments are taken as they come (later releases add some): ``wire.inbound`` says which are read. A message that
    names no instance raises MalformedMessage and is put aside; any other mistake ends the named instances in ERROR.
    """

    target = Target(version="3.0")

    def __init__(self, batch: Batch, settings: Settings) -> None:
        self._batch = batch
        self.settings = settings

    @expose
    def run_instance(self, context: Context, /, **arguments: Any) -> Deferred:
        """Cast: build each instance of ``request_spec`` on a host.

        Arguments: request_spec, admin_password, injected_files, requested_networks, is_first_time,
        filter_properties, legacy_bdm_in_spec.
        """
        return self._submit(inbound.run_instance(context, arguments, self.settings))

    @expose
    def prep_resize(self, context: Context, /, **arguments: Any) -> Deferred:
        """Cast: find a host for the resized instance and have it prepared there.

        Arguments: image, request_spec, filter_properties, instance, instance_type, reservations.
        """
        return self._submit(inbound.prep_resize(context, arguments, self.settings))

    @expose
    def select_destinations(self, context: Context, /, **arguments: Any) -> Deferred:
        """Call: a list of ``{host, nodename, limits}``, one per instance; all or NoValidHost.

        Arguments: request_spec, filter_properties.
        """
        return self._submit(inbound.select_destinations(context, arguments, self.settings))

    def end_batch(self) -> None:
        """Bring everything queued to its answer. Raises StoreUnavailable and BusUnavailable: nothing may be acknowledged."""
        self._batch.run()

    def refuse(self, message: Mapping[str, Any] | None, reason: str) -> None:
        """A message is put aside for good: set the instances it names to ERROR with that reason.

        Only names are read from it, since reading more may be what it was put aside for. Raises StoreUnavailable.
        """
        request = None if message is None else _request_of_names(message, reason)
        if request is not None:
            self._batch.refuse(request, reason)

    def _submit(self, request: SchedulingRequest) -> Deferred:
        answer = Deferred()
        self._batch.submit(request, answer)
        return answer


class BaseAPI:
    """What every Nova service answers."""

    target = Target(namespace="baseapi", version="1.0")

    def __init__(self, service_name: str = "scheduler") -> None:
        self._service_name = service_name

    @expose
    def ping(self, context: Context, /, arg: Any = None) -> dict[str, Any]:
        """``{service, arg}``: the argument comes back."""
        return {"service": self._service_name, "arg": arg}


class Directory(Protocol):
    """Reads of instances and hosts, and the one deletion; ``db`` implements it. Methods raise StoreUnavailable."""

    def get_instance(self, uuid: str) -> Mapping[str, Any]:
        """``{uuid, vm_state, task_state, host, node, attempt, fault}``. Raises InstanceNotFound."""
        ...

    def delete_instance(self, uuid: str) -> Sequence[tuple[str, str]] | None:
        """Leave a tombstone, whether the instance is known or not; a claim still ``claimed`` ends. Idempotent.

        The (host, uuid) of guests that may be on a host already come back, for their agents to be told.
        """
        ...

    def get_hosts(self, marker: str | None, limit: int) -> Sequence[Mapping[str, Any]]:
        """Up to ``limit`` hosts after the one named ``marker``, by name."""
        ...


class NovaSchedAPI:
    """Our own calls, for the command line and for API services.

    :param describe: a decision record as plain JSON values, as the history stores it.
    :param terminate: called with (host, uuid) of a deleted guest that may be on a host; raises BusUnavailable. Without
        it, or when it fails, the agent is told when it next reports the guest.
    """

    target = Target(namespace="nova_sched", version="1.0")

    def __init__(
        self,
        batch: Batch,
        directory: Directory,
        describe: Callable[[DecisionRecord], Mapping[str, Any]],
        settings: Settings,
        terminate: Callable[[str, str], object] | None = None,
    ) -> None:
        self._batch = batch
        self._directory = directory
        self._describe = describe
        self._terminate = terminate
        self.settings = settings

    @expose
    def explain(self, context: Context, /, **arguments: Any) -> Deferred:
        """Call: the record of what would be decided now; nothing is claimed. Arguments as select_destinations."""
        answer = _Described(self._describe)
        self._batch.explain(inbound.explain(context, arguments, self.settings), answer)
        return answer

    @expose
    def get_instance(self, context: Context, /, uuid: Any = None) -> Mapping[str, Any]:
        """Call: state of one instance. Raises InstanceNotFound."""
        return self._directory.get_instance(_name("uuid", uuid))

    @expose
    def delete_instance(self, context: Context, /, uuid: Any = None) -> None:
        """Cast: the instance is no longer wanted, at whatever step it is."""
        name = _name("uuid", uuid)
        guests = self._directory.delete_instance(name) or ()
        LOG.info("instance %s was deleted by %s", name, caller(context).request_id)
        if self._terminate is None:
            return
        for host, guest in guests:
            try:
                self._terminate(host, guest)
            except BusUnavailable as gone:
                LOG.warning("%s is told of the deletion of %s when it reports it: %s", host, guest, gone)

    @expose
    def get_hosts(
        self, context: Context, /, marker: Any = None, limit: Any = None
    ) -> Sequence[Mapping[str, Any]]:
        """Call: hosts by name after ``marker``, at most ``limit`` (and at most 1,000) of them."""
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise MalformedMessage("limit: expected a whole number from 1")
        most = HOSTS_PAGE_MAX if limit is None else min(limit, HOSTS_PAGE_MAX)
        return self._directory.get_hosts(None if marker is None else _name("marker", marker), most)


class _Described(Deferred):
    """Answers with a decision record in its plain form."""

    __slots__ = ("_describe",)

    def __init__(self, describe: Callable[[DecisionRecord], Mapping[str, Any]]) -> None:
        super().__init__()
        self._describe = describe

    def set_result(self, result: DecisionRecord) -> None:
        """Take the record."""
        super().set_result(self._describe(result))


class ReportSink(Protocol):
    """Where reports go; ``reports`` implements it."""

    def report_state(
        self, service: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], age_seconds: float | None = None
    ) -> None:
        """Queue one report that was held for ``age_seconds``. Raises MalformedMessage."""
        ...

    def update_instance(self, **update: Any) -> None:
        """Queue one word about an instance. Raises MalformedMessage."""
        ...

    def apply(self) -> None:
        """Write what was queued, in one transaction. Raises StoreUnavailable; the queue is empty then."""
        ...


class ReportManager:
    """Casts of compute agents on the report topic, written a batch at a time.

    :param age_seconds: for how long the report in hand has been held; an old one must not revive its host.
    """

    target = Target(version="1.0")

    def __init__(self, sink: ReportSink, age_seconds: Callable[[], float] = lambda: 0.0) -> None:
        self._sink = sink
        self._age_seconds = age_seconds

    @expose
    def report_state(self, context: Context, /, service: Any = None, nodes: Any = None) -> None:
        """Cast: heartbeat and capacity of one service's nodes."""
        self._sink.report_state(service, nodes, self._age_seconds())

    @expose
    def update_instance(self, context: Context, /, **update: Any) -> None:
        """Cast: uuid, attempt, host, node, state (building, active, failed, deleted) and reason of one instance."""
        self._sink.update_instance(**update)

    def end_batch(self) -> None:
        """Write what was queued. Raises StoreUnavailable: nothing may be acknowledged."""
        self._sink.apply()


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= NAME_MAX or "\x00" in value:
        raise MalformedMessage(f"{what}: expected a text of 1 to {NAME_MAX} characters")
    return value


def _request_of_names(message: Mapping[str, Any], reason: str) -> SchedulingRequest | None:
    """A request that holds nothing but who was asked for; None when the message names nobody that could be set."""
    arguments = message.get("args")
    method = message.get("method")
    if method not in (RUN_INSTANCE, PREP_RESIZE) or not isinstance(arguments, Mapping):
        return None
    if method == PREP_RESIZE:
        uuids: Any = [_member(arguments.get("instance"), "uuid")]
    else:
        uuids = _member(arguments.get("request_spec"), "instance_uuids")
    if not isinstance(uuids, list):
        return None
    named = list(dict.fromkeys(uuid for uuid in uuids if _is_storable(uuid)))
    if not named:
        return None
    before = _member(_member(arguments.get("filter_properties"), "retry"), "num_attempts")
    counted = isinstance(before, int) and not isinstance(before, bool) and 0 <= before < 2**31 - 1
    context = {
        key: value for key, value in message.items() if isinstance(key, str) and key.startswith("_context_")
    }
    return SchedulingRequest(
        method=method,
        caller=caller(context),
        instances=tuple(
            InstanceRef(uuid, index) for index, uuid in enumerate(named[: inbound.REFUSED_INSTANCES_MAX])
        ),
        attempt=before + 1 if counted else 1,
        error=reason,
        passthrough=Passthrough(request_spec={"instance_uuids": named, "instance_properties": {}}),
    )


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _is_storable(uuid: Any) -> bool:
    return isinstance(uuid, str) and 0 < len(uuid) <= 36 and uuid.isascii() and uuid.isprintable()
