"""Nodes with access rules, and clients with names: what the tests of authorisation share."""

from __future__ import annotations

import json
import logging

from node_kit import NodeKit

from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.principal import Principal
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
ACLS_VERSION = 3


def creation(
    operation,
    kind=ResourceType.TOPIC,
    name="t",
    principal="User:alice",
    host="*",
    permission=Permission.ALLOW,
    pattern=PatternType.LITERAL,
):
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def any_filter(**fields):
    given = {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    return DeleteAclsFilter(**(given | fields))


class AclKit(NodeKit):
    """A node that asks its rules; its first client is a super user."""

    def __init__(self, seed=1, **settings):
        given = {"authorizer_class_name": AUTHORIZER, "super_users": "User:root;User:broker"}
        super().__init__(seed, **(given | settings))

    def _wait_up(self):
        super()._wait_up()
        self.name(self.client, "root")

    def name(self, client, user):
        """Let a client be somebody."""
        link = self.machine.link_of(client.connection)
        link.principal = Principal("User", user)
        return client

    def new_user(self, user):
        """Connect as somebody."""
        return self.name(self.new_client(), user)

    def allow(self, *creations):
        """Add rules as the super user."""
        answer = self.ask(CreateAclsRequest(creations=list(creations)), ACLS_VERSION)
        assert [one.error_code for one in answer.results] == [0] * len(creations), answer

    def revoke(self, **fields):
        """Take rules away; how many they were."""
        request = DeleteAclsRequest(filters=[any_filter(**fields)])
        (result,) = self.ask(request, ACLS_VERSION).filter_results
        assert result.error_code == 0
        return len(result.matching_acls)


def audited(caplog, event):
    """What the audit log has of one kind, as objects."""
    lines = [
        json.loads(record.getMessage())
        for record in caplog.records
        if record.name == "barnabas.audit" and record.levelno >= logging.INFO
    ]
    return [line for line in lines if line["event"] == event]
