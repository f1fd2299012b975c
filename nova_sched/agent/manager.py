"""RPC endpoint of a compute agent: builds, resizes and deletes that schedulers and API services cast to it.

Every message may come twice and late. The key of a build is (uuid, attempt): a known one is dropped, one older than
the newest known is dropped, a deleted uuid stays deleted. What does not fit the limits of the cast, or fails to build,
goes back to the scheduler as one ``run_instance`` cast with ``retry`` filled in; without retry data it is reported as
failed.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from oslo_utils import strutils

from nova_sched.agent.hypervisor import BuildError, Guest, Hypervisor
from nova_sched.agent.outbox import Outbox
from nova_sched.agent.ports import ReportClient, SchedulerClient
from nova_sched.agent.reading import guest_of, is_forced, unmet_limits
from nova_sched.errors import BusUnavailable
from nova_sched.model.secrets import secrets_in, secrets_of_context, without
from nova_sched.rpc import Target, expose

LOG = logging.getLogger(__name__)

KNOWN_MAX = 100_000
_FLUSH_SECONDS = 10.0
_REASON_MAX = 500


@dataclass(slots=True)
class _Known:
    """Newest attempt of an instance on this host, or its tombstone."""

    attempt: int
    deleted: bool = False


class ComputeManager:
    """Endpoint of topic ``compute``, server ``<host>``, version 3.x of Nova's compute API.

    :param soon: called when the numbers of the host changed (``Reporter.soon``).
    :param max_attempts: a build that failed this often is reported as failed instead of sent back.
    :param workers: builds at the same time.
    """

    target = Target(version="3.35")

    def __init__(
        self,
        *,
        host: str,
        node: str,
        hypervisor: Hypervisor,
        scheduler: SchedulerClient,
        reports: ReportClient,
        outbox: Outbox,
        soon: Callable[[], None],
        max_attempts: int = 3,
        workers: int = 4,
    ) -> None:
        self.host = host
        self.node = node
        self._hypervisor = hypervisor
        self._scheduler = scheduler
        self._reports = reports
        self._outbox = outbox
        self._soon = soon
        self._max_attempts = max_attempts
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()
        self._builders = ThreadPoolExecutor(workers, thread_name_prefix=f"build-{host}")

    @expose
    def run_instance(self, context: Mapping[str, Any], /, instance: Any = None, **arguments: Any) -> None:
        """Build the instance here, or send it back. Returns when it is accepted; the build goes on by itself.

        Arguments as in the schema ``compute_run_instance``. Raises MalformedBuild.
        """
        guest = guest_of(instance, arguments)
        if not self._is_news(guest):
            LOG.info("instance %s attempt %d is known or gone, dropped", guest.uuid, guest.attempt)
            return
        build = _Build(context, guest, arguments)
        try:
            self._reserve(build)
        except BuildError as exc:
            self._give_back(build, str(exc))
            return
        self._update(guest, "building")
        self._soon()
        self._builders.submit(self._build, build)

    @expose
    def prep_resize(self, context: Mapping[str, Any], /, instance: Any = None, **arguments: Any) -> None:
        """Make room for the instance in its new size. The numbers of this host tell the scheduler of it.

        What does not fit is logged and left to who asked: the instance goes on where it is. Raises MalformedBuild.
        """
        guest = guest_of(instance, arguments, sizes=arguments.get("instance_type"))
        if guest.uuid in self._hypervisor.report()[1]:
            LOG.info("instance %s is here already, dropped", guest.uuid)
            return
        try:
            self._reserve(_Build(context, guest, arguments))
        except BuildError as exc:
            LOG.warning("instance %s cannot be resized to this host: %s", guest.uuid, exc)
            return
        self._soon()
        self._builders.submit(self._receive, guest)

    @expose
    def terminate_instance(
        self, context: Mapping[str, Any], /, instance: Any = None, **arguments: Any
    ) -> None:
        """End the guest and report it deleted; a build under way ends by itself. Raises MalformedBuild."""
        uuid = guest_of(instance, {}).uuid
        with self._lock:
            known = self._known.get(uuid)
            attempt = known.attempt if known is not None else None
            self._remember(uuid, _Known(attempt or 0, deleted=True))
        self._hypervisor.destroy(uuid)
        self._soon()
        if attempt:
            self._send_update(uuid, attempt, "deleted", None)

    def end_batch(self) -> None:
        """Called before messages are acknowledged: what they caused has left. Raises BusUnavailable."""
        if not self._outbox.flush(_FLUSH_SECONDS):
            raise BusUnavailable("reports of accepted builds cannot be sent")

    def stop(self) -> None:
        """Let builds under way end; accept none."""
        self._builders.shutdown(wait=True)

    def _is_news(self, guest: Guest) -> bool:
        """Whether this attempt is newer than all that is known of the instance; it is known from here on."""
        with self._lock:
            known = self._known.get(guest.uuid)
            if known is not None and (known.deleted or known.attempt >= guest.attempt):
                return False
            self._remember(guest.uuid, _Known(guest.attempt))
            return True

    def _remember(self, uuid: str, known: _Known) -> None:
        self._known[uuid] = known
        self._known.move_to_end(uuid)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _reserve(self, build: _Build) -> None:
        """Check the limits of the cast and take the room, as one step. Raises BuildError."""
        with self._lock:
            limits = build.filter_properties.get("limits") or {}
            unmet = unmet_limits(build.guest, self._hypervisor.usage(), limits)
            if unmet:
                raise BuildError("does not fit: " + "; ".join(unmet))
            self._hypervisor.reserve(build.guest)

    def _build(self, build: _Build) -> None:
        guest = build.guest
        failure: Exception | None = None
        try:
            self._hypervisor.build(guest)
        except Exception as exc:
            failure = exc
        # Logged outside of the handler: the log appends an exception that is being handled, with whatever it quotes.
        if isinstance(failure, BuildError):
            self._after_failure(build, str(failure))
        elif failure is not None:
            trace = without("".join(traceback.format_exception(failure)), build.secrets)
            LOG.error("build of instance %s broke: %s", guest.uuid, trace.rstrip())
            self._hypervisor.destroy(guest.uuid)
            self._after_failure(build, f"{type(failure).__name__}: {failure}")
        elif self._is_deleted(guest.uuid):
            self._hypervisor.destroy(guest.uuid)
            self._soon()
        else:
            self._update(guest, "active")
            self._soon()

    def _receive(self, guest: Guest) -> None:
        """Make the guest of a resize."""
        try:
            self._hypervisor.build(guest)
        except Exception as exc:
            LOG.warning("resize of instance %s to this host failed: %s", guest.uuid, exc)
            self._hypervisor.destroy(guest.uuid)
        self._soon()

    def _after_failure(self, build: _Build, reason: str) -> None:
        if not self._is_deleted(build.guest.uuid):
            self._give_back(build, reason)
        self._soon()

    def _is_deleted(self, uuid: str) -> bool:
        with self._lock:
            known = self._known.get(uuid)
            return known is not None and known.deleted

    def _give_back(self, build: _Build, reason: str) -> None:
        """Reschedule if the cast carried retry data and attempts are left, else report the failure."""
        guest = build.guest
        told = without(reason, build.secrets)
        reason = strutils.mask_password(told)[:_REASON_MAX]
        LOG.warning("instance %s attempt %d failed: %s", guest.uuid, guest.attempt, reason)
        if build.retry is None or guest.attempt >= self._max_attempts:
            self._send_update(guest.uuid, guest.attempt, "failed", reason)
            return
        context, arguments = build.context, build.again(reason)
        self._outbox.put(lambda: self._scheduler.run_instance(context, **arguments))

    def _update(self, guest: Guest, state: str) -> None:
        self._send_update(guest.uuid, guest.attempt, state, None)

    def _send_update(self, uuid: str, attempt: int, state: str, reason: str | None) -> None:
        self._outbox.put(
            lambda: self._reports.update_instance(
                {}, uuid=uuid, attempt=attempt, host=self.host, node=self.node, state=state, reason=reason
            )
        )


@dataclass(frozen=True, slots=True)
class _Build:
    """A build cast in hand."""

    context: Mapping[str, Any]
    guest: Guest
    arguments: Mapping[str, Any]

    @property
    def secrets(self) -> set[str]:
        """Texts of this build that no log and no reason may quote."""
        return secrets_in(self.arguments) | secrets_of_context(self.context)

    @property
    def filter_properties(self) -> Mapping[str, Any]:
        given = self.arguments.get("filter_properties")
        return given if isinstance(given, dict) else {}

    @property
    def retry(self) -> Mapping[str, Any] | None:
        """Retry data of the cast; None where this build must not be tried elsewhere (forced placement)."""
        if is_forced(self.filter_properties):
            return None
        given = self.filter_properties.get("retry")
        return given if isinstance(given, dict) and given else None

    def again(self, reason: str) -> dict[str, Any]:
        """Arguments of the ``run_instance`` cast that sends this build back.

        ``retry`` keeps its count and its hosts (the scheduler put this one in); the limits were this host's.
        """
        retry = {**(self.retry or {}), "exc": [reason]}
        filter_properties = {key: value for key, value in self.filter_properties.items() if key != "limits"}
        spec = {
            **(self.arguments.get("request_spec") or {}),
            "instance_uuids": [self.guest.uuid],
            "num_instances": 1,
        }
        return {
            "request_spec": spec,
            "filter_properties": {**filter_properties, "retry": retry},
            "admin_password": self.arguments.get("admin_password"),
            "injected_files": self.arguments.get("injected_files"),
            "requested_networks": self.arguments.get("requested_networks"),
            "is_first_time": False,
            "legacy_bdm_in_spec": self.arguments.get("legacy_bdm_in_spec"),
        }
