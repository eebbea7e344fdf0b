"""The verdicts of the policies of routes."""

from __future__ import annotations

import pytest

from broker.access import policies
from broker.access.policies import Grant, Identity, Policy, Role, judge

POLICIES = {name: value for name, value in vars(policies).items() if isinstance(value, Policy)}


@pytest.mark.parametrize("name", POLICIES)
def test_writing_needs_a_role(name: str) -> None:
    policy = POLICIES[name]
    if policy.writes:
        assert policy.anonymous == "never" and policy.roles
        assert judge(policy, None, anonymous_read=True) == "unauthenticated"
        for role in Role:
            expected = "allowed" if role in policy.roles else "forbidden"
            assert judge(policy, Identity("x", "y", {role: Grant(role)}), anonymous_read=True) == expected
    assert judge(policy, Identity("x", "y"), anonymous_read=True) == (
        "allowed" if policy.anonymous == "always" else "forbidden"
    )


@pytest.mark.parametrize(("configured", "answer"), [(True, "allowed"), (False, "unauthenticated")])
def test_reading_without_a_token_is_configurable(configured: bool, answer: str) -> None:
    assert judge(policies.READ, None, anonymous_read=configured) == answer
    assert judge(policies.READ_NAMES, None, anonymous_read=configured) == "unauthenticated"
    assert judge(policies.OPEN, None, anonymous_read=configured) == "allowed"
