"""``config/api.yaml`` as typed values: where the API listens, whom it trusts, and what it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from agents.service.configuration import Seconds, Section, read_file
from broker.access.claims import LONGEST_LIFE_S
from broker.access.policies import RoleRule

Count = Annotated[int, Field(ge=1)]
_FORM_AROUND_A_FILE_BYTES = 4096
HOUR_S, DAY_S = 3600.0, 86400.0
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
LOOPBACK_HOSTS = frozenset(LOCAL_HOSTS)


class LimitSection(Section):
    """``limits``: what one client may ask of one process."""

    body_bytes: Count = 1 << 20
    document_bytes: Count = 100 << 20
    path_bytes: Count = 2048
    json_depth: Count = 100
    header_within_s: Seconds = 10.0
    body_within_s: Seconds = 30.0
    idle_s: Seconds = 15.0
    connections: Count = 2000
    event_listeners: Count = 200
    page: Count = 500
    sandbox_bytes: Count = 10 << 20
    sandboxes_of_user_bytes: Count = 1 << 30

    @property
    def sandbox_body_bytes(self) -> int:
        """Limit for a form with one archive of panda-client in it."""
        return self.sandbox_bytes + _FORM_AROUND_A_FILE_BYTES


class DatabaseSection(Section):
    """``database``: the pool of one process; pilots use ``pilots`` of its ``connections``, half unless given."""

    connections: Count = 8
    pilots: Count | None = None
    statement_timeout_s: Seconds = 5.0
    wait_s: Seconds = 2.0

    @model_validator(mode="after")
    def _leaves_some(self) -> Self:
        if self.pilots is not None and self.pilots >= self.connections:
            raise ValueError("pilots: it must be below connections, or nobody else is answered")
        return self

    @property
    def for_pilots(self) -> int:
        """Maximum number of connections that pilots use."""
        return self.pilots or max(1, self.connections // 2)


class DecidingSection(Section):
    """``deciding``: requests that decide again, such as ``?evaluate=true`` and why-not."""

    at_once: Count = 2
    within_s: Seconds = 30.0


class Rate(Section):
    """Requests a second that are refilled, and how many may come at once."""

    per_s: Seconds
    burst: Count


class RateSection(Section):
    """``rate``: by role; somebody with several roles has the largest."""

    anonymous: Rate = Rate(per_s=20, burst=100)
    reader: Rate = Rate(per_s=50, burst=200)
    submitter: Rate = Rate(per_s=20, burst=100)
    pilot: Rate = Rate(per_s=1000, burst=2000)
    operator: Rate = Rate(per_s=50, burst=200)
    tuner: Rate = Rate(per_s=50, burst=200)


class MetricSection(Section):
    """``metrics``: queues that are a label."""

    queues: tuple[str, ...] = ()


class RunSection(Section):
    """``runs``: what-ifs and sweeps."""

    at_once: Count = 1
    waiting: Count = 20


class LoginSection(Section):
    """``web.login``: the client of the page at one of the issuers (OpenID Connect, code flow with PKCE).

    Attributes:
        issuer: one of ``issuers``.
        client_id: of the page there; a public client needs no secret.
        client_secret_file: with the secret of a confidential client.
        scopes: that are asked for.
        authorization_endpoint: where people log in; without it that of the discovery document.
        token_endpoint: where the code is exchanged; likewise.
    """

    issuer: str
    client_id: str
    client_secret_file: Path | None = None
    scopes: tuple[str, ...] = ("openid", "profile")
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None


class CorsSection(Section):
    """``cors``: pages of other origins that browsers may let ask the API.

    Attributes:
        origins: scheme, host and port, such as ``https://grafana.example.org``; none: no page elsewhere may.
    """

    origins: tuple[Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.-]+(:\d{1,5})?$", max_length=300)], ...] = ()


class WebSection(Section):
    """``web``: the page.

    Attributes:
        bigpanda: address of the PanDA monitor, to which pages link.
        session_s: how long somebody stays logged in.
        login: how people log in where issuers are configured; without it only tokens count.
    """

    bigpanda: str | None = Field(default="https://bigpanda.cern.ch", pattern=r"^https?://[^\s\"'<>]+$")
    session_s: Seconds = 12 * HOUR_S
    login: LoginSection | None = None


class ClientLoginSection(Section):
    """``panda_client.login``: the public client at one of the issuers with which users get tokens (RFC 8628).

    Attributes:
        issuer: one of ``issuers``; its discovery document names the device authorisation endpoint.
        client_id: of the client there.
        client_secret: told to everybody who asks, as the flow needs it; so it is none.
        audience: that tokens are asked for; one of the issuer's.
    """

    issuer: str
    client_id: str
    client_secret: str = ""
    audience: str


class PandaClientSection(Section):
    """``panda_client``: what panda-client is told.

    Attributes:
        transformation: address or path of the transformation of tasks that name none; null: ``/trf/user/runGen`` here.
        login: how users get tokens; null: they bring them.
    """

    transformation: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\"'`$;&|<>\\]+$")] | None = None
    login: ClientLoginSection | None = None


class IssuerSection(Section):
    """One issuer that is trusted, for what the map of roles says.

    Attributes:
        issuer: its name, as it stands in ``iss``.
        audiences: of these a token names one.
        algorithms: of signatures; no others count, whatever a token says.
        roles: the map.
        jwks_uri: address of the keys; without it that of the discovery document, which must be at the issuer's host.
        username_claim: the claim that is the name of the user in PanDA.
        identifier_required: whether ``jti`` must be there (WLCG); SciTokens may go without.
        reusable: whether a token is good for several writes of people; see docs/how-to/serve-the-api.md.
        longest_life_s: between issue and expiry.
        refresh_after_s: age of the keys at which they are asked for again (WLCG profile: 6 h).
        expire_after_s: age at which they count no longer (WLCG profile: 1 to 4 days).
        ca_file: certificates that the issuer's is checked with, instead of the system's.
    """

    issuer: str
    audiences: tuple[str, ...] = Field(min_length=1)
    algorithms: tuple[Literal["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256"], ...] = ("RS256", "ES256")
    roles: tuple[RoleRule, ...] = ()
    jwks_uri: str | None = None
    username_claim: str = "preferred_username"
    identifier_required: bool = True
    reusable: bool = False
    longest_life_s: Seconds = LONGEST_LIFE_S
    refresh_after_s: Annotated[float, Field(ge=60, le=DAY_S)] = 6 * HOUR_S
    expire_after_s: Annotated[float, Field(ge=DAY_S, le=4 * DAY_S)] = 2 * DAY_S
    ca_file: Path | None = None

    @model_validator(mode="after")
    def _is_reached_safely(self) -> Self:
        for address in (self.issuer, self.jwks_uri):
            parts = urlsplit(address or self.issuer)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS):
                raise ValueError(f"{address}: the address must begin with https://")
        return self


class ApiConfiguration(Section):
    """All of ``config/api.yaml``, checked; what it leaves out has its default."""

    anonymous_read: bool = True
    hosts: tuple[Annotated[str, Field(pattern=r"^[^\s/@:]+$|^\[?[0-9a-fA-F:.]+\]?$")], ...] = LOCAL_HOSTS
    limits: LimitSection = LimitSection()
    database: DatabaseSection = DatabaseSection()
    deciding: DecidingSection = DecidingSection()
    rate: RateSection = RateSection()
    metrics: MetricSection = MetricSection()
    runs: RunSection = RunSection()
    cors: CorsSection = CorsSection()
    web: WebSection = WebSection()
    panda_client: PandaClientSection = PandaClientSection()
    issuers: tuple[IssuerSection, ...] = ()

    @model_validator(mode="after")
    def _issuers_differ(self) -> Self:
        names = [issuer.issuer for issuer in self.issuers]
        if len(set(names)) < len(names):
            raise ValueError("issuers: the same issuer stands there twice")
        if self.web.login is not None and self.web.login.issuer not in names:
            raise ValueError("web.login: its issuer is none of issuers")
        if self.panda_client.login is not None and self.panda_client.login.issuer not in names:
            raise ValueError("panda_client.login: its issuer is none of issuers")
        return self


def load(path: Path) -> ApiConfiguration:
    """Read and check the file.

    Raises:
        ConfigurationError: it is missing, is not YAML, or has unknown names or values out of range.
    """
    return read_file(path, ApiConfiguration)
