"""Makes the shop's topics: customers, products, and orders of one to four lines. The same seed gives the same shop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

from examples.demo.topic import write_lines

CITIES = ("Bremen", "Essen", "Kiel", "Mainz", "Ulm")
SEGMENTS = ("public", "retail", "trade")
GOODS = {
    "fastener": ("bolt", "hinge", "rivet"),
    "spring": ("coil", "leaf"),
    "tool": ("anvil", "file", "vice"),
}
START = datetime(2026, 3, 2, tzinfo=UTC)
MOST_LINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """How much there is: `orders` over `days`, in `partitions` of their topic."""

    customers: int = 200
    orders: int = 20_000
    days: int = 14
    partitions: int = 2
    seed: int = 1


def customer_records(shop: Shop) -> list[bytes]:
    """Every customer once, and a tenth of them again, after they have moved."""
    rng = Random(shop.seed)
    first = [_customer(number, rng) for number in range(shop.customers)]
    moved = [_customer(number, rng) for number in range(0, shop.customers, 10)]
    return [_json(record) for record in (*first, *moved)]


def product_records() -> list[bytes]:
    """Every product once."""
    return [
        _json({"sku": sku, "name": name, "category": category, "price": f"{price / 100:.2f}"})
        for sku, name, category, price in _products()
    ]


def order_records(shop: Shop, partition: int) -> list[bytes]:
    """The orders of one partition, in the order of their time."""
    rng = Random(f"{shop.seed}/{partition}")
    numbers = range(partition, shop.orders, shop.partitions)
    step = timedelta(days=shop.days) / shop.orders
    return [_json(_order(number, START + number * step, shop, rng)) for number in numbers]


def fill(bootstrap: str, shop: Shop) -> int:
    """Make the three topics and write all records; returns how many the broker has taken."""
    return (
        write_lines(bootstrap, "customers", [partial(customer_records, shop)])
        + write_lines(bootstrap, "products", [product_records])
        + write_lines(
            bootstrap, "orders", [partial(order_records, shop, p) for p in range(shop.partitions)]
        )
    )


def _products() -> Iterator[tuple[str, str, str, int]]:
    number = 0
    for category, names in GOODS.items():
        for name in names:
            number += 1
            yield f"P-{number:02d}", name, category, 175 * number + 20


def _customer(number: int, rng: Random) -> dict[str, object]:
    return {
        "customer_id": number,
        "name": f"Customer {number}",
        "city": rng.choice(CITIES),
        "segment": SEGMENTS[number % len(SEGMENTS)],
    }


def _order(number: int, time: datetime, shop: Shop, rng: Random) -> dict[str, object]:
    goods = rng.sample(list(_products()), rng.randint(1, MOST_LINES))
    return {
        "order_id": number,
        "customer_id": rng.randrange(shop.customers),
        "order_time": time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        "lines": [
            {
                "line": line,
                "sku": sku,
                "quantity": rng.randint(1, 9),
                "unit_price": f"{price / 100:.2f}",
            }
            for line, (sku, _name, _category, price) in enumerate(goods, start=1)
        ],
    }


def _json(record: dict[str, object]) -> bytes:
    return json.dumps(record).encode()
