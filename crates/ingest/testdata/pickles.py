"""Writes pickle/*.pickle (without the length before them) and pickle/expected.tsv: what carbon's own receiver
makes of each, one point a line: file, name, bits of the value, timestamp. A file without a line gives none.

pip install carbon==1.1.10, then, in this directory: PYTHONPATH=<carbon's lib> python pickles.py
"""

import pickle
import pickletools
import struct
import time
from pathlib import Path

from carbon import events, protocols

NOW = 1700000000
OUT = Path('pickle')
time.time = lambda: float(NOW)


def text(value):
    """Protocol 2's unicode."""
    raw = value.encode()
    return b'X' + struct.pack('<I', len(raw)) + raw


def py2_str(value):
    """The 8-bit string of Python 2, as protocol 1 and 2 write it."""
    return b'U' + bytes([len(value)]) + value if len(value) < 256 else b'T' + struct.pack('<i', len(value)) + value


def double(value):
    return b'G' + struct.pack('>d', value)


def statsd(metrics):
    """What statsd's graphite back end writes by hand: protocol 0 without a memo, values as text."""
    body = b''.join(
        b"(S'%s'\n(L%dL\nS'%s'\ntta" % (name, timestamp, value) for name, timestamp, value in metrics)
    return b'(l' + body + b'.'


name = 'servers.web01.cpu.load'
points = [
    (name, (NOW, 1.5)),
    (name, (NOW - 60, 2)),
    ['apps.caf\u00e9.requests', [float(NOW), 10**12]],
    ('a.b;y=1;x=2', (-1, True)),
    ('\u65e5\u672c', (NOW + 0.9, -0.0)),
    ("it's.a\\quote\"d", (NOW, 1e300)),
    ('big.long', (NOW, 2**70)),
    ('negative', (NOW, -(2**63))),
    ('text.value', (str(NOW), '3.25')),
    ('nan', (NOW, float('nan'))),
    ('inf', (NOW, float('inf'))),
    ('none', (NOW, None)),
    ('short', (NOW,)),
    ('no.number', (NOW, 'x')),
    'not an item',
    None,
]

FILES = {f'python3-protocol{protocol}': pickle.dumps(points, protocol) for protocol in range(6)}
for protocol in range(6):
    FILES[f'tuple-protocol{protocol}'] = pickle.dumps(tuple(points[:4]), protocol)
    FILES[f'dict-protocol{protocol}'] = pickle.dumps({name: (NOW, 1.0), 'b': (NOW, 2.0)}, protocol)
for protocol in (0, 2, 4):  # Python writes lists in pieces of 1000
    FILES[f'many-protocol{protocol}'] = pickle.dumps([(f'm.{i % 7}', (NOW - i, i / 8)) for i in range(1100)], protocol)
FILES['bytes-protocol3'] = pickle.dumps([(b'bytes.name', (NOW, b'7.5'))], 3)
FILES['bytearray-protocol5'] = pickle.dumps([('x', (NOW, bytearray(b'7.5')))], 5)
FILES['several-points'] = pickle.dumps([('a.b', (NOW, 1.0), (NOW + 1, 2.0), (NOW + 2, 3.0))], 2)
FILES['empty-list'] = pickle.dumps([], 2)
FILES['string'] = pickle.dumps('abc', 2)
FILES['no-memo'] = pickletools.optimize(pickle.dumps(points, 2))
FILES['statsd'] = statsd([(b'stats.counters.a.count', NOW, b'5'), (b'stats.timers.b.mean', NOW, b'0.25'),
                          (b'stats.bad', NOW, b'NaN'), (b'stats.gauges.caf\xc3\xa9', NOW, b'-1e3')])
# Python 2: a relay (cPickle, protocol 2) and a script (protocol 0), with `str` names and `long` times.
FILES['python2-protocol2'] = (
    b'\x80\x02]q\x01(' + py2_str(b'carbon.relay.a') + b'q\x02' + double(NOW) + double(4.5) + b'\x86q\x03\x86q\x04'
    + py2_str(b'n' * 300) + b'q\x05' + b'\x8a\x05\x00\xf1\x53\x65\x00' + b'K\x07\x86q\x06\x86q\x07'
    + text('unicode.\u00e9') + b'J\x00\xf1\x53\x65M\x2c\x01\x86\x86e.')
FILES['python2-protocol0'] = (
    b"(lp1\n(S'script.a'\np2\n(L1700000000L\nF1.5\ntp3\ntp4\na(Vunicode.\xe9\\u65e5\np5\n(I1700000001\nI01\ntp6\n"
    b"tp7\na(S\"dou'ble\\x41\\101\"\np8\n(I1700000002\nI-3\nttp10\na(g2\n(I1700000003\nF-inf\nttp9\na.")
FILES['go-protocol2'] = (  # a Go encoder: lists everywhere, nothing memoised
    b'\x80\x02](](' + text('go.a') + b'](' + double(NOW) + double(1.0) + b'ee](' + text('go.b') + b'](K\x05' + double(2.0) + b'eee.')


class Receiver(protocols.MetricPickleReceiver):
    peerName = 'peer'

    def __init__(self):
        self.unpickler = protocols.get_unpickler(insecure=False)

    def resetTimeout(self):
        pass


def carbon_takes(data):
    received = []
    events.metricReceived.handlers[:] = [lambda metric, point: received.append((metric, point))]
    try:
        Receiver().stringReceived(data)
    except Exception:
        pass
    return received


OUT.mkdir(exist_ok=True)
with open(OUT / 'expected.tsv', 'w') as expected:
    for label, data in FILES.items():
        (OUT / f'{label}.pickle').write_bytes(data)
        for metric, (timestamp, value) in carbon_takes(data):
            metric = metric if isinstance(metric, str) else metric.decode()
            print(label, metric, struct.pack('>d', value).hex(), int(timestamp), sep='\t', file=expected)
