"""TrustedFilter and the attestation server: levels as facts, cache, time-outs, verified TLS."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests

from nova_sched.attestation import AttestationServer, AttestedFacts, TrustCache
from nova_sched.model.facts import Fact, Facts
from nova_sched.settings import TrustedSettings
from nova_sched.testing.builders import host, request
from nova_sched.testing.deciding import passing

HOSTS = [host("alder"), host("birch"), host("cedar")]
FACTS = Facts(trust_levels={"alder.lab": "trusted", "birch.lab": "untrusted"})


@pytest.mark.parametrize(
    "level, names",
    [
        ("trusted", ["alder"]),
        ("untrusted", ["birch"]),
        ("unknown", ["cedar"]),
        (None, ["alder", "birch", "cedar"]),
    ],
)
def test_level(level, names):
    """A node the server says nothing about is unknown."""
    asked = request(extra_specs={"trust:trusted_host": level} if level else {})
    assert passing("TrustedFilter", HOSTS, asked, facts=FACTS) == names


class Attester:
    """An attestation callable that counts and may fail."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failure: Exception | None = None

    def __call__(self, nodes):
        self.asked.append(list(nodes))
        if self.failure is not None:
            raise self.failure
        return {"a": "trusted"}


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_levels_are_kept_for_their_time():
    """One question for all nodes, the next one when it is too old, or for a node that is new."""
    attest, clock = Attester(), Clock()
    cache = TrustCache(attest, 60.0, clock=clock)
    assert cache.levels(["a", "b"]) == {"a": "trusted", "b": "unknown"}
    clock.now = 59.0
    cache.levels(["a", "b", "c"])
    clock.now = 61.0
    cache.levels(["a", "b"])
    assert attest.asked == [["a", "b"], ["c"], ["a", "b"]]


@pytest.mark.parametrize(
    "failure", [requests.ConnectionError("down"), requests.Timeout("slow"), ValueError("nonsense")]
)
def test_a_server_that_fails_vouches_for_nobody(failure, caplog):
    """Nodes are unknown, the server gets a pause, and is asked again after it."""
    attest, clock = Attester(), Clock()
    cache = TrustCache(attest, 60.0, pause_seconds=5.0, clock=clock)
    attest.failure = failure
    assert cache.levels(["a"]) == {"a": "unknown"}
    assert "none of them is trusted" in caplog.text
    cache.levels(["a"])
    assert len(attest.asked) == 1
    attest.failure, clock.now = None, 5.0
    assert cache.levels(["a"]) == {"a": "trusted"}


class NoFacts:
    """A source that knows nothing and remembers what it was asked for."""

    def __init__(self) -> None:
        self.needs = None

    def load(self, requests, needs):
        self.needs = needs
        return [Facts() for _ in requests]


def test_the_server_is_asked_only_for_requests_that_want_a_level():
    """Others cost nothing; SQL is never asked for levels."""
    attest, source = Attester(), NoFacts()
    facts = AttestedFacts(source, TrustCache(attest, 60.0), lambda: ["a"])
    plain, wanting = request(), request(extra_specs={"trust:trusted_host": "trusted"})
    needs = frozenset({Fact.TRUST, Fact.GROUP})
    facts.load([plain], needs)
    assert attest.asked == []
    assert source.needs == frozenset({Fact.GROUP})
    first, second = facts.load([plain, wanting], needs)
    assert first.trust_levels == {}
    assert second.trust_levels == {"a": "trusted"}
    facts.load([wanting], frozenset({Fact.GROUP}))
    assert len(attest.asked) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(certificate, key) for 127.0.0.1, signed by itself."""
    tool = shutil.which("openssl")
    assert tool, "openssl makes the certificate of this test"
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    command = [tool, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    extension = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(pem), "-keyout", str(key)]
    subprocess.run([*command, *extension], check=True, capture_output=True)
    return pem, key


class Answers(BaseHTTPRequestHandler):
    """OpenAttestation in a few lines; keeps what it was asked."""

    received: list[tuple[str, str | None, dict]] = []

    def do_POST(self):
        """Answer PollHosts."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append((self.path, self.headers["x-auth-blob"], body))
        answer = json.dumps(
            {"hosts": [{"host_name": "a", "trust_lvl": "trusted", "vtime": "now"}, {"host_name": 1}]}
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        """Nothing to say."""


@pytest.fixture
def server(certificate):
    """Port of an HTTPS server that answers; what it received is in ``Answers.received``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    listening = HTTPServer(("127.0.0.1", 0), Answers)
    listening.handle_error = lambda *_: None
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    Answers.received.clear()
    yield listening.server_port
    listening.shutdown()
    listening.server_close()
    thread.join()


def client(port: int, **fields) -> AttestationServer:
    """The HTTPS client."""
    given = {"attestation_server": "127.0.0.1", "attestation_port": port, "attestation_auth_blob": "s3cret"}
    return AttestationServer(TrustedSettings(**{**given, **fields}))


def test_question_and_answer_on_the_wire(server, certificate):
    """Path, header and body as OpenAttestation wants them; entries of another shape are left out."""
    assert client(server, attestation_server_ca_file=str(certificate[0]))(["a", "b"]) == {"a": "trusted"}
    path, blob, body = Answers.received[0]
    assert path == "/OpenAttestationWebServices/V1.0/PollHosts"
    assert blob == "s3cret"
    assert body == {"count": 2, "hosts": ["a", "b"]}


def test_an_unknown_certificate_is_refused(server):
    """Verified by default (LP#1373993): nothing is asked, nobody is trusted."""
    cache = TrustCache(client(server), 60.0)
    assert cache.levels(["a"]) == {"a": "unknown"}
    assert Answers.received == []


def test_verifying_can_be_switched_off_for_trials(server):
    """attestation_insecure_ssl believes whoever answers."""
    with pytest.warns(Warning, match="Unverified HTTPS"):
        assert client(server, attestation_insecure_ssl=True)(["a"]) == {"a": "trusted"}


def test_the_secret_is_not_in_the_settings_text():
    """The blob does not reach logs by way of repr."""
    assert "s3cret" not in repr(TrustedSettings(attestation_auth_blob="s3cret"))
