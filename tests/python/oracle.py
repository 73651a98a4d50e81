"""whisper and graphite-web as an oracle: commands on stdin and answers on stdout, one JSON object per line.

Commands (`cmd`): `create` creates whisper files; `update` and `fill` write points; `get` and `post` send HTTP
requests to the real graphite-web; `decode` decodes MessagePack and pickles; `parse` answers the points that
carbon's own receivers accept; `pickles` answers frames as Python's senders write them. A command may contain
the time, to which the clock of the whole process is set, so that nothing depends on the machine's clock.
"""
import io
import json
import logging
import os
import pickle
import sys
import time
import types
from urllib.parse import unquote_to_bytes

# Output of libraries must not get into the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

# PNG is never requested. Without this stub the import would need the cairo library.
sys.modules["cairocffi"] = types.ModuleType("cairocffi")
for name in ("FORMAT_ARGB32", "ImageSurface", "Context"):
    setattr(sys.modules["cairocffi"], name, None)

instant = 0
time.time = lambda: float(instant)

import whisper  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["GRAPHITE_SETTINGS_MODULE"] = "graphite_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
WHISPER_DIR = os.path.join(os.environ["GRAPHITE_STORAGE_DIR"], "whisper")

from django.core.management import call_command  # noqa: E402
from graphite.readers import utils as readers  # noqa: E402
from graphite.util import msgpack  # noqa: E402
from graphite.tags.utils import TaggedSeries  # noqa: E402
from graphite.wsgi import application  # noqa: E402
import receivers  # noqa: E402

logging.disable(logging.INFO)
call_command("migrate", run_syncdb=True, verbosity=0)


class NoCache:
    """Replaces the client of carbon-cache, which has points that are not on disk yet: here there are none."""

    def query(self, metric):
        return []


readers.CarbonLink = NoCache


def path_of(name):
    if ";" in name:
        return os.path.join(WHISPER_DIR, TaggedSeries.encode(name, sep=os.sep, hash_only=True)) + ".wsp"
    return os.path.join(WHISPER_DIR, *name.split(".")) + ".wsp"


def create(command):
    for name, retentions, factor, method in command["files"]:
        path = path_of(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        whisper.create(path, [tuple(r) for r in retentions], factor, method, sparse=True)
    return {}


def update(command):
    """Updates whisper once per point, in the order of arrival, like carbon with an idle disk."""
    for name, timestamp, value in command["points"]:
        whisper.update_many(path_of(name), [(timestamp, value)], now=command["now"])
    return {}


def fill(command):
    """Writes consecutive points of each metric."""
    for name, start, step, values in command["series"]:
        points = [(start + i * step, value) for i, value in enumerate(values)]
        whisper.update_many(path_of(name), points, now=command["now"])
    return {}


def get(command):
    return {"answers": [request(path, accept=command.get("accept")) for path in command["paths"]]}


def post(command):
    return {"answers": [request(command["path"], command["form"].encode())]}


def request(path, form=None, accept=None):
    path, _, query = path.partition("?")
    environ = {
        "REQUEST_METHOD": "GET" if form is None else "POST",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "oracle",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(form or b"")),
        "wsgi.input": io.BytesIO(form or b""),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if accept:
        environ["HTTP_ACCEPT"] = accept
    seen = {}

    def start_response(status, headers, exc_info=None):
        seen["status"] = int(status.split()[0])
        seen["type"] = dict(headers).get("Content-Type", "")

    begun = time.perf_counter()
    body = application(environ, start_response)
    content = b"".join(body)
    seconds = time.perf_counter() - begun
    text = decoded(seen["type"], content)
    if hasattr(body, "close"):
        body.close()
    return {"status": seen["status"], "type": seen["type"], "body": text, "seconds": seconds}


def decoded(kind, content):
    """The body of an answer as text. MessagePack and pickles are decoded to JSON."""
    if kind == "application/x-msgpack":
        return json.dumps(msgpack.loads(content))
    if kind == "application/pickle":
        return json.dumps(pickle.loads(content))
    return content.decode("utf-8")


def decode(command):
    return {"text": decoded(command["kind"], bytes.fromhex(command["bytes"]))}


def parse(command):
    return {"points": receivers.parse(command["kind"], bytes.fromhex(command["bytes"]))}


def pickles(command):
    return {"frames": [[what, frame.hex()] for what, frame in receivers.pickles()]}


COMMANDS = {
    "create": create,
    "update": update,
    "fill": fill,
    "get": get,
    "post": post,
    "decode": decode,
    "parse": parse,
    "pickles": pickles,
}

for line in sys.stdin:
    asked = json.loads(line)
    instant = asked.get("now", instant)
    try:
        answer = COMMANDS[asked["cmd"]](asked)
    except Exception as error:  # The test shows it; the oracle goes on.
        answer = {"error": repr(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
