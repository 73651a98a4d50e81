"""Drives the real BigGraphite: commands on stdin and answers on stdout, one JSON object per line.

Commands (`cmd`):
  `accessor`   opens BigGraphite's Cassandra accessor under a name, with a replica id and a writer id. Without
               a writer id BigGraphite draws one, like its daemons. Opening a name again restarts that writer
  `syncdb`     creates tables with BigGraphite's own code; the keyspaces must exist
  `create`     creates metrics
  `insert`     writes points through the accessor's downsampler; answers the rows that it emitted
  `load`       writes many points of many metrics; answers wall time and processor time in seconds
  `flush`      writes the rows that the delayed writer has queued
  `fetch`      reads points as BigGraphite's readers do
  `get`        answers the metadata of metrics; null if BigGraphite cannot read them
  `glob`       answers names of metrics and directories
  `time_globs` answers the milliseconds that each attempt to find the metrics of globs took
  `delete`     deletes metrics, but not their points

Unlike BigGraphite itself, every answer waits until the server has acknowledged all writes of the command.
No clock is changed here. The slot of a point follows from its timestamp, and write timestamps must be those
of the machine, because they are compared with those of other writers.

Values are strings, so that JSON parsers do not round them and NaN is possible.
"""
import json
import logging
import os
import sys
import time

# Output of libraries must not get into the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
logging.basicConfig(stream=sys.stderr, level=logging.ERROR)

from biggraphite import metric as bg_metric  # noqa: E402
from biggraphite.drivers import cassandra as bg_cassandra  # noqa: E402

CONTACT_POINT, PORT, KEYSPACE = sys.argv[1], int(sys.argv[2]), sys.argv[3]

accessors = {}


class Sent:
    """Wraps a session of the driver and records requests, so that their results can be awaited."""

    def __init__(self, session):
        self._session = session
        self._futures = []

    def __getattr__(self, name):
        return getattr(self._session, name)

    def execute_async(self, *args, **kwargs):
        future = self._session.execute_async(*args, **kwargs)
        self._futures.append(future)
        return future

    def wait(self):
        futures, self._futures = self._futures, []
        for future in futures:
            future.result()


class Emitted:
    """Wraps the downsampler and records the rows that it emitted for the last points."""

    def __init__(self, downsampler):
        self._downsampler = downsampler
        self.last = []

    def __getattr__(self, name):
        return getattr(self._downsampler, name)

    def feed(self, metric, points):
        self.last = self._downsampler.feed(metric, points)
        return self.last


def private(accessor, name):
    return "_CassandraAccessor__" + name


def text(value):
    return repr(float(value))


def build(replica=0, writer=None):
    return bg_cassandra.build(
        keyspace=KEYSPACE,
        contact_points=[CONTACT_POINT],
        port=PORT,
        replica=replica,
        writer=writer,
        timeout=120.0,
        max_metrics_per_pattern=100000,
        read_on_sampling_rate=0,
    )


def open_accessor(command):
    name = command["accessor"]
    if name in accessors:
        wait(accessors[name])
        accessors[name].shutdown()
    accessor = build(command.get("replica", 0), command.get("writer"))
    accessor.connect()
    for session in ("session_data", "session_metadata"):
        full = private(accessor, session)
        setattr(accessor, full, Sent(getattr(accessor, full)))
    full = private(accessor, "downsampler")
    setattr(accessor, full, Emitted(getattr(accessor, full)))
    accessors[name] = accessor
    return {"shard": accessor.shard}


def wait(accessor):
    for session in ("session_data", "session_metadata"):
        getattr(accessor, private(accessor, session)).wait()


def syncdb(command):
    retentions = [bg_metric.Retention.from_string(text) for text in command["retentions"]]
    build().syncdb(retentions=retentions)
    return {}


def create(command):
    accessor = accessors[command["accessor"]]
    for name, retention, aggregator, factor in command["metrics"]:
        metadata = bg_metric.MetricMetadata.create(
            aggregator=bg_metric.Aggregator.from_config_name(aggregator),
            retention=bg_metric.Retention.from_string(retention),
            carbon_xfilesfactor=factor,
        )
        accessor.create_metric(bg_metric.make_metric_with_defaults(name, metadata))
    wait(accessor)
    return {}


def known(accessor, name):
    """Keeps one object per metric for the lifetime of the accessor, like the cache of carbon's daemon."""
    cache = accessor.__dict__.setdefault("plumbago_metrics", {})
    if name not in cache:
        metric = accessor.get_metric(bg_metric.sanitize_metric_name(name))
        if metric is None:
            raise LookupError("no such metric: %r" % name)
        cache[name] = metric
    return cache[name]


def insert(command):
    accessor = accessors[command["accessor"]]
    emitted = []
    for name, points in command["points"]:
        downsampler = getattr(accessor, private(accessor, "downsampler"))
        downsampler.last = []
        accessor.insert_points_async(known(accessor, name), [(t, float(v)) for t, v in points])
        emitted.append(
            [[t, text(v), count, stage.as_full_string] for t, v, count, stage in downsampler.last]
        )
    wait(accessor)
    return {"emitted": emitted}


def load(command):
    accessor = accessors[command["accessor"]]
    metrics = [known(accessor, name) for name in command["names"]]
    start, step, count = command["times"]
    points = [(start + slot * step, float(slot)) for slot in range(count)]
    per_call = command["per_call"]
    calls = [points[at:at + per_call] for at in range(0, count, per_call)]
    wall, cpu = time.perf_counter(), time.process_time()
    for call in calls:
        for number, metric in enumerate(metrics):
            accessor.insert_points_async(metric, call)
            if number % 1000 == 999:  # At most 1000 calls are on their way.
                wait(accessor)
    wait(accessor)
    return {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def flush(command):
    accessor = accessors[command["accessor"]]
    accessor.flush()
    wait(accessor)
    return {}


def fetch(command):
    accessor = accessors[command["accessor"]]
    series = []
    for name, stage, start, end in command["ranges"]:
        metric = accessor.get_metric(bg_metric.sanitize_metric_name(name))
        if metric is None:
            series.append(None)
            continue
        stage = bg_metric.Stage.from_string(stage)
        points = accessor.fetch_points(metric, start, end, stage, aggregated=command["aggregated"])
        series.append([[int(t), text(v), *count] for t, v, *count in points])
    return {"series": series}


def get(command):
    accessor = accessors[command["accessor"]]
    found = []
    for name in command["names"]:
        metric = accessor.get_metric(name) if accessor.has_metric(name) else None
        found.append(metric and {"name": metric.name, "id": str(metric.id), **metric.metadata.as_string_dict()})
    return {"metrics": found}


def glob(command):
    accessor = accessors[command["accessor"]]
    found = []
    for pattern in command["globs"]:
        try:
            metrics = sorted(set(accessor.glob_metric_names(pattern)))
            directories = sorted(set(accessor.glob_directory_names(pattern)))
            found.append({"metrics": metrics, "directories": directories})
        except Exception as error:  # Some globs are too much for BigGraphite; the test says which.
            found.append({"error": repr(error)})
    return {"found": found}


def time_globs(command):
    accessor = accessors[command["accessor"]]
    timed = []
    for pattern in command["globs"]:
        tries, found = [], 0
        for _ in range(command["tries"]):
            start = time.perf_counter()
            found = len(list(accessor.glob_metric_names(pattern)))
            tries.append((time.perf_counter() - start) * 1000)
        timed.append({"found": found, "ms": tries})
    return {"timed": timed}


def delete(command):
    accessor = accessors[command["accessor"]]
    for name in command["names"]:
        accessor.delete_metric(name)
    wait(accessor)
    return {}


COMMANDS = {
    "accessor": open_accessor,
    "syncdb": syncdb,
    "create": create,
    "insert": insert,
    "load": load,
    "flush": flush,
    "fetch": fetch,
    "get": get,
    "glob": glob,
    "time_globs": time_globs,
    "delete": delete,
}

for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = COMMANDS[asked["cmd"]](asked)
    except Exception as error:  # The test shows it; BigGraphite goes on.
        logging.exception("%s", asked["cmd"])
        answer = {"error": repr(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
