"""Evaluates targets with graphite-web over given series. Reads and writes one JSON object per line.

`world` sets the series: name, step, time of the first value, values. A finder in memory answers
fetches by whisper's rule (after `from`, up to and including `until`). `evaluate` returns
the series of the targets; with `strict` functions refuse arguments that their declarations call
wrong. `functions` returns the declarations of `/functions`.
"""
import fnmatch
import json
import logging
import math
import os
import re
import sys
import time
import types
from datetime import datetime

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

os.environ["TZ"] = "UTC"
sys.modules["cairocffi"] = types.ModuleType("cairocffi")
for name in ("FORMAT_ARGB32", "ImageSurface", "Context"):
    setattr(sys.modules["cairocffi"], name, None)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["GRAPHITE_SETTINGS_MODULE"] = "graphite_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"

import django  # noqa: E402
import pyparsing  # noqa: E402
from django.conf import settings  # noqa: E402

settings.UTF8_METRICS = True  # Names are read whole, as Plumbago always does.
# The words of the grammar may then have a million characters. Describing them for messages takes half a minute.
pyparsing.Word._generateDefaultName = lambda self: "word"

django.setup()
logging.disable(logging.CRITICAL)

from django.core.management import call_command  # noqa: E402

call_command("migrate", run_syncdb=True, verbosity=0)  # events() reads a table.

import pytz  # noqa: E402
from graphite.errors import InputParameterError  # noqa: E402
from graphite.render import attime, datalib, functions, views  # noqa: E402
from graphite.render.evaluator import evaluateTarget  # noqa: E402
from graphite.functions import SeriesFunctions  # noqa: E402

world = {}
now = 0


class Finder:
    """Takes the place of graphite-web's stores."""

    tagdb = datalib.STORE.tagdb

    def fetch(self, patterns, start, end, now, context):
        for pattern in patterns:
            for name in found(pattern):
                times, values = cut(world[name], start, end)
                yield {"pathExpression": pattern, "name": name, "time_info": times, "values": values}


def found(pattern):
    if pattern.startswith("seriesByTag("):
        asked = [e.split("=", 1) for e in re.findall(r"""['"]([^'"]*)['"]""", pattern)]
        return [n for n in sorted(world) if ";" in n and all(tag(n, k) == v for k, v in asked)]
    parts = pattern.split(".")
    return [n for n in sorted(world) if matches(n.split("."), parts)]


def tag(name, key):
    return name.split(";")[0] if key == "name" else dict(t.split("=", 1) for t in name.split(";")[1:]).get(key)


def matches(name, parts):
    return len(name) == len(parts) and all(one(n, p) for n, p in zip(name, parts))


def one(name, part):
    group = re.match(r"^(.*)\{(.*)\}(.*)$", part)
    if group:
        before, inside, behind = group.groups()
        return any(one(name, before + i + behind) for i in inside.split(","))
    return fnmatch.fnmatchcase(name, part)


def cut(series, start, end):
    """The slots after `start`, up to and including `end`; coarser where the finest do not reach back.

    Fails as graphite-web's own finders do if the range ends before it begins.
    """
    if start > end:
        raise ValueError("Invalid interval start=%s end=%s" % (start, end))
    stage = next((s for s in series if start >= s["kept_from"]), series[-1])
    step, first, values = stage["step"], stage["first"], stage["values"]
    start = start - start % step + step
    end = end - end % step + step
    if end <= start:
        end = start + step
    at = lambda t: values[(t - first) // step] if 0 <= (t - first) // step < len(values) else None
    return (start, end, step), [at(t) for t in range(start, end, step)]


datalib.STORE = functions.STORE = Finder()

read_time = attime.parseATTime


def parse_time(text, tzinfo=None, now_=None):
    """With the request's now and zone, where functions would take the machine's."""
    return read_time(text, tzinfo or zone, datetime.fromtimestamp(now, zone))


functions.parseATTime = parse_time
zone = pytz.utc


def number(value):
    """The value; infinity, which JSON cannot express, as text; null if unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    value = float(value)
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else value


def shown(series):
    options = {k: float(v) if v is not True else 1.0 for k, v in series.options.items()}
    if hasattr(series, "color"):
        options["color"] = series.color
    return {
        "name": series.name,
        "path": series.pathExpression,
        "start": series.start,
        "end": series.end,
        "step": series.step,
        "values": [number(v) for v in series],
        "tags": dict(series.tags),
        "consolidation": series.consolidationFunc,
        "factor": number(series.xFilesFactor),
        "options": options,
    }


def evaluate(asked):
    global now, zone
    now = asked["now"]
    zone = pytz.timezone(asked.get("zone", "UTC"))
    os.environ["TZ"] = settings.TIME_ZONE = asked.get("server_zone", asked.get("zone", "UTC"))
    time.tzset()
    settings.ENFORCE_INPUT_VALIDATION = asked.get("strict", False)
    moment = lambda seconds: datetime.fromtimestamp(seconds, zone)
    context = {
        "startTime": moment(asked["from"]),
        "endTime": moment(asked["until"]),
        "now": moment(now),
        "localOnly": False,
        "template": {},
        "tzinfo": zone,
        "forwardHeaders": {},
        "data": [],
        "prefetched": {},
        "xFilesFactor": asked.get("factor", 0),
        "maxDataPoints": asked.get("width"),
        "targets": asked["targets"],
    }
    try:
        data = evaluateTarget(context, asked["targets"])
        answer = {"series": [shown(s) for s in data]}
        if asked.get("width"):
            text = views.renderViewJson({"maxDataPoints": asked["width"]}, data).content.decode()
            points = [s["datapoints"] for s in json.loads(text)]
            answer["points"] = [[[number(v), t] for v, t in p] for p in points]
        return answer
    except InputParameterError as error:
        return {"refused": str(error)[:300]}
    except Exception as error:
        return {"failed": repr(error)[:300]}


def declared(_):
    def param(p):
        value = p.toJSON()
        if value.get("default") == float("inf"):
            value["default"] = "inf"
        value["options"] = [str(o) for o in value.get("options", [])]
        return value

    return {n: {"group": f.group, "params": [param(p) for p in f.params]} for n, f in SeriesFunctions().items()}


def load(asked):
    world.clear()
    world.update(asked["series"])
    return {}


COMMANDS = {"world": load, "evaluate": evaluate, "functions": declared}

for line in sys.stdin:
    question = json.loads(line)
    answers.write(json.dumps(COMMANDS[question["cmd"]](question)) + "\n")
    answers.flush()
