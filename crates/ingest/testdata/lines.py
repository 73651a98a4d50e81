"""Writes lines.tsv: lines as they come over the wire, and what carbon's own receiver makes of them.

pip install carbon==1.1.10, then: PYTHONPATH=<carbon's lib> python lines.py > lines.tsv
Columns: the line in hex digits, the same to read, and name, bits of the value and timestamp, or `-`.
"""

import struct
import time

from carbon import events, protocols
from carbon.conf import settings
from carbon.util import TaggedSeries

time.time = lambda: 1700000000.0
settings['LOG_LISTENER_CONN_SUCCESS'] = False

LINES = [
    b'a.b 1 1234567890', b'a.b 1.5 1234567890\r', b'a.b\t1\t1234567890', b'a.b  1 \t 1234567890  ',
    b'  a.b 1 1234567890', b'\ta.b 1 1234567890', b'a.b 1 1234567890\r\r', b'a.b 1 1234567890.999',
    b'a.b 1 1.23456789e9', b'a.b +1 +1234567890', b'a.b -1.5e-3 1234567890', b'a.b .5 1234567890',
    b'a.b 5. 1234567890', b'a.b 1E3 1234567890', b'a.b 007 1234567890', b'a.b inf 1234567890',
    b'a.b -Infinity 1234567890', b'a.b nan 1234567890', b'a.b -NaN 1234567890', b'a.b 1 -1', b'a.b 1 -1.0',
    b'a.b 1 -1.9', b'a.b 1 0', b'a.b 1 -0.5', b'a.b 1 4294967295', b'a.b 1 N', b'a.b N 1234567890',
    b'a.b 1,5 1234567890', b'a.b 0x10 1234567890', b'a.b 1', b'a.b', b'a.b 1 1234567890 extra',
    b'a.b 1 1234567890 a.c 2 1234567890', b'a.b 1 1234567890\ra.c 2 1234567890', b'', b' ', b'\r', b' \t \r',
    b'a.b\x00c 1 1234567890', b'a.b 1\x00 1234567890', b'a.b 1 1234567890\x00', b'a/b 1 1234567890',
    b'a.b;x=1 1 1234567890', b'a.b;y=1;x=2 1 1234567890', b'a.b{y="1",x="2"} 1 1234567890',
    b'a b;x=1 1 1234567890', b'a;x=1 2 1 1234567890', b'caf\xc3\xa9.b 1 1234567890', b'a.* 1 1234567890',
    b'a.[b] 1 1234567890', b'1 2 3', b'a.b 1e999 1234567890', b'a.b 9007199254740993 1234567890',
    b'a.b 0.1 1234567890', b'a.b 17976931348623157e292 1234567890', b'a.b 1 00000001234567890',
    # Where we differ on purpose; the test says how.
    b'a..b 1 1234567890', b'.a.b. 1 1234567890', b'a.b 1_000 1234567890', b'a.b 1 -2',
    b'a.b 1 1700000000000', b'a.b;x 1 1234567890', b'a.b\x0b1\x0c1234567890', b'a.b\xc2\xa01 1234567890',
    b'a.b 1 nan', b'a.b 1 inf', b'caf\xe9 1 1234567890', b'a\x07b 1 1234567890', b'a.b 1\r 1234567890',
]


class Receiver(protocols.MetricLineReceiver):
    peerName = 'peer'

    def resetTimeout(self):
        pass


received = []
events.metricReceived.handlers[:] = [lambda metric, datapoint: received.append((metric, datapoint))]

for line in LINES:
    received.clear()
    try:
        Receiver().lineReceived(line)
    except (UnicodeDecodeError, ValueError, OverflowError):
        pass  # carbon drops the connection
    result = '-'
    if received:
        metric, (timestamp, value) = received[0]
        try:
            metric = TaggedSeries.parse(metric).path
        except Exception:
            pass
        bits = struct.pack('>d', value).hex()
        result = f'{repr(metric)[1:-1]} {bits} {int(timestamp)}'
    print(f'{line.hex()}\t{repr(line)[1:]}\t{result}')
