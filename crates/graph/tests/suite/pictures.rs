//! Compares pictures with golden ones, with a tolerance. `PLUMBAGO_GRAPH_DIR=dir` writes the new pictures to
//! a directory. Copy them to `tests/golden` to make them the golden ones.

use std::path::{Path, PathBuf};

use crate::cases::{CASES, pie, svg};
use resvg::tiny_skia::Pixmap;

/// The names of the pictures and their SVG.
fn documents() -> Vec<(&'static str, String)> {
    let mut documents: Vec<_> = CASES.iter().map(|case| (case.name, svg(case))).collect();
    documents.push(("pie", pie()));
    documents
}

#[test]
fn pictures_look_as_before() {
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"));
    let shown = std::env::var_os("PLUMBAGO_GRAPH_DIR").map(PathBuf::from);
    let mut changed = Vec::new();
    for (name, svg) in documents() {
        let png = plumbago_graph::png(&svg).unwrap();
        if let Some(directory) = &shown {
            std::fs::create_dir_all(directory).unwrap();
            std::fs::write(directory.join(format!("{name}.svg")), &svg).unwrap();
            std::fs::write(directory.join(format!("{name}.png")), &png).unwrap();
        }
        let difference = match std::fs::read(golden.join(format!("{name}.png"))) {
            Ok(before) => difference(&before, &png),
            Err(_) => f64::INFINITY,
        };
        if difference > 0.005 {
            changed.push((name, difference));
        }
    }
    assert!(changed.is_empty(), "pictures and their share of changed pixels: {changed:?}");
}

/// The share of pixels that differ by more than a rounding error.
fn difference(before: &[u8], after: &[u8]) -> f64 {
    let (before, after) = (Pixmap::decode_png(before).unwrap(), Pixmap::decode_png(after).unwrap());
    if (before.width(), before.height()) != (after.width(), after.height()) {
        return f64::INFINITY;
    }
    let differs = |(a, b): (&[u8], &[u8])| a.iter().zip(b).any(|(a, b)| a.abs_diff(*b) > 24);
    let pixels = before.data().chunks(4).zip(after.data().chunks(4));
    pixels.filter(|pair| differs(*pair)).count() as f64 / f64::from(before.width() * before.height())
}

#[test]
fn a_picture_reads_no_files() {
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='4' height='4'><image href='tests/golden/pie.png' \
               width='4' height='4'/></svg>";
    let picture = Pixmap::decode_png(&plumbago_graph::png(svg).unwrap()).unwrap();
    assert!(picture.data().iter().all(|byte| *byte == 0));
    assert!(plumbago_graph::png("<svg").is_err());
    let large = "<svg xmlns='http://www.w3.org/2000/svg' width='60000' height='60000'/>";
    assert!(plumbago_graph::png(large).is_err());
}

#[test]
fn names_of_series_are_only_text() {
    let series = crate::cases::series("</text><script>&\u{0}\u{1b}\"'", |x| x);
    let options =
        crate::cases::options(&[("title", "<b>\n&amp;"), ("fontName", "a\"b'c"), ("xFormat", "<%H>")])
            .unwrap();
    let svg = plumbago_graph::svg(&options, plumbago_graph::Content::Lines(vec![series])).unwrap();
    assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains('\u{1b}'));
    assert!(plumbago_graph::png(&svg).is_ok());
}

#[test]
fn a_color_that_is_none_is_named() {
    let mut series = crate::cases::series("a", |x| x);
    series.options.color = Some("blau".to_owned());
    let drawn = plumbago_graph::svg(
        &crate::cases::options(&[]).unwrap(),
        plumbago_graph::Content::Lines(vec![series]),
    );
    assert!(drawn.unwrap_err().to_string().starts_with("\"blau\" is not a color"));
}
