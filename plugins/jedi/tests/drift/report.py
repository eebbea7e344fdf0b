"""What two measurements say: decisions of PanDA's that changed, by the rule that made the difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from upstream.differences import equal

from drift.commits import Commits

Measured = Mapping[str, Any]
MOST_COMMITS = 60


def report(before: Measured, after: Measured, server: str, commits: Commits | None) -> str:
    """The report as Markdown.

    Args:
        before: measured with the release that the profiles are made after.
        after: measured on the same grids with the other one.
        server: what was asked for, a release or a folder.
        commits: that touched the brokers, where a history is there.
    """
    old, new = before["version"], after["version"]
    named = f"{new} ({server})" if server != new else new
    lines = [f"# panda-server {named} beside {old}", "", *_table(before, after), ""]
    lines += _changes(before, after)
    lines += _since(commits, old)
    return "\n".join(lines).rstrip() + "\n"


def _table(before: Measured, after: Measured) -> Iterator[str]:
    yield "| brokerage | profile | grids | decisions | equal to ours before | equal to ours now | of PanDA's changed |"
    yield "|---|---|---|---|---|---|---|"
    for kind, now in after["kinds"].items():
        then = before["kinds"][kind]
        head = f"| {kind} | {now['profile']} | {now['grids']} | {now['results']} |"
        if now["error"] or then["error"]:
            yield f"{head} {_share(then)} | {_share(now)} | not known |"
        else:
            yield f"{head} {_share(then)} | {_share(now)} | {len(changed(then, now))} |"


def _share(one: Measured) -> str:
    if one["error"]:
        return "could not be run"
    equal = one["results"] - len(one["differences"])
    return f"{equal / one['results']:.2%}" if one["results"] else "nothing decided"


def changed(before: Measured, after: Measured) -> list[tuple[Measured, str]]:
    """The decisions that PanDA takes otherwise now, each with ``new`` or ``gone`` difference from ours, or ``other``.

    Ours are the same in both measurements, so a decision that is equal to ours in both has not changed.
    """
    then = {_key(one): one for one in before["differences"]}
    now = {_key(one): one for one in after["differences"]}
    changes = [(one, "new") for key, one in now.items() if key not in then]
    changes += [(one, "gone") for key, one in then.items() if key not in now]
    return changes + [
        (one, "other") for key, one in now.items() if key in then and not equal(then[key]["theirs"], one["theirs"])
    ]


def _key(one: Measured) -> tuple[Any, ...]:
    return one["seed"], one["task"], one["dataset"], one["ramcount"]


def _changes(before: Measured, after: Measured) -> Iterator[str]:
    yield from ("## Changed decisions by rule", "")
    told = [line for kind in after["kinds"] for line in _of_kind(kind, before, after)]
    if told:
        yield from ("To look at one, in plugins/jedi/tests, with the Python of either environment:", "", *told, "")
    else:
        yield from ("None.", "")


def _of_kind(kind: str, before: Measured, after: Measured) -> Iterator[str]:
    """What is said of one brokerage."""
    failed = [(one["kinds"][kind]["error"], one["version"]) for one in (before, after) if one["kinds"][kind]["error"]]
    if failed:
        yield from (f"- {kind} could not be run with {of}: {error}" for error, of in failed)
        return
    changes = changed(before["kinds"][kind], after["kinds"][kind])
    causes = Counter((cause, how) for one, how in changes for cause in one["causes"])
    for (cause, how), number in causes.most_common():
        example = next(one for one, its in changes if its == how and cause in one["causes"])
        look = f"python -m upstream {after['kinds'][kind]['profile']} {example['seed']} --kind {kind}"
        yield f"- {kind}, {cause}: {number} {_WORDS[how]} (task {example['task']}: `{look}`)"


_WORDS = {
    "new": "equal before, different from ours now",
    "gone": "different from ours before, equal now",
    "other": "different from ours in both, in another way",
}


def _since(commits: Commits | None, release: str) -> Iterator[str]:
    if commits is None:
        return
    since = commits.since or "the beginning"
    yield from (f"## Commits that touched the brokers since {since}", "")
    if commits.since.removeprefix("v") != release:
        yield from (f"The history does not know {release}; these are since the newest release before it.", "")
    yield from (f"- {line}" for line in commits.lines[:MOST_COMMITS])
    if len(commits.lines) > MOST_COMMITS:
        yield f"- ... and {len(commits.lines) - MOST_COMMITS} more"
    yield from () if commits.lines else ("None.",)
