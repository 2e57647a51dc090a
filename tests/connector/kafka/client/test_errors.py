"""What the errors of Kafka tables say to do: the safe way first."""

from __future__ import annotations

import pytest

from penstock.connector.kafka.client.errors import topic_changed


@pytest.mark.parametrize("found", [None, "another id"])
def test_the_hint_for_a_deleted_topic_names_from_scratch_and_removes_nothing(
    found: str | None,
) -> None:
    """It sets the checkpoint aside, where a removed one is gone."""
    hint = topic_changed("orders", "an id", found).hint or ""

    assert "--from-scratch" in hint
    assert "remove" not in hint
    assert hint.index("--from-scratch") < hint.index("pipeline.name")
