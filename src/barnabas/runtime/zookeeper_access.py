"""How the broker makes itself known to ZooKeeper, and how its words there are kept from others.

Job: from settings to what kazoo is given. Must not know: what is written. Invariants: with `zookeeper.set.acl` nothing that the broker creates
can be read or changed by anybody else; the password is in no message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo.security import make_digest_acl

from barnabas.model.config.types import ConfigProblem

if TYPE_CHECKING:
    from barnabas.model.config.broker_config import BrokerConfig


def access_options(config: BrokerConfig) -> dict[str, Any]:
    """Give what kazoo's client is made with besides the address; `ConfigProblem` if the settings make no sense."""
    return {**_credentials(config), **_tls(config)}


def _credentials(config: BrokerConfig) -> dict[str, Any]:
    text = config.get("zookeeper.digest.credentials")
    if text is None:
        return {}
    user, colon, password = str(text).partition(":")
    if not (user and colon and password):
        raise ConfigProblem(
            "zookeeper.digest.credentials", "zookeeper.digest.credentials is not USER:PASSWORD"
        )
    options: dict[str, Any] = {"auth_data": [("digest", f"{user}:{password}")]}
    if config.get("zookeeper.set.acl"):
        options["default_acl"] = [make_digest_acl(user, password, all=True)]
    return options


def _tls(config: BrokerConfig) -> dict[str, Any]:
    if not config.get("zookeeper.ssl.client.enable"):
        return {}
    keys = config.get("zookeeper.ssl.keystore.location")
    password = config.get("zookeeper.ssl.keystore.password")
    return {
        "use_ssl": True,
        "check_hostname": True,
        "ca": config.get("zookeeper.ssl.truststore.location"),
        "certfile": keys,
        "keyfile": keys,
        "keyfile_password": password,
    }
