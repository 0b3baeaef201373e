"""Kafka for real: a broker from Maven's artefacts, and a job between its topics."""
