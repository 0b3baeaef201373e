"""Scalar expressions over batches of rows: compiled once per query, run once per batch. `program` tells how."""

from midstream.engine.expressions.program import Columns, Evaluator, compile_expression, evaluate_mask

__all__ = ["Columns", "Evaluator", "compile_expression", "evaluate_mask"]
