"""Room of the experts that stay in dram, without a stream."""

import itertools

from checkpoints import interrupted

from sluice.torch._streaming import _changes, _residents
from sluice.torch._streaming._expert_policies import Guarded
from sluice.torch._streaming._residents import Expert, Residents

PAGE = 4096
FILES = (_changes.__file__, _residents.__file__)


def experts_of(pages):
    """Experts with the pages, which nothing leases."""
    return [Expert((0, number), str(number), PAGE, [], set(each)) for number, each in enumerate(pages)]


def test_pages_that_neighbours_share_count_once():
    experts = experts_of([{0, 1}, {1, 2}, {2, 3}, {8, 9}])
    residents = Residents(Guarded("lru"), 4)
    for expert in experts[:3]:
        residents.use("run", expert, set())
    assert residents.in_use == ["0", "1", "2"]
    assert not residents.ask("run", experts[3], set()), "all are in use"
    residents.leave("run", experts[:2])  # nothing is leased, so both go
    assert not residents.in_use[1:] and residents.ask("run", experts[3], set())


def test_weights_that_come_next_leave_last(monkeypatch):
    monkeypatch.setattr(Expert, "is_leased", True)
    experts = experts_of([{number} for number in range(5)])
    residents = Residents(Guarded("lru"), 3)
    for expert in experts[:3]:
        residents.use("run", expert, set())
    residents.leave("run", experts[:3])
    residents.use("run", experts[3], {experts[0]})
    assert experts[0] in residents and experts[1] not in residents
    assert not residents.ask("run", experts[4], {experts[0], experts[2]})
    residents.use("run", experts[4], {experts[0], experts[2]})
    assert experts[0] not in residents and experts[2] in residents


class Lease:
    """Stands in for a lease of pages."""

    def release(self):
        """Ends it."""


def test_an_interrupt_anywhere_leaves_the_room_that_there_is():
    for at in itertools.count(1):
        experts = experts_of([{0, 1}, {1, 2}, {4, 5}])
        residents = Residents(Guarded("lru"), 3)
        for expert in experts[:2]:
            expert.requests.append(None)
            residents.use("run", expert, set())
            expert._held.append(Lease())
        residents.leave("run", experts)
        came = interrupted(lambda: residents.use("run", experts[2], set()), at, FILES)
        residents.leave("run", experts)
        (large,) = experts_of([{6, 7, 8}])
        large.key = (1, 0)
        assert residents.ask("other", large, set()), at
        if not came:
            break
    assert at > 10


def test_a_lease_that_an_interrupt_has_left_in_part_is_no_lease():
    (expert,) = experts_of([{0}])
    expert.requests += [None, None]
    expert._held += [Lease(), Lease()]
    assert expert.is_leased
    expert._held.pop()
    assert not expert.is_leased
