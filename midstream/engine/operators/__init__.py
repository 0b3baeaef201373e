"""What happens to results behind the topmost join, up to Arrow: stages, each driven through one protocol."""
