"""The page about SubmitPools names the test of each question: those tests and cases exist."""

from __future__ import annotations

import re

from broker.pools.model.job_request import KNOWN
from broker.pools.model.requirement import STANDARD_KEYWORDS
from tests.docs.source_tree import ROOT, files

PAGE = (ROOT / "docs/explanation/submit-pools.md").read_text(encoding="utf-8")


def test_the_named_tests_and_cases_exist() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in files("tests") if path.suffix == ".py")
    contract = (ROOT / "tests/contract/submit_pool.json").read_text(encoding="utf-8")
    test_names = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(test_names) > 15
    assert {name for name in test_names if f"def {name}(" not in code} == set()
    cases = set(re.findall(r"`((?:sp|jd|cf)\d\d)`", PAGE))
    assert len(cases) > 8
    assert {case for case in cases if f'"case": "{case}"' not in contract} == set()


def test_every_refusal_code_and_every_keyword_is_on_the_page() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (*files("broker/pools"), ROOT / "broker/pools/answers/pool_files.py")
    )
    codes = set(re.findall(r'(?:RequirementRefused|_refuse)\(\s*"([a-z-]+)"', source))
    assert len(codes) > 20
    page = PAGE.replace("`-", "`unterminated-")
    assert {code for code in codes if f"`{code}`" not in page} == set()
    missing = {word for word in (*KNOWN, *STANDARD_KEYWORDS.values()) if f"`{word}`" not in PAGE}
    assert missing == {"MinNumberOfProcessors", "MaxNumberOfProcessors", "SubmitPool"}
