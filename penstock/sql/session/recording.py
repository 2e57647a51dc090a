"""Record the classes of Spark and Delta for the class data archive of later starts (`connector/jvm/class_data.py`).

A few small pipelines run in a temporary folder, in a Spark of their own. Called by `penstock prepare`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from penstock.sql.session.session import connect
from penstock.sql.spark_process.jvm import end_jvm, launch_jvm, log_files
from penstock.sql.spark_process.spark_session import FOR_PEOPLE, start_spark

RECORDING_TIMEOUT_S = 300.0
"""For the end of the recorded process, which writes the archive: seconds on an idle core."""

RECORDED = """
CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(10, 2), at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.customer.length' = '1');

CREATE TABLE copies (id BIGINT, customer STRING, amount DECIMAL(10, 2), at TIMESTAMP(3))
WITH ('connector' = 'delta', 'path' = 'copies');

CREATE TABLE minutes (start_of_window TIMESTAMP(3), customer STRING, orders BIGINT, amount DECIMAL(20, 2))
WITH ('connector' = 'delta', 'path' = 'minutes');

CREATE TABLE customers (customer STRING, orders BIGINT, PRIMARY KEY (customer) NOT ENFORCED)
WITH ('connector' = 'delta', 'path' = 'customers');

INSERT INTO copies SELECT id, customer, amount, at FROM orders WHERE amount IS NOT NULL;

INSERT INTO minutes SELECT window_start, customer, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, customer;

INSERT INTO customers SELECT customer, COUNT(*) FROM orders GROUP BY customer;
"""
"""An append, a window with state, an upsert: most of Spark's classes are common to all pipelines."""


def record_classes(options: Sequence[str], *, verbose: bool) -> None:
    """Run the pipelines in a Spark whose Java gets the options, and wait for the end of its process."""
    with tempfile.TemporaryDirectory(prefix="penstock-prepare-") as folder, chdir(folder):
        files = None if verbose else log_files(Path(folder) / "logs")
        try:
            spark = start_spark(
                conf=FOR_PEOPLE,
                launch=lambda settings: launch_jvm(settings, files, java_options=options),
            )
            file = Path(folder) / "recorded.sql"
            file.write_text(RECORDED, encoding="utf-8")
            with connect(spark) as session:
                session.run_file(file, available_now=True)
        finally:
            end_jvm(RECORDING_TIMEOUT_S)
