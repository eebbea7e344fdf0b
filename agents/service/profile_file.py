"""Profiles as files: ``profiles/NAME.yaml`` of the operator's own, else the shipped one."""

from __future__ import annotations

from pathlib import Path

from agents.service.configuration import ConfigurationError, ProcessSettings, config_file
from broker.brokerages.profile import Profile, ProfileError, read_profile


def profile_file(name: str, folder: Path | None = None) -> Path:
    """The file of a profile: that in ``folder`` if it is there, else the shipped one."""
    return config_file(f"profiles/{name}.yaml", folder)


def load_profile(name: str, folder: Path | None = None) -> Profile:
    """The profile of a name, with what it extends.

    Raises:
        OSError: there is no such file.
        ProfileError: it is wrong, or extends one that is not there.
    """
    return read_profile(_text(name, folder), lambda other: _text(other, folder))


def profile_in_force(process: ProcessSettings) -> Profile:
    """The profile that ``broker.yaml`` names.

    Raises:
        ConfigurationError: it is not there, or wrong.
    """
    try:
        return load_profile(process.profile, process.folder)
    except (OSError, ProfileError) as error:
        where = str(profile_file(process.profile, process.folder))
        raise ConfigurationError(str(error), where, "correct the profile") from error


def _text(name: str, folder: Path | None) -> str:
    return profile_file(name, folder).read_text(encoding="utf-8")
