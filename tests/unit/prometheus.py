"""Reads metrics as Prometheus does."""

from prometheus_client.parser import text_string_to_metric_families


def samples(page: bytes, prefix: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Name without the prefix, and label values (in the order of the labels' names), to value."""
    families = text_string_to_metric_families(page.decode())
    return {
        (
            sample.name.removeprefix(f"{prefix}_"),
            tuple(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in families
        for sample in family.samples
    }
