"""What the objects for Kubernetes say is what the image does; `make kubernetes` checks them against its schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.api.configuration import load
from broker.password_file import VARIABLE
from broker.service.commands.serve import DEFAULT_PORT
from broker.service.routes.health import router
from tests.docs.test_systemd import LONGEST_STOP_S, usable

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kubernetes" / "base"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def objects() -> Iterator[dict[str, Any]]:
    """Each object of the base."""
    for file in sorted(BASE.glob("*.yaml")):
        if file.name != "kustomization.yaml":
            yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


DEPLOYMENTS = {one["metadata"]["name"]: one["spec"] for one in objects() if one["kind"] == "Deployment"}


def test_the_base_has_what_a_service_needs() -> None:
    kinds = sorted({one["kind"] for one in objects()})
    assert kinds == ["Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"]
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted(listed) == sorted(one.name for one in BASE.glob("*.yaml") if one.name != "kustomization.yaml")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_has_no_more_rights_than_the_image_needs(name: str) -> None:
    pod = DEPLOYMENTS[name]["template"]["spec"]
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        allowed = container["securityContext"]
        assert allowed["readOnlyRootFilesystem"]
        assert not allowed["allowPrivilegeEscalation"]
        assert allowed["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_what_is_started_is_a_command_and_what_it_writes_to_is_a_volume(name: str) -> None:
    pod = DEPLOYMENTS[name]["template"]["spec"]
    (home,) = re.findall(r"BROKER_HOME=(\S+)", DOCKERFILE)
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        if "args" in container:
            assert usable(["broker", *container["args"]])
        writable = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert writable == {home, "/tmp"}
    assert pod["terminationGracePeriodSeconds"] > LONGEST_STOP_S


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_password_is_a_file_of_a_secret_that_is_not_here(name: str) -> None:
    pod = DEPLOYMENTS[name]["template"]["spec"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        variables = {one["name"]: one["value"] for one in container["env"]}
        mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        assert mounted[str(Path(variables[VARIABLE]).parent)] == "secrets"
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets == {"secrets": "gridbroker"}
    assert "Secret" not in {one["kind"] for one in objects()}


def test_probes_ask_what_the_service_answers() -> None:
    api = DEPLOYMENTS["gridbroker-api"]["template"]["spec"]["containers"][0]
    paths = {api[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths <= {route.path for route in router.routes}  # type: ignore[attr-defined]
    assert api["ports"] == [{"name": "http", "containerPort": DEFAULT_PORT}]
    assert load(BASE / "config" / "api.yaml").hosts == ("*",)
    broker = DEPLOYMENTS["gridbroker-broker"]["template"]["spec"]["containers"][0]
    for probe in ("startupProbe", "livenessProbe"):
        assert usable(broker[probe]["exec"]["command"])


def test_each_deployment_is_selected_by_its_budget_and_its_policy() -> None:
    for name, spec in DEPLOYMENTS.items():
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        of_kind = {one["kind"]: one["spec"] for one in objects() if one["metadata"]["name"] == name}
        assert of_kind["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
        assert of_kind["NetworkPolicy"]["podSelector"]["matchLabels"] == labels
