"""From pandas frames to a live migration: three streams, a change of plan, and the results that pandas finds."""

import pandas as pd

import midstream as ms

start = pd.Timestamp("2026-03-01 09:00") + pd.to_timedelta(range(60), unit="min")
frames = {
    "orders": pd.DataFrame({"ts": start, "id": range(60), "customer": ["ada", "bob", "eve"] * 20}),
    "payments": pd.DataFrame({"ts": start + pd.Timedelta("2min"), "id": range(60), "amount": [9.5, 12.5] * 30}),
    "shipments": pd.DataFrame({"ts": start + pd.Timedelta("5min"), "id": range(60), "carrier": "Caravan"}),
}
query = ms.query(
    """SELECT o.id, o.customer, p.amount, s.carrier
       FROM orders [RANGE 10 MINUTES] o, payments [RANGE 10 MINUTES] p, shipments [RANGE 1 HOUR] s
       WHERE o.id = p.id AND o.id = s.id AND p.amount > 10""",
    schemas=frames,
    event_time="ts",
)
batches = [{name: frame[first : first + 10] for name, frame in frames.items()} for first in range(0, 60, 10)]
results = []
with ms.Engine(query, plan="(o p) s") as engine:
    for number, out in enumerate(engine.run(batches)):
        results.append(out.to_pandas())
        print(f"batch {number}: {out.num_rows} results by {engine.plan}")
        if number == 2:
            print(engine.migrate("(p s) o"))
    results.append(engine.finish().to_pandas())
joined = frames["orders"].merge(frames["payments"], on="id").merge(frames["shipments"], on="id")
print(f"Midstream finds {len(pd.concat(results))} results, a batch join by pandas {len(joined[joined.amount > 10])}")
