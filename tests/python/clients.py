"""python-kairosdb and potsdb, as a script uses them: `clients.py API_URL LINES_PORT NOW`.

Prints one line of JSON for each answer.
"""

import importlib.metadata
import importlib.util
import json
import sys

import potsdb


def kairosdb_client():
    """The module of the client. The package around it is for Python 2 and cannot be imported."""
    path = importlib.metadata.distribution("python-kairosdb").locate_file("kairosdb/client.py")
    spec = importlib.util.spec_from_file_location("kairosdb_client", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    url, port, now = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    lines = potsdb.Client("127.0.0.1", port=port, host_tag="web-1")
    for second in range(10):
        lines.log("potsdb.requests", second * 1.5, timestamp=now - second, code="200")
    lines.log("potsdb.huge", 2**40, timestamp=now, code="200", host="web-2")
    lines.wait()

    client = kairosdb_client().KairosDBAPIClient(url + "/api/v1", timeout=30)

    def show(title, answer):
        print(json.dumps([title, answer]), flush=True)

    def names():
        """The names of this script: a KairosDB has metrics about itself."""
        own = ("python.", "potsdb.")
        return sorted(name for name in client.get("metricnames")["results"] if name.startswith(own))

    show("version", client.get("version")["version"].split()[0])
    points = [[(now - second) * 1000, second] for second in range(10)]
    metric = {"name": "python.temperature", "tags": {"city": "Antalya"}, "datapoints": points}
    show("pushed", client.post("datapoints", data=[metric]))
    show("names", names())
    query = {
        "start_absolute": (now - 60) * 1000,
        "end_absolute": now * 1000,
        "metrics": [
            {
                "name": "python.temperature",
                "aggregators": [{"name": "max", "sampling": {"value": 1, "unit": "hours"}}],
            }
        ],
    }
    show("query", client.post("datapoints/query", data=query))
    show("tags", client.post("datapoints/query/tags", data=query))
    show("wrong", client.post("datapoints/query", data={"metrics": []}))
    show("health", client.get("health/check"))
    show("deleted", client.delete("metric/python.temperature"))
    show("names", names())


main()
