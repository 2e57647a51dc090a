"""`penstock jobs`: what runs here, what has stopped, and why nothing comes out; without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import CatalogOption, FormatOption, TargetOption, VerboseOption
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.script.project import find_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.sql.ui.documents.fields import Document


def job_lines(pipelines: Sequence[Document]) -> list[str]:
    """Write pipelines for people: a line each, and one with what it does."""
    if not pipelines:
        return ["nothing runs here, and the project has no checkpoint"]
    width = max(len(str(each["name"])) for each in pipelines)
    lines: list[str] = []
    for each in pipelines:
        facts = [str(each["status"])]
        if "batch_id" in each:
            facts.append(f"batch {each['batch_id']}")
        if "watermark" in each:
            facts.append(f"watermark {each['watermark']}")
        if "runner" in each:
            facts.append(str(each["runner"]))
        lines.append(f"{each['name']!s:<{width}}  {', '.join(facts)}")
        lines.append(f"  {each['sentence']}")
    return lines


def jobs(
    context: typer.Context,
    output: FormatOption = OutputFormat.TABLE,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """List the pipelines of a project, whoever runs them: their status, and in a sentence what each waits for.

    They are read from the catalog and the checkpoint directories: of splits there is what the last batch planned.

    Example: `penstock jobs`
    """
    with reporting(context, verbose=verbose, output=output):
        from penstock.sql.execution.context import open_names
        from penstock.sql.ui.documents.stored import StoredPipelines

        project = find_project(Path.cwd(), target=target)
        names = open_names(open_catalog(catalog, project), project.root)
        stored = StoredPipelines(namespace=names, project=project.root, configured=project)
        found = stored.pipelines()
        for notice in stored.notices.texts:
            say(f"warning: {notice}")
        match output:
            case OutputFormat.JSON:
                print_json(found)
            case OutputFormat.TABLE:
                print_lines(job_lines(found))
