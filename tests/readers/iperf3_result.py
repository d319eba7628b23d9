"""Says, as JSON, what iperf3's own Python wrapper sees of a result: argv is the file."""

import json
import sys

from iperf3 import TestResult

with open(sys.argv[1], encoding="utf-8") as file:
    result = TestResult(file.read())

json.dump({name: value for name, value in vars(result).items() if name not in ("text", "json")}, sys.stdout)
