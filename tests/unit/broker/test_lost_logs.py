"""The controller is told of lost logs again and again until the store takes it; the log says so once."""

from member_kit import new_store, put_topic, start_member


def test_a_store_that_is_away_is_told_of_once(caplog):
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    member = start_member(store)
    member.events.is_cut_off = True
    member.node.members.ask_for_orders()
    for _ in range(50):
        member.events.advance(200)
    assert caplog.text.count("the controller cannot be told of lost logs") == 1
    member.events.is_cut_off = False
    member.events.advance(200)
    assert "has lost logs: it is asked which" in caplog.text
