"""Write docs/flink-compatibility.md; run from the root of a checkout."""

from __future__ import annotations

from penstock.sql.compatibility.page import PAGE, write_page
from penstock.sql.compatibility.rows import ROWS

if __name__ == "__main__":
    PAGE.write_text(write_page(ROWS), encoding="utf-8")
