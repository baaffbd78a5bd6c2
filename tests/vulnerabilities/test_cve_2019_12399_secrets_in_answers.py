"""CVE-2019-12399: an answer about settings showed the secrets in them. DescribeConfigs tells that there is one, never which; and neither does what is logged or told
as a figure."""

import logging

from chaos.wire_kit import RawClient
from vulnerability_kit import PASSWORD, broker_with_login

from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER = 4


def test_describe_configs_tells_of_secrets_and_not_which(caplog):
    caplog.set_level(logging.DEBUG)
    with broker_with_login() as (_, open_), RawClient(open_) as client:
        for synonyms in (False, True):
            asked = DescribeConfigsResource(
                resource_type=BROKER, resource_name="1", configuration_keys=None
            )
            request = DescribeConfigsRequest(
                resources=[asked], include_synonyms=synonyms, include_documentation=True
            )
            answer = client.ask(request, 4)
            assert answer.results[0].error_code == 0, answer.results[0].error_message
            assert PASSWORD not in str(answer)
            secrets = [one for one in answer.results[0].configs if one.is_sensitive]
            assert secrets
            assert all(one.value is None for one in secrets)
    assert PASSWORD not in caplog.text
