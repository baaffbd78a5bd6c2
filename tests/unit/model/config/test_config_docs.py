"""docs/configuration.md follows the tables."""

import generate_config_docs


def test_the_document_of_all_settings_is_current():
    written = generate_config_docs.TARGET.read_text()
    assert written == generate_config_docs.document(), "run tools/generate_config_docs.py"
