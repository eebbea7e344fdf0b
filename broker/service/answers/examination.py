"""All findings of ``broker doctor``: about the database, PanDA's server, and the configuration."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from agents.service import registry
from agents.service.configuration import JobsAreMadeByJedi, ProcessSettings, config_file, load, load_process
from broker.alongside.answers.call_files import shipped_folder
from broker.alongside.answers.mirror_findings import mirror_findings
from broker.alongside.answers.panda_server import agents_via_panda, only_recording, server_findings
from broker.alongside.answers.plugin_findings import plugin_findings
from broker.fetching.documents import Surroundings
from broker.notifications.answers.findings import notification_findings
from broker.service.answers.doctor import Finding, examine
from broker.store.connection.database import Database
from broker.store.schema import migrate


def all_findings(
    database: Database, folder: Path | None, now: datetime, here: Surroundings, calls_folder: Path | None = None
) -> list[Finding]:
    """Return the obstacles to running on a database.

    Args:
        database: database with a current schema.
        folder: folder of the operator's own configuration files; None for the shipped ones.
        now: the time on this host (aware).
        here: clock and pauses of the process.
        calls_folder: folder of the files in which the plug-in counts what it cannot write; None for this account's.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    configuration = load(config_file("agents.yaml", folder), registry.NAMES)
    process = load_process(config_file("broker.yaml", folder), folder)
    mode = migrate.mode_of(database)
    enabled = {name: section.runs(mode) for name, section in configuration.agents.items()}
    via_panda, recording = agents_via_panda(configuration.agents), only_recording(configuration.agents)
    findings = examine(database, enabled, now, via_panda, recording, process.job_statistics)
    findings += notification_findings(database, folder, now)
    if mode != migrate.STANDALONE:
        findings += [*job_generation(process, mode), *server_findings(configuration.agents, enabled, here)]
        findings += plugin_findings(database, now, calls_folder or shipped_folder())
    if mode == migrate.MIRRORED:
        findings += mirror_findings(database, now)
    return findings


def job_generation(process: ProcessSettings, mode: str) -> list[Finding]:
    """Check whether the broker is configured to make jobs where JEDI makes them."""
    try:
        process.makes_jobs(mode)
    except JobsAreMadeByJedi as error:
        return [Finding("job_generation", "problem", error.what, error.remedy)]
    return [Finding("job_generation", "ok", "JEDI makes the jobs")]
