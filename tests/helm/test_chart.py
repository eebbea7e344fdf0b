"""The chart renders the objects of ``deploy/kubernetes/base`` and applies its values to them."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from broker import __version__
from tests.helm.chart import BASE, CHART, Chart, Objects, Refused, by_name

BROKER, API = ("Deployment", "gridbroker-broker"), ("Deployment", "gridbroker-api")


def kustomize_objects() -> Objects:
    """The base rendered by kustomize, without the hashes in the names of its ConfigMaps."""
    result = subprocess.run(["kubectl", "kustomize", BASE], check=True, capture_output=True, text=True)
    return by_name(re.sub(r"(gridbroker-(?:config|database))-[a-z0-9]{10}\b", r"\1", result.stdout))


def pod(objects: Objects, deployment: tuple[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = objects[deployment]["spec"]["template"]["spec"]
    return spec


def test_the_chart_renders_the_objects_of_the_base(chart: Chart) -> None:
    expected, rendered = kustomize_objects(), chart.objects()
    for name in (BROKER, API):
        assert rendered[name]["spec"]["template"]["metadata"].pop("annotations")
        pods = pod(rendered, name)
        for container in [*pods.get("initContainers", []), *pods["containers"]]:
            assert container.pop("imagePullPolicy") == "IfNotPresent"
            assert container["image"] == f"gridbroker:{__version__}"
            container["image"] = "gridbroker:latest"
    # kustomize leaves the labels of spread constraints unchanged; the chart uses the whole selector
    for constraint in pod(rendered, BROKER)["topologySpreadConstraints"]:
        assert constraint["labelSelector"]["matchLabels"].pop("app.kubernetes.io/name") == "gridbroker"
    for constraint in pod(expected, BROKER)["topologySpreadConstraints"]:
        constraint["labelSelector"]["matchLabels"].pop("app.kubernetes.io/name", None)
    assert rendered == expected


def test_the_chart_is_of_this_release_and_clean(chart: Chart) -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    assert "0 chart(s) failed" in chart.run("lint", "--strict", str(CHART))


def test_values_are_applied_to_the_objects(chart: Chart) -> None:
    objects = chart.objects(
        'image={"repository":"registry.example.org/gridbroker","tag":"1.2.3","pullSecrets":[{"name":"registry"}]}',
        'database.url="postgresql://broker@db.example.org:5432/panda?sslmode=verify-full"',
        'secretName="of-mine"',
        'brokers={"replicas":5,"pod":{"nodeSelector":{"disk":"fast"}}}',
        'api.resources={"limits":{"memory":"2Gi"}}',
        'config={"agents.yaml":"extends: shipped\\n"}',
        "serviceMonitor.enabled=true",
    )
    broker, api = pod(objects, BROKER), pod(objects, API)
    images = {
        container["image"] for container in [*broker["initContainers"], *broker["containers"], *api["containers"]]
    }
    assert images == {"registry.example.org/gridbroker:1.2.3"}
    assert broker["imagePullSecrets"] == api["imagePullSecrets"] == [{"name": "registry"}]
    assert (objects[BROKER]["spec"]["replicas"], objects[API]["spec"]["replicas"]) == (5, 2)
    assert (broker["nodeSelector"], "nodeSelector" in api) == ({"disk": "fast"}, False)
    assert api["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}
    for pod_spec in (broker, api):
        assert [volume["secret"]["secretName"] for volume in pod_spec["volumes"] if "secret" in volume] == ["of-mine"]
    assert objects["ConfigMap", "gridbroker-database"]["data"] == {
        "BROKER_DATABASE_URL": "postgresql://broker@db.example.org:5432/panda?sslmode=verify-full"
    }
    files = objects["ConfigMap", "gridbroker-config"]["data"]
    assert files["agents.yaml"] == "extends: shipped\n"
    assert files["api.yaml"] == (BASE / "config" / "api.yaml").read_text(encoding="utf-8")
    assert objects["ServiceMonitor", "gridbroker-api"]["metadata"]["labels"]["app.kubernetes.io/name"] == "gridbroker"


@pytest.mark.parametrize("value", ['config={"a.yaml":"x"}', 'database.url="postgresql://broker@other/broker"'])
def test_a_changed_configuration_restarts_the_pods(chart: Chart, value: str) -> None:
    def checksums(objects: Objects) -> list[str]:
        annotations = [objects[name]["spec"]["template"]["metadata"]["annotations"] for name in (BROKER, API)]
        return [pod_annotations["checksum/configuration"] for pod_annotations in annotations]

    before, after = checksums(chart.objects()), checksums(chart.objects(value))
    assert not set(before) & set(after)
    assert before == checksums(chart.objects())


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("replicas=3", "replicas"),
        ('brokers.replicas="three"', "replicas"),
        ("brokers.replicas=-1", "replicas"),
        ('database.url="postgresql://broker:secret@database/broker"', "url"),
        ('database.url="oracle://broker@database/broker"', "url"),
        ('secretName=""', "secretName"),
        ('image.pullPolicy="Sometimes"', "pullPolicy"),
        ('config={"agents.yaml":1}', "agents"),
    ],
)
def test_an_invalid_value_is_refused_by_its_name(chart: Chart, value: str, name: str) -> None:
    with pytest.raises(Refused, match=name):
        chart.objects(value)
