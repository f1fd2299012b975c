"""The bus as the rest of the service sees it: the only users of oslo.messaging, kombu and py-amqp live below here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import oslo_messaging
from oslo_messaging import Target

__all__ = ["Target", "expose"]

Method = TypeVar("Method", bound=Callable[..., Any])


def expose(method: Method) -> Method:
    """Mark a method of an endpoint as callable over the bus."""
    return cast(Method, oslo_messaging.expose(method))
