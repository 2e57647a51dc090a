"""Checkpoints of released versions resume: their fingerprints, as those versions wrote them, are those of today's plans.

Each `checkpoints/*.json` holds a query and the `penstock-query.json` of it. None is ever written anew: a plan that needs
another fingerprint is a new form, and the query goes on in the form whose fingerprint is saved.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.sql.checkpoint.fingerprint import QueryFingerprint, fingerprint_of
from penstock.sql.incremental.describe import state_of
from tests.sql.test_plan_cases import Case, planned

SAVED = sorted((Path(__file__).parent / "checkpoints").glob("*.json"))


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_a_saved_fingerprint_is_that_of_its_query(path: Path) -> None:
    """Byte for byte."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    shape = QueryFingerprint.from_value(saved["fingerprint"])
    query = planned(Case(title=path.stem, **saved["query"]), saved["tables"])
    forms = [query, *query.in_other_phases()]
    stages = () if query.maintained is None else state_of(query.maintained)
    shapes = [
        fingerprint_of(one.query, one.source_names, shape.sink, stages or one.phases)
        for one in forms
    ]

    assert shape in shapes
