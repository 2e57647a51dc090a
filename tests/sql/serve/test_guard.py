"""With which settings there would be no guard; what it does is tests/security/test_bi_user.py's part."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.guard import GUARD_CONF, check_guard_conf


@pytest.mark.parametrize(
    "key", ["spark.sql.hive.thriftServer.singleSession", "spark.sql.runSQLOnFiles"]
)
def test_a_setting_that_switches_the_guard_off_is_refused(key: str) -> None:
    """One session for all would be the server's own, which may do everything."""
    with pytest.raises(ConfigError, match="would not be kept to reading"):
        check_guard_conf({key: "TRUE"})


def test_the_guard_s_own_settings_are_no_hindrance() -> None:
    """Nor are those of others."""
    check_guard_conf(GUARD_CONF)
    check_guard_conf({"spark.driver.memory": "4g"})
