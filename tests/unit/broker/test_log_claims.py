"""Claims on logs: one at a time, owned, given back once, void with the replica; and who works on a log's files without one."""

import ast
from pathlib import Path

import pytest
from member_kit import new_store, put_topic, start_member

import barnabas.broker
from barnabas.broker.log_claims import CLAIM_RETRY_MS
from barnabas.broker.replicas import Replica
from barnabas.broker.tasks import drive
from barnabas.broker.tenure import TenureOver


@pytest.fixture
def member():
    store = new_store()
    put_topic(store, "t", (1, 2), (1, 2))
    return start_member(store)


@pytest.fixture
def replica(member):
    return member.node.replicas.get("t", 0)


@pytest.fixture
def claims(member):
    return member.node.claims


class Work:
    """Something that works on the files of a log until it is told to end."""

    def __init__(self):
        self.done = None

    def start(self, done):
        self.done = done


class Heard:
    """A `done` that keeps what it is called with."""

    def __init__(self):
        self.answers = []

    def __call__(self, result, error):
        self.answers.append((result, error))


def made_again(replica):
    """Another topic's replica with the same name."""
    topic = type(replica.topic)("t", b"another".ljust(16, b"-"), replica.topic.partitions)
    return Replica(topic, 0, replica.log, replica.state, replica.directory)


def test_one_has_a_claim_at_a_time(claims, replica):
    claim = claims.take(replica)
    assert claims.is_taken(replica)
    assert claims.take(replica) is None
    claim.give()
    assert not claims.is_taken(replica)
    assert claims.take(replica) is not None


def test_it_is_given_back_once(claims, replica):
    claim = claims.take(replica)
    claim.give()
    other = claims.take(replica)
    with pytest.raises(AssertionError):
        claim.give()
    assert claims.is_taken(replica), "the other one's"
    other.give()


def test_nobody_works_under_a_claim_that_was_given_back(claims, replica):
    claim = claims.take(replica)
    claim.give()
    with pytest.raises(AssertionError):
        claim.work(Work().start)(Heard())


def test_a_topic_that_was_made_again_is_another_log(claims, replica):
    claim = claims.take(replica)
    other = made_again(replica)
    assert not claims.is_taken(other)
    second = claims.take(other)
    claim.give()
    assert claims.is_taken(other)
    second.give()


@pytest.mark.parametrize("end", ["drop", "lose"])
def test_it_is_void_when_the_replica_is_hosted_no_more(member, claims, replica, end):
    claim, work, heard = claims.take(replica), Work(), Heard()
    claim.check()
    claim.work(work.start)(heard)
    assert not heard.answers
    if end == "drop":
        member.node.replicas.drop(replica.key)
    else:
        replica.lose()
    assert claim.is_void
    with pytest.raises(TenureOver):
        claim.check()
    work.done("a result", None)
    [(result, error)] = heard.answers
    assert result is None
    assert isinstance(error, TenureOver), "in place of the result: the log is not touched any more"
    never = Work()
    claim.work(never.start)(heard)
    assert never.done is None, "and nothing else begins"
    assert isinstance(heard.answers[1][1], TenureOver)
    claim.give()
    assert claims.take(replica) is None


def test_results_and_errors_of_work_come_through(claims, replica):
    claim, heard, problem = claims.take(replica), Heard(), OSError("broken")
    for result, error in ((7, None), (None, problem)):
        work = Work()
        claim.work(work.start)(heard)
        assert claims.is_working(replica)
        work.done(result, error)
        assert not claims.is_working(replica)
    assert heard.answers == [(7, None), (None, problem)]


def test_who_waits_gets_it_when_it_is_free_and_nothing_if_it_is_not_wanted(member, claims, replica):
    claim, got, wanted = claims.take(replica), [], {"first": True, "second": True}
    for name in wanted:
        task = claims.wait(replica, lambda name=name: wanted[name])
        drive(task, lambda result, problem, name=name: got.append((name, result, problem)))
    member.events.advance(CLAIM_RETRY_MS)
    assert got == []
    wanted["first"] = False
    member.events.advance(CLAIM_RETRY_MS)
    assert got == [("first", None, None)]
    claim.give()
    member.events.advance(CLAIM_RETRY_MS)
    [_, (name, second, problem)] = got
    assert (name, problem, claims.is_taken(replica)) == ("second", None, True)
    second.give()


def test_who_waits_for_a_replica_that_goes_gets_nothing(member, claims, replica):
    claim, got = claims.take(replica), []
    drive(claims.wait(replica, lambda: True), lambda *answer: got.append(answer))
    member.node.replicas.drop(replica.key)
    claim.give()
    member.events.advance(CLAIM_RETRY_MS)
    assert got == [(None, None)]


def test_who_must_be_alone_waits_for_those_who_share(member, claims, replica):
    sharing, heard, got = Work(), Heard(), []
    claims.share(replica, sharing.start)(heard)
    beside = claims.take(replica)
    assert beside is not None, "others need not be alone"
    beside.give()
    drive(claims.wait(replica, lambda: True, alone=True), lambda *answer: got.append(answer))
    member.events.advance(CLAIM_RETRY_MS)
    assert got == []
    sharing.done(None, None)
    member.events.advance(CLAIM_RETRY_MS)
    assert got[0][0] is not None


def test_a_deletion_hurries_the_owner_and_waits_for_all_that_works(member, claims, replica):
    hurried, works, order = [], [Work(), Work()], []
    claim = claims.take(replica, lambda: hurried.append("close"))
    claim.work(works[0].start)(lambda *_: order.append("claimed"))
    claims.share(replica, works[1].start)(lambda *_: order.append("shared"))
    member.node.replicas.drop(replica.key)
    claims.until_idle([replica])(lambda *_: order.append("idle"))
    assert hurried == ["close"]
    works[1].done(None, None)
    assert order == ["shared"]
    works[0].done(None, None)
    assert order == ["shared", "claimed", "idle"], (
        "the owner first: it may have something to do on the log"
    )
    assert claims.is_taken(replica), (
        "an owner that does not work is not waited for: its claim is void"
    )


def test_a_deletion_does_not_wait_where_nothing_works(member, claims, replica):
    claims.take(made_again(replica)).work(Work().start)(Heard())
    member.node.replicas.drop(replica.key)
    heard = Heard()
    claims.until_idle([replica])(heard)
    assert heard.answers == [(None, None)]


def test_a_stop_waits_for_claims_and_work_and_hands_out_no_more(claims, replica):
    claim, sharing, stopped, waited = claims.take(replica), Work(), Heard(), []
    claims.share(replica, sharing.start)(Heard())
    drive(claims.wait(replica, lambda: True), lambda *answer: waited.append(answer))
    claims.stop(stopped)
    claim.give()
    assert claims.take(replica) is None
    assert not stopped.answers
    sharing.done(None, None)
    assert stopped.answers == [(None, None)]


def test_work_that_cannot_be_started_has_ended(member, claims, replica):
    """As when there is no thread for it: else nothing would ever be deleted or stopped again."""

    def fail(_done):
        raise RuntimeError("can't start new thread")

    heard, idle, stopped = Heard(), Heard(), Heard()
    claim = claims.take(replica)
    claim.work(fail)(heard)
    [(_result, problem)] = heard.answers
    assert isinstance(problem, RuntimeError)
    claim.give()
    member.node.replicas.drop(replica.key)
    claims.until_idle([replica])(idle)
    claims.stop(stopped)
    assert (idle.answers, stopped.answers) == ([(None, None)], [(None, None)])


# Who works in the background

BACKGROUND = {"background", "_background", "directory_jobs"}
#: Every module that sends work into the background, and what it has to do with the files of a log that is hosted.
VERDICTS = {
    "api/describe_log_dirs.py": "asks for the room on the volume",
    "api/fetch.py": "reads",
    "api/list_offsets.py": "reads",
    "api/produce.py": "opens a batch in memory",
    "checkpointing.py": "writes files of the directory, of offsets taken beforehand",
    "cleaners.py": "called by compaction.py as its work",
    "compaction.py": "claim, but for the checkpoint of the directory",
    "directory_jobs.py": "passes on what others ask for",
    "directory_opening.py": "runs before any log is opened",
    "coordinators.py": "reads, by shard_loading.py",
    "dropping.py": "share",
    "handshakes.py": "computes",
    "file_removal.py": "share; folders that were set aside have names of their own",
    "group_lag.py": "reads",
    "log_loading.py": "opens logs that nobody knows yet",
    "log_moves.py": "claim, but for a folder of its own name, and one that it left, of its topic's id",
    "log_opening.py": "opens logs that nobody knows yet",
    "node.py": "decodes and encodes in memory",
    "pieces.py": "encodes in memory",
    "repairs.py": "claim, and nothing else",
    "replicas.py": "flushes: changes no file",
    "retention.py": "share",
    "shard_loading.py": "reads",
    "shutdown.py": "closes logs, after every claim was given back",
    "startup.py": "runs before requests come",
    "token_keys.py": "asks a server",
    "topic_deletion.py": "waits until nothing else works",
    "transactions.py": "reads, by shard_loading.py",
    "truncation.py": "claim, but for the checkpoints of the directory",
    "unfinished_segments.py": "claim, and nothing else",
}


def test_whoever_works_in_the_background_is_known():
    """A new one needs a verdict here, and the claim if it touches files of a hosted log."""
    root = Path(barnabas.broker.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        names = {
            ast.unparse(node).removeprefix("self.").removeprefix("_")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute | ast.Name)
        }
        if names & BACKGROUND or any(name.rpartition(".")[2] in BACKGROUND for name in names):
            found[path.relative_to(root).as_posix()] = names
    assert found.keys() == VERDICTS.keys()
    for path, verdict in VERDICTS.items():
        assert ("node.claims.share" in found[path]) == verdict.startswith("share"), path
        assert ("claim.work" in found[path]) == verdict.startswith("claim,"), path
