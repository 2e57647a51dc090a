"""Runs `penstock serve`: check, start Spark, serve, print where, and stop cleanly. Returns the exit status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.connector.registry import engine_jars
from penstock.sql.cli.commands.script_input import ScriptInput
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, say
from penstock.sql.cli.signals import StopSignals
from penstock.sql.cli.spark import open_spark, spark_logs
from penstock.sql.errors.exit_status import ExitStatus
from penstock.sql.runner.run_mode import StopRequest
from penstock.sql.serve.guard import GUARD_CONF, allow_only_reading, check_guard, check_guard_conf
from penstock.sql.serve.server import (
    Served,
    class_path_conf,
    prepared,
    serving,
    stop_jobs,
    until_stopped,
)
from penstock.sql.serve.settings import Anyone, ServeSettings, jdbc_url, sqlalchemy_url
from penstock.sql.session.session import connect
from penstock.sql.spark_process.jvm import end_jvm


def serve_catalog(
    settings: ServeSettings,
    script: ScriptInput,
    files: Sequence[Path],
    *,
    operations: bool,
    output: OutputFormat,
    verbose: bool,
) -> int:
    """Serve until stopped; with `operations` pipelines, checkpoints, options and functions too.

    Raises InputError before Spark is started where that can be known, RunError.
    """
    request = StopRequest()
    with StopSignals(request) as signals, prepared(settings) as ready:
        check_guard_conf(script.spark_conf)
        script.check(script.open_context())
        logs = spark_logs(script.project, verbose=verbose)
        settled = {**class_path_conf(engine_jars()), **script.spark_conf, **GUARD_CONF}
        try:
            spark = open_spark(script.master, settled, logs)
            allow_only_reading(spark)  # before any session of Penstock's: it marks what is ours
            check_guard(spark)
            with connect(
                spark, script.catalog_url, publish="session" if operations else "tables"
            ) as session:
                signals.listen()
                jobs = [job for file in files for job in session.run_file(file, script.variables)]
                with serving(session, ready, jobs) as served:
                    _announce(served, output)
                    well = until_stopped(served, request)
                stop_jobs(jobs, request)
            say("stopped")
        finally:
            end_jvm()
    return 0 if well else ExitStatus.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientUrls:
    """How clients connect, by the library that they use."""

    jdbc: str
    sqlalchemy: str | None


def _announce(served: Served, output: OutputFormat) -> None:
    """Print where to connect: URLs on stdout, the rest on stderr."""
    settings, names = served.settings, served.published.names
    urls = _ClientUrls(jdbc=jdbc_url(settings), sqlalchemy=sqlalchemy_url(settings))
    if output is OutputFormat.JSON:
        print_json(
            {
                "host": settings.host,
                "port": settings.port,
                **asdict(urls),
                "tls": settings.tls is not None,
                "login": type(settings.login).__name__,
                "tables": sorted(str(identifier) for identifier in names),
                "jobs": [job.name for job in served.jobs],
            }
        )
    else:
        print_lines(
            [
                f"JDBC        {urls.jdbc}",
                f"SQLAlchemy  {urls.sqlalchemy or 'see docs/bi.md for TLS'}",
            ]
        )
    who = " to everybody on this machine" if isinstance(settings.login, Anyone) else ""
    say(f"serving {len(names)} tables and views{who}, for reading; Ctrl-C stops")
