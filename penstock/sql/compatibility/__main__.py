"""Write docs/flink-compatibility.md; run from the root of a checkout."""

from __future__ import annotations

from penstock.sql.compatibility.page import PAGE, ROWS, write_page

if __name__ == "__main__":
    PAGE.write_text(write_page(ROWS), encoding="utf-8")
