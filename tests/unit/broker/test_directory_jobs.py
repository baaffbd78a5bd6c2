"""Jobs on the directories run one at a time, in order, also after one that failed."""

from barnabas.broker.directory_jobs import DirectoryJobs


class Held:
    """A Background that runs a job when it is told to."""

    def __init__(self):
        self.jobs = []

    def run(self, job, done):
        self.jobs.append((job, done))

    def run_one(self):
        job, done = self.jobs.pop(0)
        try:
            result, error = job(), None
        except OSError as caught:
            result, error = None, caught
        done(result, error)


def test_one_at_a_time_in_order():
    held, finished = Held(), []
    jobs = DirectoryJobs(held)
    for name in "abc":
        jobs.run(lambda name=name: name, lambda result, _error: finished.append(result))
    assert len(held.jobs) == 1
    held.run_one()
    assert (finished, len(held.jobs)) == (["a"], 1)
    held.run_one()
    held.run_one()
    assert (finished, held.jobs) == (["a", "b", "c"], [])


def test_a_failure_is_told_to_its_owner_and_stops_nobody():
    held, errors = Held(), []
    jobs = DirectoryJobs(held)

    def fail():
        raise OSError("no room")

    jobs.run(fail, lambda _result, error: errors.append(error))
    jobs.run(lambda: None, lambda _result, error: errors.append(error))
    held.run_one()
    held.run_one()
    assert str(errors[0]) == "no room"
    assert errors[1] is None


def test_what_cannot_be_started_is_told_to_its_owner_and_stops_nobody():
    held, answers = Held(), []

    def fail(*_args):
        raise RuntimeError("can't start new thread")

    jobs = DirectoryJobs(held)
    jobs.run(lambda: "first", lambda *answer: answers.append(answer), after=fail)
    jobs.run(lambda: "second", lambda *answer: answers.append(answer))
    held.run_one()
    held.run = fail
    jobs.run(lambda: "third", lambda *answer: answers.append(answer))
    del held.run
    jobs.run(lambda: "fourth", lambda *answer: answers.append(answer))
    held.run_one()
    assert [result for result, _error in answers] == [None, "second", None, "fourth"]
    assert [type(error) for _result, error in answers] == [
        RuntimeError, type(None), RuntimeError, type(None),
    ]  # fmt: skip
