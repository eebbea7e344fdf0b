"""Addresses that the API listens on, and the local token."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from broker.access.policies import Role
from broker.api import local_token
from broker.api.local_token import LocalToken, TokenFileRefused
from broker.api.server import ListenOptions, NotSafe, check, is_loopback
from broker.cli import context
from tests.cli.commands import runner

EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), (EVERYWHERE, False), ("::", False),
     ("192.0.2.1", False), ("broker.example.org", False), ("localhost.example.org", False), ("", False)],
)  # fmt: skip
def test_loopback_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_listening_beyond_this_machine_needs_tls_or_a_proxy(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.touch()
    key.touch()
    for safe in (
        ListenOptions(),
        ListenOptions(EVERYWHERE, behind_proxy=True),
        ListenOptions(EVERYWHERE, certificate=certificate, key=key),
    ):
        assert check(safe) is safe
    for unsafe in (
        ListenOptions(EVERYWHERE),
        ListenOptions("::"),
        ListenOptions(EVERYWHERE, certificate=certificate),
        ListenOptions(key=key),
        ListenOptions(EVERYWHERE, certificate=certificate, key=tmp_path / "none.pem"),
    ):
        with pytest.raises(NotSafe):
            check(unsafe)


def test_the_command_refuses_with_exit_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    result = runner(capsys, "--db", "postgresql://localhost:9/none")("api", "--host", EVERYWHERE)
    assert result.status == 3 and "in the clear" in result.err


def test_without_the_extra_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "find_spec", lambda name: None)
    result = runner(capsys, "--db", "postgresql://localhost:9/none")("api")
    assert result.status == 1 and 'pip install "gridbroker[api]"' in result.err


def test_the_token_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = local_token.read_or_make(home)
    file = local_token.token_file(home)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(token) >= 40
    assert local_token.read_or_make(home) == token
    identity = LocalToken(token).identify(token)
    assert identity is not None and set(identity.grants) == set(Role)
    assert LocalToken(token).identify(token[:-1]) is None
    file.chmod(0o640)
    with pytest.raises(TokenFileRefused, match="others can read it"):
        local_token.read_or_make(home)


def test_an_invalid_token_file_is_refused(tmp_path: Path) -> None:
    file = local_token.token_file(tmp_path)
    file.write_text("short")
    file.chmod(0o600)
    with pytest.raises(TokenFileRefused, match="no token"):
        local_token.read_or_make(tmp_path)
    file.unlink()
    os.symlink("/etc/hostname", file)
    with pytest.raises(TokenFileRefused):
        local_token.read_or_make(tmp_path)
