"""The bus as the rest of the service sees it: the only users of oslo.messaging, kombu and py-amqp live below here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

from oslo_service.backend import BackendType, register_backend_default_hook

# oslo.messaging makes oslo.service choose how it waits when it is imported: threads. Eventlet is imported by the
# libraries all the same where it is installed, and never used; what it says about itself is not for our users.
register_backend_default_hook(lambda: BackendType.THREADING)
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    import oslo_messaging
    from oslo_messaging import Target

__all__ = ["Target", "expose"]

Method = TypeVar("Method", bound=Callable[..., Any])


def expose(method: Method) -> Method:
    """Mark a method of an endpoint as callable over the bus."""
    return cast(Method, oslo_messaging.expose(method))
