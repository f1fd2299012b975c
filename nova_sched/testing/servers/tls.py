"""Throw-away certificates for TLS listeners of private servers."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from nova_sched.testing.servers.process import ServerFailed, find_program


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a TLS listener: the authority clients must know, the server's certificate and its key."""

    ca: Path
    certificate: Path
    key: Path


def make_tls_files(folder: Path, host: str = "localhost") -> TlsFiles:
    """Make an authority and a certificate for `host` (a DNS name or 127.0.0.1), valid for a day.

    :raises MissingServer: when the program openssl is not installed.
    """
    files = TlsFiles(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    ca_key = folder / "ca.key"
    name = f"IP:{host}" if host.replace(".", "").isdigit() else f"DNS:{host}"
    _openssl(*_request("nova_sched test authority", ca_key, files.ca))
    _openssl(
        *_request(host, files.key, files.certificate),
        *("-CA", str(files.ca), "-CAkey", str(ca_key), "-addext", f"subjectAltName={name}"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
    )
    return files


def _request(name: str, key: Path, certificate: Path) -> list[str]:
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-x509", "-days", "1"]
    return ["req", *kind, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate)]


def _openssl(*words: str) -> None:
    command = [find_program("openssl", "openssl"), *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerFailed(f"openssl ended with {done.returncode}:\n{done.stderr}")
