//! Property test: any options result in a picture or an error message.

use std::sync::Arc;

use plumbago_graph::{Content, DrawOptions, Fold, Options, Series, Slice};
use proptest::prelude::*;

const NAMES: &[&str] = &[
    "width",
    "height",
    "margin",
    "bgcolor",
    "fgcolor",
    "fontName",
    "fontSize",
    "fontBold",
    "fontItalic",
    "colorList",
    "template",
    "title",
    "vtitle",
    "vtitleRight",
    "lineMode",
    "lineWidth",
    "thickness",
    "areaMode",
    "areaAlpha",
    "hideLegend",
    "uniqueLegend",
    "hideNullFromLegend",
    "hideAxes",
    "hideXAxis",
    "hideYAxis",
    "hideGrid",
    "graphOnly",
    "drawNullAsZero",
    "yMin",
    "yMax",
    "yLimit",
    "yStep",
    "min",
    "max",
    "yUnitSystem",
    "yDivisors",
    "logBase",
    "minXStep",
    "majorGridLineColor",
    "minorGridLineColor",
    "minorY",
    "xFormat",
    "yMinLeft",
    "yMaxLeft",
    "yLimitLeft",
    "yStepLeft",
    "yMinRight",
    "yMaxRight",
    "yLimitRight",
    "yStepRight",
    "leftColor",
    "leftWidth",
    "leftDashed",
    "rightColor",
    "rightWidth",
    "rightDashed",
    "yAxisSide",
    "connectedLimit",
    "valueLabels",
    "valueLabelsMin",
    "pieLabels",
];

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "-?[0-9]{1,3}(\\.[0-9]{1,2})?",
        1 => "-?[0-9]{1,20}e?-?[0-9]{0,3}",
        1 => "true|false|max|e|none|default|",
        1 => "slope|staircase|connected|first|all|stacked|right|left|si|binary|sec|msec|number|percent|rotated",
        1 => "classic|noc|grafana|red|blue|#?[0-9a-f]{6,8}|red,blue,00ff00|4,5,6",
        1 => "[%a-zA-Z<>&é日\\n ]{0,10}",
        1 => any::<String>(),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -100.0..100.0f64,
        2 => Just(f64::NAN),
        1 => any::<f64>(),
        1 => Just(f64::INFINITY),
        1 => Just(0.0),
    ]
}

prop_compose! {
    fn draw_options()(
        color in proptest::option::of("red|#00ff00|[0-9a-f]{8}"), alpha in proptest::option::of(number()),
        line_width in proptest::option::of(number()), dashed in proptest::option::of(number()),
        flags in 0u32..64,
    ) -> DrawOptions {
        DrawOptions {
            color, alpha, line_width, dashed,
            second_y_axis: flags % 4 == 1, stacked: flags & 4 != 0, invisible: flags % 16 == 15,
            draw_as_infinite: flags % 8 == 3,
        }
    }
}

prop_compose! {
    fn series()(
        name in ".{0,20}", start in prop_oneof![4 => 1_699_990_000..1_700_000_000i64, 1 => -(1i64 << 40)..1i64 << 40],
        step in prop_oneof![4 => 1..600i64, 1 => 1..100_000_000i64],
        values in proptest::collection::vec(number(), 0..200), more in -2..3i64, options in draw_options(),
    ) -> Series {
        let end = start + step * (values.len() as i64 + more).max(0);
        Series { name, start, end, step, values: Arc::new(values), fold: Fold::mean(), options }
    }
}

/// Removes options until the rest is accepted, so that most cases draw a picture.
fn accepted(mut pairs: Vec<(&'static str, String)>) -> Options {
    loop {
        let given = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        match Options::parse(&given, "Europe/Rome") {
            Ok(options) => return options,
            Err(error) => {
                assert!(!error.to_string().is_empty() && error.to_string().chars().count() < 200, "{error}");
                pairs.pop();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn lines(
        pairs in proptest::collection::vec((proptest::sample::select(NAMES), value()), 0..8),
        size in prop_oneof![4 => (20u32..400, 20u32..300), 1 => (1u32..20, 1u32..20)],
        series in proptest::collection::vec(series(), 0..14),
    ) {
        let mut all = vec![("width", size.0.to_string()), ("height", size.1.to_string())];
        all.extend(pairs);
        match plumbago_graph::svg(&accepted(all), Content::Lines(series)) {
            Ok(svg) => {
                let png = plumbago_graph::png(&svg);
                prop_assert!(png.is_ok(), "{png:?}: {svg}");
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn pies(
        pairs in proptest::collection::vec((proptest::sample::select(NAMES), value()), 0..8),
        slices in proptest::collection::vec((".{0,9}", number()), 0..8),
    ) {
        let mut all = vec![("width", "120".to_owned()), ("height", "80".to_owned())];
        all.extend(pairs);
        let slices = slices.into_iter().map(|(name, value)| Slice { name, value }).collect();
        let svg = plumbago_graph::svg(&accepted(all), Content::Pie(slices)).unwrap();
        let png = plumbago_graph::png(&svg);
        prop_assert!(png.is_ok(), "{png:?}: {svg}");
    }
}
