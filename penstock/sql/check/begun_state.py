"""How the checkpoint of an INSERT began, which decides how a later start runs it: its form, and what runs its stages.

Read as files, for `penstock plan`. What cannot be read is as if it were not there: the start decision tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.reader import read_shape
from penstock.sql.incremental.describe import FOLDER as RECOMPUTED
from penstock.sql.incremental.keyed.files.manifest import newest_manifest
from penstock.sql.plan.query_location import as_checkpointed
from penstock.sql.plan.stage_runs import StageRun, StageRunner

if TYPE_CHECKING:
    from penstock.sql.checkpoint.reader import CheckpointFiles
    from penstock.sql.plan.analysed import AnalysedInsert
    from penstock.sql.plan.explain.document import ExplainedOperator

FROM_SCRATCH = "`--from-scratch` begins with keyed operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunState:
    """What a checkpoint holds: `shape` is of the query it was made for, None without one.

    `recomputes`: stages of Spark keep its state. `buckets` is the number of them in the state of keyed operators, None
    without such a state.
    """

    shape: QueryFingerprint | None = None
    recomputes: bool = False
    buckets: int | None = None

    def form_of(self, insert: AnalysedInsert) -> AnalysedInsert:
        """Return an INSERT in the form that the checkpoint has, which it resumes in."""
        return as_checkpointed(insert, self.shape)

    def running(self, root: ExplainedOperator) -> ExplainedOperator:
        """Return a plan with what runs its stages where the checkpoint decides that."""
        if not self.recomputes:
            return root
        runs = tuple(map(_begun, root.stage_runs))
        return replace(root, stage_runs=runs, inputs=tuple(map(self.running, root.inputs)))


def read_begun(files: CheckpointFiles) -> BegunState:
    """Read how a checkpoint began."""
    try:
        manifest = newest_manifest(files)
        return BegunState(
            shape=read_shape(files),
            recomputes=bool(files.names(RECOMPUTED)),
            buckets=None if manifest is None else manifest.buckets,
        )
    except StateMismatchError:
        return BegunState()


def _begun(run: StageRun) -> StageRun:
    if run.by is StageRunner.SPARK:
        return run
    return StageRun(stage=run.stage, by=StageRunner.SPARK, begun=True, instead=FROM_SCRATCH)
