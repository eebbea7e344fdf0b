from __future__ import annotations

import pytest

from broker.formats.model.feature_keys import RefusedBaseError, base_of


@pytest.mark.parametrize(
    ("value", "scheme", "place"),
    [
        ("/etc/machinefeatures", "local", "/etc/machinefeatures/hs06"),
        ("/etc/machinefeatures/", "local", "/etc/machinefeatures/hs06"),
        ("http://host/jobfeatures", "http", "http://host/jobfeatures/hs06"),
        ("http://host/jobfeatures///", "http", "http://host/jobfeatures/hs06"),
        ("https://host:8443/a/b", "https", "https://host:8443/a/b/hs06"),
        ("http://[::1]:80/x", "http", "http://[::1]:80/x/hs06"),
    ],
)
def test_one_slash_joins_base_and_key(value: str, scheme: str, place: str) -> None:
    base = base_of(value)
    assert (base.way, base.place_of("hs06")) == (scheme, place)


@pytest.mark.parametrize(
    "value",
    ["", "relative/path", "file:///etc", "ftp://host/x", "HTTP://host/x", "http://", "http:///x", "http://user@host/x",
     "http://host/x?y=1", "http://host/x#y", "http://host/a b", "http://host:99999/x", "/etc\n/x", "http://h\u00f6st/x"],
)  # fmt: skip
def test_any_other_base_is_refused(value: str) -> None:
    with pytest.raises(RefusedBaseError):
        base_of(value)
