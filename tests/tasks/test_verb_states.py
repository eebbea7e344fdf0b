"""The whole table of task states and verbs: which verbs each state accepts, and the text of refusals."""

from __future__ import annotations

import pytest

from broker.tasks.model.verbs import ALLOWED, STATES, VERBS, Verb, WrongState, check_state

# One letter per verb: Kill, Finish, Retry, Pause, rEsume (e), reAssign (a), priOrity (o), Try-now (t).
LETTERS: dict[Verb, str] = {
    "kill": "K", "finish": "F", "retry": "R", "pause": "P", "resume": "e", "reassign": "a", "priority": "o",
    "try-now": "t",
}  # fmt: skip
TABLE = {
    "registered": "K....aot", "defined": "K....aot", "assigning": "K..P.aot",
    "ready": "KFRP.aot", "pending": "KFRP.aot", "scouting": "KFRP.aot", "scouted": "KFRP.aot", "running": "KFRP.aot",
    "topreprocess": "KFRP.aot", "preprocessing": "KFRP.aot",
    "merging": "KF....o.", "staging": "KF..e.o.", "throttled": "KF..e.ot", "paused": "KF..e.o.",
    "exhausted": "KFR..ao.", "rerefine": "K.....o.", "toretry": "K.....o.", "toincexec": "K.....o.",
    "toreassign": "K.....o.", "reassigning": "K.....o.", "finishing": "K.......",
    "prepared": "........", "passed": "........", "toabort": "........", "aborting": "........", "tobroken": "........",
    "aborted": "..R.....", "failed": "..R.....", "finished": "..R.....", "done": "........", "broken": "........",
}  # fmt: skip


def test_every_state_of_a_task_is_in_the_table() -> None:
    assert set(STATES) == set(TABLE) == set(ALLOWED) and len(STATES) == 31


@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_in_each_state(state: str, verb: Verb) -> None:
    if LETTERS[verb] in TABLE[state]:
        check_state(verb, 7, state)
        return
    with pytest.raises(WrongState) as refused:
        check_state(verb, 7, state)
    assert refused.value.what.startswith(f"task 7 is {state}: ") and f"does not take {verb}" in refused.value.what
    possible = [candidate for candidate in VERBS if LETTERS[candidate] in TABLE[state]]
    assert all(candidate in refused.value.remedy for candidate in possible)


def test_an_unknown_state_accepts_no_verb() -> None:
    with pytest.raises(WrongState, match="is obsolete: this state is not known here"):
        check_state("kill", 7, "obsolete")
