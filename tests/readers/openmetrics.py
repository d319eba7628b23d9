"""Says, as JSON, what the parsers of Prometheus' own client see of a file: argv is the file."""

import json
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()


def samples(families):
    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value, "help": family.documentation}
        for family in families
        for sample in family.samples
    ]


json.dump(
    {
        "openmetrics": samples(openmetrics.text_string_to_metric_families(text)),
        # As the textfile collector takes it.
        "prometheus": samples(parser.text_string_to_metric_families(text)),
    },
    sys.stdout,
)
