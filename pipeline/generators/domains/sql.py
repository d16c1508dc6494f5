"""SQL."""

from __future__ import annotations

from pipeline.generators.drafts import Context, Draft, Pack, TaskFile, chance, filled
from pipeline.types import Variant


def _totals(seed: int, context: Context) -> Draft:
    rng = chance("sql", "totals", seed)
    rows = [(f"c{rng.randint(1, 5)}", rng.randint(1, 90)) for _ in range(20)]
    totals: dict[str, int] = {}
    for name, amount in rows:
        totals[name] = totals.get(name, 0) + amount
    expected = [[name, total] for name, total in sorted(totals.items())]
    script = "create table orders(customer text, amount integer);\n" + "".join(
        f"insert into orders values('{n}', {a});\n" for n, a in rows
    )
    query = "create view totals as select customer, sum(amount) as total from orders group by customer"
    return Draft(
        family="totals",
        seed=seed,
        difficulty="easy",
        instruction="The SQLite database /work/shop.db has a table orders(customer, amount). Add a view `totals` with "
        "the columns customer and total: the sum of amount per customer.",
        files=(TaskFile(path="/work/orders.sql", text=script),),
        setup=("sqlite3 shop.db < orders.sql",),
        solution=(f'sqlite3 shop.db "{query}"',),
        right=(Variant(name="subquery", commands=(f'sqlite3 shop.db "{query} order by 1 desc"',)),),
        weak=(Variant(name="max", commands=(f'sqlite3 shop.db "{query.replace("sum", "max")}"',)),),
        verifier=filled(
            """
import sqlite3

EXPECTED = __EXPECTED__


def test_view_holds_the_totals():
    with sqlite3.connect("file:/work/shop.db?mode=ro", uri=True) as base:
        rows = base.execute("select customer, total from totals order by customer").fetchall()
    assert [list(row) for row in rows] == EXPECTED
""",
            expected=expected,
        ),
    )


PACK = Pack(domain="sql", families={"totals": _totals})
