"""The API beyond this machine, with a real certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest
import trustme

from broker.api.process import serving
from broker.api.server import ListenOptions
from broker.errors import Refused
from broker.store.connection.database import Database


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def files(authority: trustme.CA, folder: Path, name: str) -> tuple[Path, Path]:
    """The certificate and the key of a host."""
    issued = authority.issue_cert(name)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(certificate)
    return certificate, key


def test_with_a_certificate_only_tls_is_spoken(
    shared_database: Database, authority: trustme.CA, tmp_path: Path
) -> None:
    certificate, key = files(authority, tmp_path, "127.0.0.1")
    listening = ListenOptions("0.0.0.0", 0, certificate, key)  # noqa: S104 - under test
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with serving(shared_database, listening, home=tmp_path / "home", folder=None) as running:
        port = int(running.server.url.rpartition(":")[2])
        assert running.server.url.startswith("https://")
        address = f"127.0.0.1:{port}"
        with httpx.Client(verify=context, headers={"authorization": f"Bearer {running.token}"}) as client:
            assert client.get(f"https://{address}/health/live").status_code == 200
            assert client.get(f"https://{address}/api/v1/whoami").status_code == 200
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            httpx.get(f"https://{address}/health/live", verify=ssl.create_default_context())
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{address}/health/live")


@pytest.mark.parametrize("broken", ["certificate", "key", "pair"])
def test_unusable_certificate_files_are_refused_before_listening(
    shared_database: Database, authority: trustme.CA, tmp_path: Path, broken: str
) -> None:
    certificate, key = files(authority, tmp_path, "127.0.0.1")
    if broken == "pair":
        authority.issue_cert("other.example.org").private_key_pem.write_to_path(key)
    else:
        {"certificate": certificate, "key": key}[broken].write_text("no PEM")
    with (
        pytest.raises(Refused, match="the certificate cannot be used"),
        serving(
            shared_database,
            ListenOptions(port=0, certificate=certificate, key=key),
            home=tmp_path / "home",
            folder=None,
        ),
    ):
        pass
