"""One push through a query: rows in, result tables out."""
