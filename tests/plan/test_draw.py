"""Pictures with labels; those without are among the golden pairs."""

from __future__ import annotations

from midstream.plan import Join, Node, draw, outline, parse_plan

PLAN = parse_plan("(orders payments) shipments", ["orders", "payments", "shipments"])


def label(node: Node) -> str:
    return f"{len(node.inputs)},000 rows\n12 kB" if isinstance(node, Join) else ""


def test_labels_stand_under_their_nodes() -> None:
    assert (
        draw(PLAN, label)
        == """\
                ⋈
            3,000 rows
              12 kB
       ┌────────┴────────┐
       ⋈             shipments
   2,000 rows
     12 kB
  ┌────┴────┐
orders   payments"""
    )


def test_an_outline_has_its_labels_in_one_column() -> None:
    assert (
        outline(PLAN, label)
        == """\
⋈                 3,000 rows
│                 12 kB
├─ ⋈              2,000 rows
│  │              12 kB
│  ├─ orders
│  └─ payments
└─ shipments"""
    )


def test_one_input_is_just_its_name() -> None:
    assert draw(parse_plan("orders", ["orders"])) == "orders"
    assert outline(parse_plan("orders", ["orders"]), lambda node: "5 rows") == "orders    5 rows"
