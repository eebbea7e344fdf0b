"""``config/broker.yaml`` as typed values."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.service.configuration import ConfigurationError
from broker.errors import Refused
from broker.store.schema.migrate import STANDALONE
from broker.wrong_values import what_is_wrong
from broker.yaml_text import read_yaml

JobGeneration = Literal["auto", "broker", "jedi"]


class JobsAreMadeByJedi(Refused):
    """The broker is told to make jobs in a database in which JEDI makes them."""

    def __init__(self) -> None:
        super().__init__(
            "job_generation: broker is refused alongside PanDA: a job written without JEDI has no output files, no log "
            "file and no parameters; PanDA never activates it, closes it after TIMEOUT_defined and gives its files "
            "back, so the task would never end",
            "broker.yaml",
            "leave job_generation: auto, and let JEDI make the jobs through the plug-in "
            "(docs/how-to/run-alongside-panda.md)",
        )


class ProcessSettings(BaseModel):
    """The file, and the folder that other configuration files are looked for in.

    Attributes:
        profile: name of the profile under ``config/profiles``.
        job_generation: who makes the jobs.
        job_statistics: where the job counts come from.
        folder: with configuration files of the operator's own; not a word of the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: str = Field(default="seed", pattern=r"^[A-Za-z0-9_-]+$")
    job_generation: JobGeneration = "auto"
    job_statistics: Literal["live", "panda"] = "live"
    folder: Path | None = Field(default=None, exclude=True)

    def makes_jobs(self, installation: str) -> bool:
        """Whether the broker makes the jobs itself, in an ``installation`` that is standalone or alongside PanDA.

        Alongside PanDA it never does: JEDI writes output and log files, their serial numbers and the parameters of a
        job when it makes one, and only jobs that it made are set up and activated.

        Raises:
            JobsAreMadeByJedi: the broker is told to make them alongside PanDA.
        """
        if self.job_generation == "auto":
            return installation == STANDALONE
        if self.job_generation == "broker" and installation != STANDALONE:
            raise JobsAreMadeByJedi
        return self.job_generation == "broker"


def load_process(path: Path, folder: Path | None = None) -> ProcessSettings:
    """Read and check the file; ``folder`` is that of the operator's own files.

    Raises:
        ConfigurationError: it is missing, no YAML, has unknown names, or wrong values.
    """
    remedy = "compare with the file that is shipped"
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        settings = ProcessSettings.model_validate({} if content is None else content)
        return settings.model_copy(update={"folder": folder})
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), remedy) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(str(error), str(path), remedy) from error
