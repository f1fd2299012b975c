"""Attestation service of TrustedFilter."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Real, Text, Whole
from nova_sched.settings import TrustedSettings

SECTION = Section(
    TrustedSettings,
    "trusted_computing",
    {
        "attestation_server": Item(
            Text(), "Host name of the attestation service. Needed as soon as TrustedFilter is enabled."
        ),
        "attestation_port": Item(Whole(min=1, max=65_535), "TCP port of the attestation service (HTTPS)."),
        "attestation_server_ca_file": Item(
            Text(),
            """File with the CA certificates that the attestation service's certificate must chain to. Not set: the
            system's.""",
        ),
        "attestation_api_url": Item(Text(required=True), "Path below which the attestation service answers."),
        "attestation_auth_blob": Item(
            Text(), "Secret sent to the attestation service in the X-Auth-Blob header.", secret=True
        ),
        "attestation_auth_timeout_seconds": Item(
            Whole(min=0, max=86_400),
            """Seconds for which an answer about a host is believed; longer asks less often and notices a host that
            lost its trust later.""",
            name="attestation_auth_timeout",
        ),
        "attestation_insecure_ssl": Item(
            Flag(),
            "Do not verify the attestation service's certificate. For trials only: whoever answers is believed.",
        ),
        "request_timeout_seconds": Item(
            Real(min=0.1, max=300.0),
            "Seconds to wait for one answer; a service that does not answer makes its hosts untrusted.",
        ),
    },
)
