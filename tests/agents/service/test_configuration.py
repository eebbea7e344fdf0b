from __future__ import annotations

from pathlib import Path

import pytest

from agents.service import registry
from agents.service.base import AgentOptions
from agents.service.configuration import (
    ConfigurationError,
    JobsAreMadeByJedi,
    LeaseSection,
    ProcessSettings,
    load,
    load_process,
)
from broker import resources

ENTRY = "agents:\n  production_job: {period_s: 30, cycle_budget_s: 60}\n"


def test_the_shipped_file_is_valid_and_names_every_agent() -> None:
    configuration = load(resources.path("config/agents.yaml"), registry.NAMES)
    assert set(configuration.agents) == set(registry.NAMES)
    assert configuration.leases == LeaseSection(15.0, 5.0, 2.0, 60.0)


def test_missing_settings_have_defaults(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(ENTRY)
    configuration = load(file, registry.NAMES)
    assert configuration.leases == LeaseSection()
    section = configuration.agents["production_job"]
    assert (section.enabled, section.period_s, section.cycle_budget_s, section.options) == (True, 30.0, 60.0, {})


def test_a_file_that_extends_the_shipped_one_says_only_what_is_different(tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(
        "extends: shipped\nleases: {length_s: 20}\nagents:\n  rucio_output: {enabled: true}\n"
        "  cleanup: {period_s: 60, options: {services_days: 2, decisions_days: null}}\n"
    )
    shipped = load(resources.path("config/agents.yaml"), registry.NAMES)
    extended = load(file, registry.NAMES)
    assert set(extended.agents) == set(registry.NAMES)
    assert extended.agents["production_job"] == shipped.agents["production_job"]
    assert (extended.leases.length_s, extended.leases.renew_every_s) == (20.0, 5.0)
    assert extended.agents["rucio_output"] == shipped.agents["rucio_output"].model_copy(update={"enabled": True})
    cleanup = shipped.agents["cleanup"]
    options = {**cleanup.options, "services_days": 2, "decisions_days": None}
    assert extended.agents["cleanup"] == cleanup.model_copy(update={"period_s": 60.0, "options": options})
    file.write_text("extends: shipped\n")
    assert load(file, registry.NAMES).agents == shipped.agents


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("agents: {production_job: {period_s: 0, cycle_budget_s: 60}}", "period_s"),
        ("agents: {production_job: {period_s: .inf, cycle_budget_s: 60}}", "period_s"),
        ("agents: {production_job: {period_s: soon, cycle_budget_s: 60}}", "period_s"),
        ("agents: {production_job: {period_s: 30}}", "cycle_budget_s"),
        ("agents: {production_job: {period_s: 30, cycle_budget_s: 60, colour: red}}", "colour"),
        ("agents: {nobody: {period_s: 30, cycle_budget_s: 60}}", "no such agent: nobody"),
        (ENTRY + "leases: {renew_every_s: 14}", "renew_every_s"),
        (ENTRY + "service: {stop_within_s: -1}", "stop_within_s"),
        ("extends: theirs\n" + ENTRY, "extends"),
        ("extends: shipped\nagents: {production_job: {colour: red}}", "colour"),
        ("extends: shipped\nagents: {nobody: {enabled: true}}", "nobody"),
        ("extends: shipped\nagents: [production_job]", "agents"),
        ("[1, 2", "line"),
        ("- 1", "no mapping"),
        ("agents: !!python/object/apply:os.getcwd []", "python"),
    ],
)
def test_a_wrong_setting_is_reported_with_its_file(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(content)
    with pytest.raises(ConfigurationError) as error:
        load(file, registry.NAMES)
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml", registry.NAMES)


@pytest.mark.parametrize("name", registry.NAMES)
def test_every_registered_agent_can_be_made_and_checks_its_options(name: str) -> None:
    process = ProcessSettings(profile="panda-gen" if name == "generic_job" else "seed")
    agent = registry.make(name, {}, process)
    assert agent.name == name
    assert agent.title
    assert isinstance(agent.options, AgentOptions)
    with pytest.raises(ConfigurationError, match="no_such_option"):
        registry.make(name, {"no_such_option": 1}, process)


def test_the_shipped_process_file_is_valid() -> None:
    assert load_process(resources.path("config/broker.yaml")) == ProcessSettings()


@pytest.mark.parametrize(
    "content", ["colour: red", "job_generation: nobody", "profile: ../seed", "profile: ''", "[1", "- 1"]
)
def test_a_wrong_process_file_is_reported(tmp_path: Path, content: str) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"broker\.yaml"):
        load_process(file)


@pytest.mark.parametrize(
    ("job_generation", "installation", "makes_jobs"),
    [
        ("auto", "standalone", True),
        ("auto", "beside", False),
        ("broker", "standalone", True),
        ("jedi", "standalone", False),
        ("jedi", "beside", False),
    ],
)
def test_who_makes_the_jobs(job_generation: str, installation: str, makes_jobs: bool) -> None:
    settings = ProcessSettings.model_validate({"job_generation": job_generation})
    assert settings.makes_jobs(installation) == makes_jobs


def test_jobs_are_never_made_alongside_panda() -> None:
    settings = ProcessSettings(job_generation="broker")
    with pytest.raises(JobsAreMadeByJedi, match=r"no output files.* no parameters.*the task would never end"):
        settings.makes_jobs("beside")
