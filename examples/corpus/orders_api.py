"""Client of the Larkfield orders API, as the warehouse uses it."""

import time
from typing import Any

import httpx

BASE_URL = "https://api.larkfield.example/v2"
MAX_ATTEMPTS = 4


class RateLimitedError(Exception):
    """The API answered 429 more often than we were willing to wait."""


def get_order(order_id: str, token: str) -> dict[str, Any]:
    """Fetch one order. The token needs the scope `orders:read`."""
    return _get(f"/orders/{order_id}", token)


def list_open_orders(token: str, page_size: int = 100) -> list[dict[str, Any]]:
    """Fetch all orders that have not left the warehouse, following the `next` cursor from page to page."""
    orders: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = _get(f"/orders?status=open&limit={page_size}&cursor={cursor}", token)
        orders += page["items"]
        cursor = page.get("next", "")
        if not cursor:
            return orders


def _get(path: str, token: str) -> dict[str, Any]:
    """Send a request. On 429 it waits as long as the Retry-After header says, four attempts at most."""
    for _ in range(MAX_ATTEMPTS):
        answer = httpx.get(BASE_URL + path, headers={"Authorization": f"Bearer {token}"}, timeout=10)
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
            answer.raise_for_status()
            order: dict[str, Any] = answer.json()
            return order
        time.sleep(int(answer.headers.get("Retry-After", "1")))
    raise RateLimitedError(path)
