"""Clients and judges of carbonlink: graphite-web's own client, its whisper reader, and carbon's own answers.

Reads commands on stdin and writes answers to stdout, one JSON object per line. Commands (`cmd`): `connect` sets the
server; `query`, `get` and `set` are the calls of graphite-web's client; `ask` sends any request, pickled with any
protocol; `carbon` answers what carbon's own handler replies to the same bytes; `whisper` reads a whisper file as
graphite-web does, with the points of the server merged in. Exceptions of the client are answers: `raised`.
"""
import json
import logging
import os
import pickle
import struct
import sys

# Output of libraries must not get into the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["GRAPHITE_SETTINGS_MODULE"] = "graphite_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
STORAGE_DIR = os.environ["GRAPHITE_STORAGE_DIR"]

import django  # noqa: E402
import whisper  # noqa: E402
from django.conf import settings as graphite  # noqa: E402

django.setup()

from carbon import protocols, state  # noqa: E402
from carbon.cache import MetricCache  # noqa: E402
from carbon.conf import settings as carbon  # noqa: E402
from carbon.database import WhisperDatabase  # noqa: E402
from graphite.carbonlink import CarbonLink, CarbonLinkPool, CarbonLinkRequestError  # noqa: E402
from graphite.readers.whisper import WhisperReader  # noqa: E402
from twisted.internet.testing import StringTransport  # noqa: E402

logging.disable(logging.CRITICAL)
carbon["LOCAL_DATA_DIR"] = os.path.join(STORAGE_DIR, "whisper")
carbon["USE_INSECURE_UNPICKLER"] = False
carbon["CACHE_WRITE_STRATEGY"] = "sorted"
state.database = WhisperDatabase(carbon)
pool = None


class Transport(StringTransport):
    def getPeer(self):
        class Peer:
            host, port = "127.0.0.1", 1

        return Peer


def connect(command):
    global pool
    host, port = command["host"].rsplit(":", 1)
    graphite.CARBONLINK_HOSTS = [command["host"]]
    graphite.CARBONLINK_TIMEOUT = 120.0
    pool = CarbonLinkPool([(host, int(port), None)], 120.0)
    return {}


def caught(call):
    try:
        return {"value": call()}
    except CarbonLinkRequestError as error:
        return {"raised": str(error)}


def query(command):
    points = {}
    for metric in command["metrics"]:
        found = pool.query(metric)
        # For one of carbon's own metrics, the client returns a dictionary.
        points[metric] = sorted(found.items() if isinstance(found, dict) else found)
    return {"points": points}


def plain(reply):
    """A reply with its points in order."""
    if "datapoints" in reply:
        return {"datapoints": sorted(reply["datapoints"])}
    if "datapointsByMetric" in reply:
        return {"datapointsByMetric": {m: sorted(p) for m, p in reply["datapointsByMetric"].items()}}
    return reply


def ask(command):
    host = pool.hosts[0]
    connection = pool.get_connection(host)
    body = pickle.dumps(command["request"], protocol=command["protocol"])
    connection.sendall(struct.pack("!L", len(body)) + body)
    reply = pool.recv_response(connection)
    pool.connections[host].add(connection)
    return {"reply": plain(reply)}


def of_carbon(command):
    """What carbon's handler replies, with these points in its cache."""
    cache = MetricCache()
    for metric in list(cache.keys()):
        cache.pop(metric)
    for metric, timestamp, value in command["points"]:
        cache.store(metric, (float(timestamp), value))
    handler = protocols.CacheManagementHandler()
    transport = Transport()
    handler.makeConnection(transport)
    body = pickle.dumps(command["request"], protocol=command["protocol"])
    handler.dataReceived(struct.pack("!L", len(body)) + body)
    sent = transport.value()
    assert struct.unpack("!L", sent[:4])[0] == len(sent) - 4
    return {"reply": plain(pickle.loads(sent[4:]))}


def read_whisper(command):
    """Creates a whisper file with these points, and reads it as graphite-web does."""
    metric = command["metric"]
    path = os.path.join(STORAGE_DIR, "whisper", *metric.split(".")) + ".wsp"
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        whisper.create(path, [tuple(stage) for stage in command["stages"]], 0, command["method"])
    now = command["now"]
    for timestamp, value in command["points"]:
        whisper.update_many(path, [(timestamp, value)], now=now)
    fetched = WhisperReader(path, metric).fetch(command["from"], now, now=now)
    (start, _, step), values = fetched
    return {"points": [[start + i * step, v] for i, v in enumerate(values) if v is not None]}


COMMANDS = {
    "connect": connect,
    "query": query,
    "get": lambda c: caught(lambda: pool.get_metadata(c["metric"], c["key"])),
    "set": lambda c: caught(lambda: pool.set_metadata(c["metric"], c["key"], c["value"])),
    "ask": ask,
    "carbon": of_carbon,
    "whisper": read_whisper,
}

for line in sys.stdin:
    command = json.loads(line)
    try:
        answer = COMMANDS[command["cmd"]](command)
    except Exception as error:
        answer = {"error": "%s: %s" % (type(error).__name__, error)}
    print(json.dumps(answer), file=answers, flush=True)
