"""Writes targets.json, times.json and widths.json from graphite-web itself.

    python3.11 -m venv venv && venv/bin/pip install graphite-web==1.1.10
    venv/bin/python generate.py

What graphite-web refuses or misreads is kept in the tables too: the tests name each place where
Plumbago differs on purpose.
"""

import json
import os
import random
import tempfile


os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
os.environ["GRAPHITE_STORAGE_DIR"] = tempfile.mkdtemp()
os.makedirs(os.environ["GRAPHITE_STORAGE_DIR"] + "/log/webapp")
from django.conf import settings

settings.UTF8_METRICS = True
import django

django.setup()
import pytz
from datetime import datetime
from graphite.render import views
from graphite.render.attime import parseATTime
from graphite.render.datalib import TimeSeries
from graphite.render.evaluator import evaluateScalarTokens
from graphite.render.grammar_unsafe import grammar
from graphite.util import epoch

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name, rows):
    with open(os.path.join(HERE, name), "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
    print(name, len(rows))


# --- targets -----------------------------------------------------------------


def tree(tokens, piped=None):
    """The tokens as nested lists: ["path", p], ["call", name, args, kwargs], [kind, value]."""
    if tokens.template:
        params = [[k.argname, scalar(k.args[0])] for k in tokens.template.kwargs or []]
        params += [[str(i + 1), scalar(a)] for i, a in enumerate(tokens.template.args or [])]
        return ["template", tree(tokens.template), params]
    if tokens.expression:
        pipes = tokens.expression.pipedCalls
        if pipes and pipes.asList():
            last = pipes.pop()
            return tree(last, tokens)
        return tree(tokens.expression)
    if tokens.pathExpression:
        return ["path", tokens.pathExpression]
    if tokens.call:
        args = [tree(a) for a in tokens.call.args or []]
        if piped is not None:
            args.insert(0, tree(piped))
        return ["call", tokens.call.funcname, args, [[k.argname, tree(k.args[0])] for k in tokens.call.kwargs or []]]
    return scalar(tokens)


def scalar(tokens):
    value = evaluateScalarTokens(tokens)
    if value is None:
        return ["none"]
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, str):
        return ["string", value]
    if value == float("inf"):
        return ["inf"]
    return ["integer" if isinstance(value, int) else "float", value]


TARGETS = r"""
a
a.b.c
a.*.c
a.b?.[c-e]x.{f,g}h
a.**
servers.web-01.cpu_user
a:b/c%d$e~f&g+h#i.j
a;dc=x;rack=1
a{b,c}d.{e,f}{g,h}
a.{b*,c?}
münchen.straße
 a.b
a.b 
f(a)
f ( a , b )
f()
f(
sumSeries(a
a.b.c)
a.b.c junk
a.b.
a..b
.a
a,b
f(a,)
f(a,,b)
f(a b)
f(a.b, c.d)
sum(a.*, b.*)
f(g(h(a)))
f(a, 1)
f(a, -1)
f(a, 1.5)
f(a, -1.5)
f(a, .5)
f(a, 5.)
f(a, 1e3)
f(a, 1E3)
f(a, 1.2e-3)
f(a, 1e+3)
f(a, +1)
f(a, 1min)
f(a, 1min.cpu)
f(a, 1.5.6)
f(1.cpu)
f(a, 00012)
f(a, 123456789012)
f(a, 1, 2, 3)
f(a, true)
f(a, TRUE, False)
f(a, none, None)
f(a, inf)
f(a, Infinity)
f(a, truely)
f(inf.a)
f(true.a)
true
none
5
1.5
inf
f(a, "x")
f(a, 'x')
f(a, "it's")
f(a, 'say "x"')
f(a, "a\"b")
f(a, "\1")
f(a, '(^.*$)', '\1 A')
f(a, "x, y)")
f(a, "")
f(a, "x
f(a, "x')
"x"
f(a, key=1)
f(a, key="x", other='y')
f(a, key = none)
f(key=1)
f(a, key=1, b)
f(a, b.c=d)
f(a=b)
f(a\=b)
a=b
a\=b
f(a, key=b.*)
a|f()
a|f(2)
a.b|scale(2)|alias('x')
a | f ( 1 ) | g()
f(a|g(), b)
f(a, g(b)|h())
a|b
a|
|f()
a\.b
a\(b\)
a\{b\}
a\ b
a\,b
a\|b
a\"b
a\xb
a.{b,c}
a.{b,{c,d}}
a.{b,}
a.{b, c}
a.{b,c.d}
a.{b
a.b}
f(a.{b,c}, d)
f(a.{b,c}d, "x")
template(a.$x, x="b")
template(f(a.$x, $y), x="b", y=5)
template(a.$1.$2, "b", 'c')
template(a)
template(f(a.$1), 1.5)
template(a.$1, b)
template(a, x=b)
template(a.$1.$x, "b", x="c")
template(a.$x, x="b")|f()
f(template(a.$x, x="b"), 2)
seriesByTag('a=b')
seriesByTag('a=b', "c!=~d")
seriesByTag( 'a=b' ,'c=~d.*' )
sum(seriesByTag('name=x', 'dc=~a.*'))
aliasByNode(a.*.c, 1, -1)
aliasSub(a.b, "(^.*$)", "\1 A")
asPercent(a.{b,c}, 100)
movingAverage(a, '5min')
summarize(a, "1h", "sum", false)
threshold(5, "x", "red")
constantLine(100)
f_1(a)
_f(a)
1f(a)
f-g(a)
groupByNode(sumSeriesWithWildcards(a.*.b.*, 1), 2, 'sum')
a.b.*|groupByNode(1)|aliasByNode(0)
divideSeries(a, b)|scale(100)
randomWalk("x")
timeShift(a, '-1d')
f(
 a,
  b
 )
f(a	,b)
a[b.c
a.[!b]c
a.b^c
a@b
f(a!b)
f(a-b, c)
f(-a)
f(1-2)
f(--1)
f(1e)
f(1e5.x)
f(5min)
f((a))
(a)
f(a))
)
*
f(*)
f(*.*)
a.*b*.c*
a'b
f(a'b')
"""


def targets():
    texts = [t for t in TARGETS.strip("\n").split("\n")]
    # The one target with line ends in it was split above; put it together again.
    at = texts.index("f(", texts.index("timeShift(a, '-1d')"))
    texts[at : at + 4] = ["\n".join(texts[at : at + 4])]
    for text in texts:
        try:
            yield {"target": text, "tree": tree(grammar.parseString(text))}
        except Exception:
            yield {"target": text, "tree": None}


# --- times -------------------------------------------------------------------

ZONES = ["UTC", "Europe/Rome", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo"]

# A Monday; shortly after New York's clocks went forward; Rome's double hour; the last of a long month.
NOWS = [1705329296, 1710054000, 1698541200, 1711893599]

TIMES = """
now|-1h|-90s|-5min|-5minutes|-1d12h|-1w|-2mon|-1y|-1hours|-1hrs|-1sec|-30s|-1day
now-1h|now+1h|now-1d12h|now - 1 h|NOW-1H|+1h|-0s|-1h30min|-1month|-1years|-10d
-1m|-90|1h|-1.5h|-1d-2h|-h|-|+|now-|now+|-1x|-1h2|now-1d+2h|+1h-1d|1700000000+1h|x|noow|--1h
1700000000|0|1|20240115|19991231|19000101|20241301|20240132|123456789|12345678|00000000|17000000000|99999999999999
2024-01-01|2024-01-01T00:00|1700000000.5|2024/01/01
today|yesterday|tomorrow|noon|midnight|teatime|noonyesterday|noontomorrow|midnighttoday|teatimeyesterday
noon+2h|midnight-1d|teatime-30min|today-1h|yesterday+90min
6am|6pm|06am|11pm|1am|0am|0pm|13am|13pm|24am|6:30|06:30|6:30am|6:30pm|06:30pm|23:59|24:00|12:60|6:5|6:5pm|:30|6:|123:45
6:30:15|6am6pm|6amjan5|6pmyesterday|8:50today|18:00_20240115|04:00_20240115|6:30pm_01/15/24|noon_jan5|midnight_20240310
20240310|20240331|02:30_20240310|02:30_20240331|02:30_20231029|01:30_20231105|00:00_20181104|00:30_20181104
01/15/24|1/15/24|01/15/2024|12/31/99|01/15/70|01/15/69|02/29/24|02/29/23|13/01/24|01/32/24|01/15|1/2/3/4|01/15/1970|1/1/1900|a/b/c|//
jan5|jan05|jan15|january5|january15|jan115|feb29|feb30|dec31|jan|january|jan5th|5jan|mar1|may1|noonmar1|june31
monday|mon|tue|tuesday|wednesday|thu|fri|sat|sun|sunday|monkey|noonmonday|6pmsunday|mon-1w|midnight_monday|satu
10:00tomorrow|10:00_tomorrow|10:00,tomorrow|10:00 jan 5|12:00 20240115
-100000d|-9999999999999y|now-1d1|-1s1min1h1d1w1mon1y|+9999999999d
"""


def times():
    texts = [t for line in TIMES.strip().split("\n") for t in line.split("|")]
    texts += ["", " ", " now ", "12am", "12pm", "12:30am", "12:30pm"]
    for number, text in enumerate(texts):
        for zone in ZONES:
            for now in NOWS:
                # Each text in each zone once, each now in turn, and all nows in Rome.
                if zone != "Europe/Rome" and NOWS[number % len(NOWS)] != now:
                    continue
                tz = pytz.timezone(zone)
                try:
                    seconds = epoch(parseATTime(text, tz, datetime.fromtimestamp(now, tz)))
                except Exception:
                    seconds = None
                yield {"text": text, "zone": zone, "now": now, "seconds": seconds}


# --- widths ------------------------------------------------------------------


def widths():
    """maxDataPoints over one or two series, as renderViewJson answers."""
    random.seed(1)
    functions = ["average", "avg_zero", "sum", "max", "min", "first", "last", "avg"]
    for case in range(300):
        data, asked = [], []
        factor = random.choice([0, 0, 0, 0.3, 0.5, 1])
        for index in range(random.choice([1, 1, 1, 2, 3])):
            step = random.choice([1, 10, 60, 60, 300])
            start = 100000 + random.randint(0, 2000)
            start -= random.choice([0, start % step])
            count = random.randint(0 if index else 1, 60)
            values = [random.choice([None, float(random.randint(-9, 9)), random.random() * 1e6, -0.0]) for _ in range(count)]
            end = start + count * step + random.choice([0, 0, 0, 0, step, -step])
            function = random.choice(functions)
            asked.append({"start": start, "end": end, "step": step, "values": values, "function": function})
            data.append(TimeSeries("s%d" % index, start, end, step, list(values), consolidate=function, xFilesFactor=factor))
        options = {"maxDataPoints": random.choice([1, 2, 3, 5, 7, 10, 20, 30, 59, 60, 100])}
        if random.random() < 0.1:
            options = {}
        try:
            answer = [s["datapoints"] for s in json.loads(views.renderViewJson(dict(options), data).content)]
        except Exception:
            answer = None
        yield {"series": asked, "factor": factor, "width": options.get("maxDataPoints"), "answer": answer}



write("targets.json", list(targets()))
write("times.json", list(times()))
write("widths.json", list(widths()))
