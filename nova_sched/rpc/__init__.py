"""The bus as the rest of the service sees it: the only users of oslo.messaging, kombu and py-amqp live below here."""

from oslo_messaging import Target, expose

__all__ = ["Target", "expose"]
