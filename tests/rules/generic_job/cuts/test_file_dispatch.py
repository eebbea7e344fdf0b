"""All input on disk, where files are not sent to queues."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.cuts.file_dispatch import FileDispatch
from tests.rules.builders import check_cut


@pytest.mark.parametrize(
    ("disabled", "here", "keep"), [(True, True, True), (True, False, False), (False, True, True), (False, False, True)]
)
def test_file_dispatch(disabled: bool, here: bool, keep: bool) -> None:
    check_cut(FileDispatch().configured({"disabled": disabled}), keep, 1.0, all_local=here)
