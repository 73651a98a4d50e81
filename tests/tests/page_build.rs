//! Checks that the built files of the page belong to its sources.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use plumbago_tests::counterpart;

/// `page/check.mjs` checks the types, runs the page's own tests, checks that a build gives the bytes in `page/dist`,
/// and that all licences are known.
#[test]
fn the_page_in_the_binary_is_what_its_sources_build_to() {
    let Some((mut node, packages)) = counterpart::node() else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../page");
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&sources).unwrap().map(Result::unwrap) {
        if entry.file_name() != "node_modules" {
            let status = Command::new("cp").arg("-r").arg(entry.path()).arg(copy.path()).status();
            assert!(status.unwrap().success());
        }
    }
    symlink(packages.join("node_modules"), copy.path().join("node_modules")).unwrap();
    let output = node.arg("check.mjs").current_dir(copy.path()).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "page/check.mjs: {text}");
}
