//! The graphs of the tests.

use std::sync::Arc;

use plumbago_graph::{Content, DrawOptions, Fold, GraphError, Options, PieMode, Series, Slice};

pub(crate) const NOW: i64 = 1_700_000_100;

/// A case: its name, its options, and its series.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) options: &'static [(&'static str, &'static str)],
    pub(crate) series: fn() -> Vec<Series>,
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "default", options: &[], series: waves },
    Case {
        name: "large",
        options: &[
            ("width", "800"),
            ("height", "400"),
            ("title", "Requests per second"),
            ("vtitle", "req/s"),
            ("yMin", "0"),
            ("lineMode", "staircase"),
        ],
        series: waves,
    },
    Case {
        name: "stacked",
        options: &[("width", "586"), ("height", "308"), ("areaMode", "stacked"), ("template", "classic")],
        series: positive,
    },
    Case {
        name: "faded",
        options: &[
            ("width", "586"),
            ("height", "308"),
            ("areaMode", "all"),
            ("areaAlpha", "0.5"),
            ("bgcolor", "#eeeeee"),
        ],
        series: positive,
    },
    Case {
        name: "two-axes",
        options: &[("width", "586"), ("height", "308"), ("vtitle", "left"), ("vtitleRight", "right")],
        series: two_sided,
    },
    Case {
        name: "logarithm",
        options: &[("width", "586"), ("height", "308"), ("logBase", "10")],
        series: powers,
    },
    Case {
        name: "drawn",
        options: &[("width", "586"), ("height", "308"), ("hideLegend", "false"), ("fontBold", "true")],
        series: drawn,
    },
    Case { name: "gaps", options: &[("lineMode", "connected"), ("drawNullAsZero", "false")], series: gaps },
    Case {
        name: "spark",
        options: &[("width", "200"), ("height", "40"), ("graphOnly", "true")],
        series: waves,
    },
    Case { name: "empty", options: &[], series: Vec::new },
];

pub(crate) fn options(pairs: &[(&str, &str)]) -> Result<Options, GraphError> {
    Options::parse(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value), "UTC")
}

pub(crate) fn svg(case: &Case) -> String {
    plumbago_graph::svg(&options(case.options).unwrap(), Content::Lines((case.series)())).unwrap()
}

pub(crate) fn pie() -> String {
    let slice = |(index, series): (usize, Series)| Slice {
        name: series.name.clone(),
        value: PieMode::Average.value(&series.values) + index as f64,
    };
    let slices = positive().into_iter().enumerate().map(slice).collect();
    plumbago_graph::svg(&options(&[("title", "Shares")]).unwrap(), Content::Pie(slices)).unwrap()
}

pub(crate) fn series(name: &str, value: impl Fn(f64) -> f64) -> Series {
    let values: Vec<f64> = (0..360).map(|index| value(f64::from(index))).collect();
    Series {
        name: name.to_owned(),
        start: NOW - 360 * 60,
        end: NOW,
        step: 60,
        values: Arc::new(values),
        fold: Fold::mean(),
        options: DrawOptions::default(),
    }
}

fn waves() -> Vec<Series> {
    vec![
        series("web.a.requests", |x| 50.0 + 30.0 * (x / 30.0).sin()),
        series("web.b.requests", |x| 40.0 + 20.0 * (x / 50.0).cos() + (x % 7.0)),
        series("db.x.load", |x| if (100.0..140.0).contains(&x) { f64::NAN } else { x / 6.0 }),
    ]
}

fn positive() -> Vec<Series> {
    vec![
        series("cpu.user", |x| 20.0 + 10.0 * (x / 30.0).sin()),
        series("cpu.system", |x| 15.0 + 5.0 * (x / 20.0).cos()),
        series("cpu.iowait", |x| if (200.0..220.0).contains(&x) { f64::NAN } else { 5.0 + (x % 11.0) }),
    ]
}

fn two_sided() -> Vec<Series> {
    let mut series = waves();
    series[2].values = Arc::new(series[2].values.iter().map(|value| value * 12_345.0).collect());
    series[2].options.second_y_axis = true;
    series
}

fn powers() -> Vec<Series> {
    vec![series("exp", |x| (x / 40.0).exp()), series("zeros", |x| if x % 50.0 < 5.0 { 0.0 } else { x })]
}

fn drawn() -> Vec<Series> {
    let mut series = waves();
    let mut deploys = self::series("deploys", |x| if x == 90.0 || x == 250.0 { 1.0 } else { f64::NAN });
    deploys.options =
        DrawOptions { draw_as_infinite: true, color: Some("orange".to_owned()), ..DrawOptions::default() };
    series[0].options = DrawOptions { dashed: Some(5.0), line_width: Some(3.0), ..DrawOptions::default() };
    series[1].options =
        DrawOptions { alpha: Some(0.3), color: Some("#ff00ff".to_owned()), ..DrawOptions::default() };
    let mut lower = self::series("between", |x| 60.0 + 5.0 * (x / 25.0).sin());
    let mut upper = self::series("between", |x| 75.0 + 5.0 * (x / 35.0).sin());
    lower.options = DrawOptions { stacked: true, invisible: true, ..DrawOptions::default() };
    upper.options = DrawOptions { stacked: true, color: Some("green".to_owned()), ..DrawOptions::default() };
    series.extend([deploys, lower, upper]);
    series
}

fn gaps() -> Vec<Series> {
    vec![
        series("every third", |x| if x % 30.0 < 10.0 { x } else { f64::NAN }),
        series("single points", |x| if x % 40.0 == 0.0 { 200.0 } else { f64::NAN }),
    ]
}
