"""What is remembered is what the store has, whatever was added, removed, asked and restarted before (CVE-2024-27309).

The gate remembers answers and the rules are changed resource by resource; a node that starts on the same store has neither seen. Both
must say the same of everybody.
"""

from __future__ import annotations

from acl_kit import ACLS_VERSION, AclKit, any_filter, creation
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker import acl_znodes
from barnabas.core.acl import Acls
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.wire.messages.create_acls import CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsRequest

USERS = ("alice", "bob")
NAMES = ("a", "ab", "*")
OPERATIONS = (Operation.READ, Operation.DESCRIBE, Operation.ALL)
PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)

RULES = st.builds(
    creation,
    st.sampled_from(OPERATIONS),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([f"User:{user}" for user in USERS] + ["User:*"]),
    st.sampled_from(["*", "192.0.2.1"]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
    st.sampled_from(PATTERNS),
)
FILTERS = st.builds(
    any_filter,
    resource_name_filter=st.sampled_from([*NAMES, None]),
    pattern_type_filter=st.sampled_from([*PATTERNS, PatternType.ANY, PatternType.MATCH]),
    operation=st.sampled_from([*OPERATIONS, Operation.ANY]),
    permission_type=st.sampled_from([Permission.ALLOW, Permission.DENY, Permission.ANY]),
)
STEPS = st.lists(
    st.lists(RULES, min_size=1, max_size=3) | FILTERS | st.just("crash"), min_size=1, max_size=8
)


class _Asked:
    """Who asks."""

    def __init__(self, link):
        self.link = link
        self.client_id = ""
        self.api_key = 3


def answers(kit, links, decide):
    return {
        (user, operation, kind, name): decide(user, links[user], operation, kind, name)
        for user in USERS
        for operation in OPERATIONS[:2]
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        for name in ("a", "ab", "abc", "b")
    }


def links_of(kit):
    found = {}
    for user in USERS:
        client = kit.new_user(user)
        found[user] = kit.machine.link_of(client.connection)
    return found


def stored(kit):
    """The rules as somebody who starts now would read them."""
    trees = []
    kit.node.world.coordination.read_tree("/", lambda tree, _problem: trees.append(tree))
    kit.run(lambda: trees)
    acls = Acls(frozenset({"User:root"}))
    for resource, entries in acl_znodes.read_all(trees[0]).items():
        acls.replace(resource, entries)
    return acls


@settings(max_examples=25)
@given(STEPS)
def test_the_gate_answers_as_the_store_would(steps):
    kit = AclKit()
    links = links_of(kit)
    for step in steps:
        if step == "crash":
            kit.crash()
            links = links_of(kit)
        elif isinstance(step, list):
            kit.ask(CreateAclsRequest(creations=step), ACLS_VERSION)
        else:
            kit.ask(DeleteAclsRequest(filters=[step]), ACLS_VERSION)
        acls, gate = stored(kit), kit.node.gate

        def by_store(user, link, operation, kind, name, acls=acls):
            return acls.decide(f"User:{user}", link.peer_host, operation, kind, name).is_allowed

        def by_gate(_user, link, operation, kind, name, gate=gate):
            return gate.allows(_Asked(link), operation, kind, name, quietly=True)

        assert answers(kit, links, by_gate) == answers(kit, links, by_store)
