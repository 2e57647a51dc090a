"""Write docs/flink-compatibility.md and docs/options.md; run from the root of a checkout."""

from __future__ import annotations

from penstock.sql.compatibility import options_page, page

if __name__ == "__main__":
    page.PAGE.write_text(page.write_page(page.ROWS), encoding="utf-8")
    options_page.PAGE.write_text(options_page.write_page(), encoding="utf-8")
