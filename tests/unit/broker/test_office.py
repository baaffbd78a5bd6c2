"""What is asked of a controller is answered, also if its term ends meanwhile: nothing was done then, as far as it knows."""

import pytest
from member_kit import new_store, put_topic, start_member

from barnabas.core.controller.effects import Effects
from barnabas.model.ids import TopicPartition


@pytest.fixture
def member():
    store = new_store()
    put_topic(store, "t", (1, 2), (1,))
    return start_member(store)


def ask(office, question=None):
    answers = []
    office.ask(question or (lambda _machine: ("yes", Effects())))(
        lambda *answer: answers.append(answer)
    )
    return answers


def test_a_question_is_answered_when_what_follows_is_written(member):
    answers = ask(member.node.office)
    member.events.settle()
    assert answers == [("yes", None)]


def test_whoever_asks_a_term_that_has_ended_is_told(member):
    office = member.node.office
    office.close()
    assert ask(office) == [(None, None)]


def test_questions_that_wait_for_their_turn_are_answered_when_the_term_ends(member):
    office = member.node.office
    office.on_order_refused()  # looks at the store: what comes behind it waits
    first, second = ask(office), ask(office)
    assert (first, second) == ([], [])
    office.close()
    assert (first, second) == ([(None, None)], [(None, None)])
    member.events.settle()
    assert (len(first), len(second)) == (1, 1)


def test_an_answer_is_no_promise_if_the_term_ends_before_it_is_written(member):
    office = member.node.office
    answers = ask(office, lambda machine: machine.on_reassign({TopicPartition("t", 0): (1,)}))
    assert answers == [], "the store has to take it first"
    office.close()
    assert answers == [(None, None)]


def test_a_question_that_makes_the_controller_fail_is_answered(member):
    def fails(_machine):
        raise AssertionError("planted")

    answers = ask(member.node.office, fails)
    for _ in range(20):
        member.events.advance(100)
    assert answers == [(None, None)]
