"""The Kubernetes objects agree with the image; `make kubernetes` checks them against the schemas of Kubernetes."""

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
    """All objects of the base."""
    for file in sorted(BASE.glob("*.yaml")):
        if file.name != "kustomization.yaml":
            yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


DEPLOYMENTS = {item["metadata"]["name"]: item["spec"] for item in objects() if item["kind"] == "Deployment"}


def test_the_base_has_the_objects_of_a_service() -> None:
    kinds = sorted({item["kind"] for item in objects()})
    assert kinds == ["Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"]
    resources = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert sorted(resources) == sorted(file.name for file in BASE.glob("*.yaml") if file.name != "kustomization.yaml")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_has_no_more_rights_than_the_image_needs(name: str) -> None:
    pod = DEPLOYMENTS[name]["template"]["spec"]
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_containers_run_valid_commands_and_write_only_to_volumes(name: str) -> None:
    pod = DEPLOYMENTS[name]["template"]["spec"]
    (home,) = re.findall(r"BROKER_HOME=(\S+)", DOCKERFILE)
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        if "args" in container:
            assert usable(["broker", *container["args"]])
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable == {home, "/tmp"}
    assert pod["terminationGracePeriodSeconds"] > LONGEST_STOP_S


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_password_is_a_file_of_an_external_secret(name: str) -> None:
    pod = DEPLOYMENTS[name]["template"]["spec"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        variables = {variable["name"]: variable["value"] for variable in container["env"]}
        volume_of_path = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert volume_of_path[str(Path(variables[VARIABLE]).parent)] == "secrets"
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets == {"secrets": "gridbroker"}
    assert "Secret" not in {item["kind"] for item in objects()}


def test_probes_use_routes_and_commands_of_the_service() -> None:
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
        spec_of_kind = {item["kind"]: item["spec"] for item in objects() if item["metadata"]["name"] == name}
        assert spec_of_kind["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
        assert spec_of_kind["NetworkPolicy"]["podSelector"]["matchLabels"] == labels
