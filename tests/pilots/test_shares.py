from __future__ import annotations

import numpy as np
import pytest

from broker.pilots.model.task_queue_shares import Claim, real_priorities, task_queue_weights


def weights(*claims: Claim, share: float = 1000.0, background: bool = False) -> list[float]:
    return task_queue_weights(claims, np.full(len(claims), share), background=background).tolist()


def own(owner: str, work: object, priority: float = 1.0, share: str = "s") -> Claim:
    return Claim(share, None, owner, work, priority)


def test_one_task_queue_has_the_share() -> None:
    assert weights(own("ann", 1)) == [1000.0]


def test_an_owner_s_share_is_split_by_priority() -> None:
    assert weights(own("ann", 1), own("ann", 2, 3.0)) == [250.0, 750.0]


def test_task_queues_for_the_same_work_each_have_its_whole_weight() -> None:
    assert weights(own("ann", 1), own("ann", 1)) == [1000.0, 1000.0]
    assert weights(own("ann", 1), own("ann", 1), own("ann", 2, 2.0)) == [500.0, 500.0, 500.0]


def test_a_group_divides_its_weight_among_its_owners() -> None:
    assert weights(own("ann", 1), own("bob", 1)) == [500.0, 500.0]
    group = Claim("s", "g", "ann", 1, 1.0), Claim("s", "g", "bob", 1, 3.0)
    assert weights(*group, own("cid", 1), own("dan", 1)) == [250.0, 750.0, 500.0, 500.0]
    # shares are independent of each other
    assert weights(own("ann", 1), own("bob", 1, share="t")) == [1000.0, 1000.0]


def test_work_of_two_owners_in_a_group_is_not_the_same_work() -> None:
    assert weights(Claim("s", "g", "ann", 1, 1.0), Claim("s", "g", "bob", 1, 1.0)) == [500.0, 500.0]


def test_background_work_has_the_minimum_weight() -> None:
    claims = own("ann", 1, 1e-5), own("ann", 2, 3.0)
    assert weights(*claims, background=True) == [0.001, 1000.0]
    assert weights(*claims) == pytest.approx([1000 * 1e-5 / 3.00001, 1000 * 3 / 3.00001])
    assert weights(claims[0], background=True) == [0.001]


def test_no_weight_is_below_the_minimum() -> None:
    assert weights(own("ann", 1, 1e-5), own("ann", 2, 1e6))[0] == 0.001


def test_real_priorities() -> None:
    priorities = real_priorities(np.array([-3, 0, 1, 9, 10, 11, 1000]))
    assert priorities.tolist() == [1e-5, 1e-5, 1.0, 9.0, 1e6, 1.1e6, 1e8]
