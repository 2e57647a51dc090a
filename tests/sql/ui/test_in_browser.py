"""The pages as a browser shows them: fast with many splits, usable without a mouse, and all of one origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.checkpoint.failure_record import FailureRecord
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.browser import Browser, has_axe
from tests.sql.metrics.metered import NOON_MS, SPLITS, job, read_batch, source_of, split
from tests.sql.sql_objects import run

TABLE = """CREATE TABLE orders (id BIGINT COMMENT 'of the shop', ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json');
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');"""
MANY = 1_000
PAGES = (
    "",
    "pipelines/shop/totals",
    "pipelines/none",
    "tables",
    "tables/{table}",
    "dead-letters",
    "settings",
)
SEEN = "return [...document.querySelectorAll('#splits-1 tbody th')].slice(0, 3).map((cell) => cell.textContent);"


@pytest.fixture
def jobs() -> list:
    """The jobs that the page shows; a test may change them meanwhile."""
    batches = [read_batch(number, source_of(*SPLITS)) for number in range(5)]
    failed = FailureRecord(at_ms=NOON_MS, code="PEN-8003", message="the sink is away")
    return [job(*batches, failures=(failed,), connectors=("kafka",))]


@pytest.fixture
def page(tmp_path: Path, jobs: list) -> Iterator[str]:
    """The address of a page of one running pipeline and one table."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    run(TABLE, namespace)
    stored = StoredPipelines(namespace=namespace, project=tmp_path)
    with serving_pages(StatusView(jobs=lambda: jobs, stored=stored), port=0) as url:
        yield url


def addresses(page: str) -> list[str]:
    """The address of each kind of page."""
    table = "default_catalog.default_database.orders"
    return [page + path.format(table=table) for path in PAGES]


def many_splits() -> list:
    """A job that reads a thousand splits, the first of which is the furthest behind."""
    return [
        split(
            number,
            number % 90,
            NOON_MS + number,
            paused="customers is behind" if number % 7 else None,
        )
        for number in range(MANY)
    ]


def test_a_thousand_splits_are_there_within_a_second(
    browser: Browser, page: str, jobs: list
) -> None:
    """From the request to the end of drawing; the best of three, as a busy machine proves nothing."""
    jobs[:] = [job(read_batch(7, source_of(*many_splits())))]

    took_ms = [browser.open(f"{page}pipelines/shop/totals") for _ in range(3)]

    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#splits-1 tbody tr")) == MANY
    assert 0 < min(took_ms) < 1_000, took_ms


def test_splits_sort_by_click_and_by_keyboard(browser: Browser, page: str, jobs: list) -> None:
    """Numbers by value; the column says its order; an update keeps the order and the focus."""
    jobs[:] = [job(read_batch(7, source_of(*many_splits())))]
    browser.open(f"{page}pipelines/shop/totals")
    buttons = browser.driver.find_elements(By.CSS_SELECTOR, "#splits-1 thead button")
    position = next(each for each in buttons if each.text.startswith("Position"))

    position.click()
    assert browser.run(SEEN) == ["orders-0", "orders-180", "orders-270"]
    assert position.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"

    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.run(SEEN) == ["orders-179", "orders-269", "orders-359"]
    browser.driver.switch_to.active_element.send_keys(Keys.TAB, Keys.SPACE)
    assert browser.run("return document.activeElement.textContent") == "End"

    jobs[:] = [job(read_batch(8, source_of(*many_splits())))]
    eventually(browser, "return document.querySelector('dl').textContent.includes('8')")
    assert browser.run("return document.activeElement.textContent") == "End"


def eventually(browser: Browser, script: str, *arguments: object) -> None:
    """Wait until a script in the page gives true."""
    WebDriverWait(browser.driver, 30).until(lambda _: browser.run(script, *arguments))


HIDDEN = """
Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});
document.dispatchEvent(new Event('visibilitychange'));
"""


def test_what_cannot_be_read_is_said_above_the_page_until_it_can(
    browser: Browser, page: str, tmp_path: Path
) -> None:
    """Once, though the list says it, too; the pipeline is there all the same."""
    said = "return document.querySelector('#connection').textContent"
    browser.open(page)
    assert browser.run(said) == ""
    (tmp_path / "penstock.toml").write_text("[settings\n")

    eventually(browser, f"{said}.includes('penstock.toml')")
    browser.open(page)
    eventually(browser, f"{said}.includes('penstock.toml')")
    shown = "return [...document.querySelectorAll('.notice')].map((each) => getComputedStyle(each).display)"
    assert browser.run(shown) == ["none"]
    assert "shop/totals" in browser.driver.find_element(By.ID, "pipelines").text
    (tmp_path / "penstock.toml").write_text("")
    eventually(browser, f"{said} === ''")


def test_a_name_of_ten_thousand_characters_leaves_the_page_as_wide_as_it_is(
    browser: Browser, page: str, jobs: list
) -> None:
    """In the list, and on the page of the pipeline."""
    long = "shop/" + "x" * 10_000
    jobs[:] = [job(read_batch(7, source_of(*SPLITS)), name=long)]
    for path in ("", f"pipelines/{long}"):
        browser.open(page + path)
        assert browser.run("return document.body.textContent.includes('xxxxx')")
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    browser.open(page)
    assert browser.run("return document.querySelector('#pipelines').offsetWidth") < 3_000


def test_a_page_that_nobody_sees_asks_for_nothing(browser: Browser, page: str, jobs: list) -> None:
    """Nor does the page of a pipeline for what another one does; once it is seen again it has what it missed."""
    other = job(read_batch(1, source_of(*SPLITS)), name="shop/other")
    jobs.append(other)
    address = f"{page}pipelines/shop/totals"
    browser.open(address)
    eventually(browser, "return document.querySelector('dl').textContent.includes('4')")
    browser.requested()
    with urlopen(f"{page}api/v1/events") as events:

        def wait_for(name: str) -> None:
            while name not in events.readline().decode():
                pass

        wait_for("shop/totals")
        jobs[1] = job(read_batch(2, source_of(*SPLITS)), name="shop/other")
        wait_for("shop/other")
        wait_for(": nothing")
        browser.run(HIDDEN, True)
        jobs[0] = job(read_batch(2_008, source_of(*SPLITS)))
        wait_for("shop/totals")
        wait_for(": nothing")
        assert address not in browser.requested()

    browser.run(HIDDEN, False)
    eventually(browser, "return document.querySelector('dl').textContent.includes('2,008')")


def test_the_first_key_leads_past_the_head(browser: Browser, page: str) -> None:
    """Tab shows the link to the content, and Enter goes there."""
    browser.open(page)
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    link = browser.driver.switch_to.active_element
    assert link.text == "Skip to content"
    assert link.rect["x"] >= 0
    link.send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement.id") == "content"


def test_all_that_pages_ask_for_is_of_one_origin(browser: Browser, page: str) -> None:
    """Nothing is refused by the policy, and a script in the page itself would be."""
    browser.requested()
    browser.complaints()
    for address in addresses(page):
        browser.open(address)

    asked = browser.requested()
    assert [url for url in asked if not url.startswith((page, "data:", "about:"))] == []
    assert {f"{page}static/page.js", f"{page}static/page.css", f"{page}api/v1/events"} <= {*asked}
    complaints = [each for each in browser.complaints() if "404 (Not Found)" not in each]
    assert complaints == []
    browser.run(
        "const made = document.createElement('script'); made.textContent = 'window.ran = true';"
        "document.body.append(made);"
    )
    assert browser.run("return window.ran") is None
    assert any("Content Security Policy" in each for each in browser.complaints())


def test_the_list_sorts_by_a_figure_whatever_else_its_cell_has(
    browser: Browser, page: str, jobs: list
) -> None:
    """The age of the oldest record and a drawing stand below the lag: as texts 9 is behind 10 and 80."""
    jobs[:] = [
        job(
            read_batch(7, source_of(split(0, 100 - lag, None)), lag_records=lag),
            name=f"shop/p{lag}",
        )
        for lag in (10, 80, 9)
    ]
    browser.open(page)
    browser.run("document.querySelectorAll('#pipelines thead button')[2].click()")
    names = "return [...document.querySelectorAll('#pipelines tbody th')].map((each) => each.textContent);"

    assert browser.run(names) == ["shop/p9", "shop/p10", "shop/p80"]
    assert browser.run("return document.querySelectorAll('svg.spark').length") == 6


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_people_of_all_kinds_can_use_each_page(browser: Browser, page: str, theme: str) -> None:
    """No serious finding of axe-core: contrast, names of controls, order of headings."""
    if not has_axe():
        pytest.skip("axe-core is not installed: make setup")
    browser.theme(theme)
    for address in addresses(page):
        browser.open(address)
        assert browser.barriers() == [], address


def test_pages_are_dark_where_the_system_is(browser: Browser, page: str) -> None:
    """The colours follow the reader's choice."""
    browser.open(page)
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(ground)
    browser.theme("dark")
    assert light == "rgb(255, 255, 255)"
    assert max(map(int, browser.run(ground)[4:-1].split(","))) < 64


def test_a_button_reads_the_first_rows(browser: Browser, page: str) -> None:
    """A browser says that this page asks; by keyboard, too."""
    browser.complaints()  # those of pages of other tests
    browser.open(f"{page}tables/default_catalog.default_database.numbers")
    browser.driver.find_element(By.CSS_SELECTOR, "form button").send_keys(Keys.ENTER)

    eventually(browser, "return document.querySelectorAll('#rows tbody tr').length === 3")
    assert "All rows that there are" in browser.run("return document.body.textContent")
    assert browser.complaints() == []


def test_a_page_says_that_its_server_is_gone_and_goes_on_with_the_next(
    browser: Browser, tmp_path: Path
) -> None:
    """What is shown then is old, and looks like new; at the same address the page goes on by itself."""
    stored = StoredPipelines(
        namespace=Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db")), project=tmp_path
    )
    said = "return document.querySelector('#connection').textContent"

    def shown(number: int) -> StatusView:
        return StatusView(jobs=lambda: [job(read_batch(number, source_of(*SPLITS)))], stored=stored)

    with serving_pages(shown(7), port=0) as url:
        browser.open(f"{url}pipelines/shop/totals")
        assert browser.run(said) == ""
    eventually(browser, f"{said}.startsWith('The server has not answered since 20')")
    with serving_pages(shown(8), port=int(url.rsplit(":", 1)[1].strip("/"))):
        eventually(browser, f"{said} === ''")
        eventually(browser, "return document.querySelector('dl').textContent.includes('8')")
    browser.complaints()


def test_ages_go_on_while_nothing_happens(browser: Browser, page: str) -> None:
    """By the server's clock, whatever this machine's is."""
    browser.open(f"{page}pipelines/shop/totals")
    age = "document.querySelector('time.age')"
    browser.run(f"{age}.dateTime = new Date(Date.now() - 5000).toISOString();")

    eventually(browser, f"return {age}.textContent === '7 s ago'")
    hour = "document.querySelector('main').dataset.now = String(Date.now() + 3600000); setClock(); ages();"
    assert browser.run(f"{hour} return {age}.textContent").startswith("1 h")


def test_pages_fit_a_phone(browser: Browser, page: str) -> None:
    """The page never scrolls sideways; wide tables do so in themselves."""
    browser.phone()
    for address in addresses(page):
        browser.open(address)
        wide = browser.run("return document.documentElement.scrollWidth")
        assert wide <= 375, (address, wide)
