"""Parses bytes with carbon's own receivers, and makes pickles as Python's senders do."""
import pickle
import struct

from carbon import events, protocols, state
from carbon.conf import settings
from carbon.util import TaggedSeries
from twisted.internet.testing import StringTransport

settings["LOG_LISTENER_CONN_SUCCESS"] = False
settings["LOG_LISTENER_CONN_LOST"] = False
settings["USE_FLOW_CONTROL"] = False

received = []
events.metricReceived.handlers[:] = [lambda metric, datapoint: received.append((metric, datapoint))]


class Transport(StringTransport):
    """A connection that records whether it was closed."""

    def setTcpKeepAlive(self, on):
        pass


def parse(kind, data):
    """The points that carbon accepts from a connection or datagram: name, time, value as text."""
    received.clear()
    state.listeningPorts = []
    receiver = {
        "line": protocols.MetricLineReceiver,
        "udp": protocols.MetricDatagramReceiver,
        "pickle": protocols.MetricPickleReceiver,
    }[kind]()
    receiver.resetTimeout = receiver.setTimeout = lambda *_: None
    receiver.peerName = "peer"
    try:
        if kind == "udp":
            receiver.datagramReceived(data, ("127.0.0.1", 1))
        else:
            protocols.enableTcpKeepAlive = lambda *_: None
            receiver.makeConnection(Transport())
            receiver.dataReceived(data)
    except Exception:
        pass  # Twisted cuts the connection.
    return [[normal(metric), int(time), repr(value)] for metric, (time, value) in received]


def normal(metric):
    """The name as carbon stores it."""
    try:
        return TaggedSeries.parse(metric).path
    except Exception:
        return metric


def frame(data):
    return struct.pack("!L", len(data)) + data


def pickles():
    """Frames with a description: every protocol version of Python, every structure that senders use."""
    when = 1699999990
    shapes = {
        "tuples": lambda n: [(n + ".a", (when, 1.5)), (n + ".b", (when, 2))],
        "lists": lambda n: [[n + ".a", [when, 1.5]], [n + ".b", [when, -3]]],
        "mixed": lambda n: ((n + ".a", [when, 1.5]), [n + ".b", (when, 0.1)]),
        "float-time": lambda n: [(n + ".a", (when + 0.75, 1e300))],
        "text-numbers": lambda n: [(n + ".a", (str(when), "17.25")), (n + ".b", (when, "1e3"))],
        "long": lambda n: [(n + ".a", (when, 2**70)), (n + ".b", (when, -(2**40)))],
        "booleans": lambda n: [(n + ".a", (when, True)), (n + ".b", (when, False))],
        "now": lambda n: [(n + ".a", (-1, 4.0))],
        "unknown": lambda n: [(n + ".a", (when, float("nan"))), (n + ".b", (when, 5.0))],
        "same-name": lambda n: [(n + ".a", (when - i, float(i))) for i in range(5)],
        "bad-items": lambda n: [(n + ".a",), None, 7, (n + ".b", (when, "x")), (n + ".c", (when, 6.0)), [n]],
        "many": lambda n: [(n + ".m%d" % i, (when, i / 8)) for i in range(60)],
        "long-name": lambda n: [(n + "." + "x" * 300, (when, 1.0))],
        "not-ascii": lambda n: [(n + ".m\u00fcnchen", (when, 1.0))],
        "tags": lambda n: [(n + ";b=2;a=1", (when, 1.0))],
        "empty": lambda n: [],
    }
    for protocol in range(6):
        for what, shape in shapes.items():
            name = "p%d.%s" % (protocol, what)
            yield name, frame(pickle.dumps(shape(name), protocol=protocol))
    # statsd writes its pickles by hand: text keys, long timestamps, text values, no memo.
    items = "".join("(S'statsd.k%d'\n(L%dL\nS'%s'\ntta" % (i, when, v) for i, v in enumerate(["1", "2.5", "-7"]))
    yield "statsd", frame(("(l" + items + ".").encode())
    good = frame(pickle.dumps([("mix.good", (when, 1.0))], protocol=2))
    yield "a broken frame between", good + frame(b"\x80\x02garbage") + good.replace(b"good", b"more")
    evil = b"cos\nsystem\n(S'true'\ntR."
    yield "a call", frame(evil) + good.replace(b"good", b"safe")
