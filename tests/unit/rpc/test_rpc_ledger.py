"""Who holds which delivery, over connections that come and go."""

from __future__ import annotations

from nova_sched.rpc.bus.taken import Arrival, Ledger, Taken


def taken(tag: int, uid: str | None = None, redelivered: bool = False) -> Taken:
    return Taken(message={}, ctxt={}, unique_id=uid, tag=tag, redelivered=redelivered)


def arrived(ledger: Ledger, *batch: Taken) -> list[Arrival]:
    return [ledger.arrive(one) for one in batch]


def fresh() -> Ledger:
    ledger = Ledger()
    ledger.connected()
    return ledger


def test_a_whole_prefix_is_acknowledged_with_one_frame() -> None:
    """Tags in order are answered together, later ones one by one."""
    ledger, batch = fresh(), [taken(tag, f"u{tag}") for tag in range(1, 7)]
    arrived(ledger, *batch)
    assert ledger.finished([batch[0], batch[1], batch[2], batch[4]]) == [(3, True), (5, False)]
    assert ledger.outstanding == 2
    assert ledger.finished([batch[3]]) == [(4, True)]


def test_what_is_in_hand_adopts_its_new_delivery() -> None:
    """After a lost connection the work goes on and the new delivery is acknowledged, not the old one."""
    ledger, working = fresh(), taken(9, "u")
    arrived(ledger, working)
    ledger.connected()
    assert arrived(ledger, taken(1, "u", redelivered=True)) == [Arrival.ADOPTED]
    assert ledger.finished([working]) == [(1, True)]


def test_a_late_acknowledgement_of_an_old_connection_is_dropped_and_repeated() -> None:
    """The old tag means nothing on the new connection; the redelivery is answered at once, never done twice."""
    ledger, working = fresh(), taken(9, "u")
    arrived(ledger, working)
    ledger.connected()
    assert ledger.finished([working]) == []
    assert ledger.stale_acknowledgements == 1
    assert arrived(ledger, taken(1, "u", redelivered=True)) == [Arrival.FINISHED]


def test_messages_nobody_touched_stay_above_suspicion() -> None:
    """What was only prefetched when the connection broke is not treated as the killer of a worker."""
    ledger, unseen, flagged = fresh(), taken(1, "a"), taken(2, "b", redelivered=True)
    arrived(ledger, unseen, flagged)
    ledger.untouched([unseen, flagged])
    ledger.connected()
    again = [
        taken(1, "a", redelivered=True),
        taken(2, "b", redelivered=True),
        taken(3, "c", redelivered=True),
    ]
    assert arrived(ledger, *again) == [Arrival.NEW] * 3
    assert [one.redelivered for one in again] == [False, True, True]


def test_the_same_message_sent_twice_is_two_deliveries() -> None:
    """On one connection nothing is adopted: each copy is answered for itself."""
    ledger, first, second = fresh(), taken(1, "u"), taken(2, "u")
    assert arrived(ledger, first, second) == [Arrival.NEW, Arrival.NEW]
    assert ledger.finished([second]) == [(2, False)]
    assert ledger.finished([first]) == [(1, True)]


def test_given_back_messages_are_new_when_they_return() -> None:
    """Giving back is not finishing."""
    ledger, one = fresh(), taken(1, "u")
    arrived(ledger, one)
    assert ledger.returned([one]) == [1]
    assert ledger.returned([one]) == []
    back = taken(2, "u", redelivered=True)
    assert arrived(ledger, back) == [Arrival.NEW]
    assert back.redelivered


def test_memory_is_bounded() -> None:
    """Finished ids are forgotten in their order."""
    ledger = Ledger(remember=10)
    ledger.connected()
    for tag in range(1, 100):
        one = taken(tag, f"u{tag}")
        ledger.arrive(one)
        ledger.finished([one])
    assert arrived(ledger, taken(100, "u99"), taken(101, "u1")) == [Arrival.FINISHED, Arrival.NEW]
