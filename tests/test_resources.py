from __future__ import annotations

import pytest

from broker import resources


@pytest.mark.parametrize(
    "name", ["config/agents.yaml", "config/gdpconfig.yaml", "config", "schema/panda", "schema/broker"]
)
def test_shipped_files_are_found(name: str) -> None:
    assert resources.path(name).exists()


def test_the_error_for_a_missing_file_names_it() -> None:
    with pytest.raises(FileNotFoundError, match=r"config/none\.yaml.*reinstall"):
        resources.path("config/none.yaml")
