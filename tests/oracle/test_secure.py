"""The same over TLS and with logins, under rights that come and go."""

import logging

from chaos.wire_kit import BrokerProcess
from oracle.loads import PASSWORDS, Secure, assert_unbroken, drawn_seed
from security_kit import make_certificates, make_scram_users

log = logging.getLogger(__name__)

SECONDS = 4
LIMIT = 3_000


def test_partitions_hold_what_was_acknowledged(commands, tmp_path):
    files = make_certificates(tmp_path)
    with BrokerProcess(
        tmp_path / "data", listen=Secure.LISTEN, settings=Secure.settings(files)
    ) as broker:
        make_scram_users(broker.bootstrap, PASSWORDS)
        seed = drawn_seed()
        told = Secure(broker, commands, files).run(seed, tmp_path / "drivers", SECONDS, LIMIT)
        log.warning("ORACLE_SEED=%d: %s", seed, told)
        assert broker.terminate() == 0
        assert_unbroken(broker)
