"""Where files are not dispatched to queues, all input must be on disk."""

from __future__ import annotations

import pytest

from broker.rules.generic_job.cuts.file_dispatch import FileDispatch
from tests.rules.builders import check_cut


@pytest.mark.parametrize(
    ("disabled", "all_local", "keep"),
    [(True, True, True), (True, False, False), (False, True, True), (False, False, True)],
)
def test_file_dispatch(disabled: bool, all_local: bool, keep: bool) -> None:
    check_cut(FileDispatch().configured({"disabled": disabled}), keep, 1.0, all_local=all_local)
