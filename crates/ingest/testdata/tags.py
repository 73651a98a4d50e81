"""Writes tags.tsv: names with tags, and what carbon's own parser makes of them.

pip install carbon==1.1.10, then: PYTHONPATH=<carbon's lib> python tags.py > tags.tsv
"""

from carbon.util import TaggedSeries

NAMES = [
    'a.b', '~a', '~~a;x=1', 'a;x=1', 'a;b=2;a=1', 'a;a-b=1;a=1', 'a;a=1;a-b=1', 'a;b=1;b=2', 'a;b=2;b=1',
    'a;b=1;c=3;b=2', 'a;name=z', 'a;name=z;b=1', 'a;', 'a;b', 'a;b=', 'a;=c', 'a;b=~c', 'a;b=c~', 'a;b!=c',
    'a;b^=c', 'a;b=c=d', 'a;b==c', 'a;b=c;;d=e', 'a;b=c;', ';a=b', '~', '~;a=b', 'a;b=\u00e9;B=1',
    'a;\u00e9=1;z=2', 'a..b;c=d', 'a{b}', 'a{}', '{}', 'a{b="c"}', 'a{b="c",a="d"}', 'a{b="c",b="d"}',
    'a{b="x\\"y\\\\z"}', 'a{b="x\\ny"}', 'a{b="x\\\\"}', 'a{b="x\\"}', 'a{b=""}', 'a{b="c";d="e"}',
    '{b="c"}', '~{b="c"}', '~a{b="c"}', 'a{b="x;y"}', 'a{b="~y"}', 'a{b!="y"}', 'a{="y"}', 'a{b="c",}',
    'a{b="c"}d="e"}', 'a{,b="c"}', 'a{b="x","c"="d"}', 'a{b="x"c="d"}', 'a{name="x"}', 'a{name="x",b="c"}',
    'a{b="c=d"}', 'a{b="c,d"}', 'a{"}', 'a"}',
]

for name in NAMES:
    try:
        result = TaggedSeries.parse(name).path
    except Exception:
        result = 'error'
    print(f'{name}\t{result}')
