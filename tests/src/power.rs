//! Power cuts and disks that fail to sync. `preload/power.c` runs inside the daemon's process and keeps an image of
//! the synced part of each file.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::daemon::Setup;

/// The disk below a daemon's data directory.
#[derive(Debug)]
pub struct Disk {
    data: PathBuf,
    control: PathBuf,
}

impl Disk {
    /// Makes syncs fail on request in the daemons that `setup` starts afterwards. Compiles the library with
    /// `cc`.
    pub fn below(setup: &mut Setup) -> Self {
        let control = setup.path().join("power");
        for kind in ["image", "lost"] {
            fs::create_dir_all(control.join(kind)).unwrap();
        }
        let library = control.join("power.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/power.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).args(["-ldl", "-lpthread"]);
        assert!(compile.status().expect("a C compiler, `cc`").success());
        let disk = Self { data: setup.data(), control };
        setup.environment("LD_PRELOAD", library.to_str().unwrap());
        setup.environment("PLUMBAGO_POWER_DATA", disk.data.to_str().unwrap());
        setup.environment("PLUMBAGO_POWER_CONTROL", disk.control.to_str().unwrap());
        disk
    }

    /// From now on syncs of paths that contain `part` fail.
    pub fn fail(&self, part: &str) {
        fs::write(self.control.join("fail.new"), part).unwrap();
        fs::rename(self.control.join("fail.new"), self.control.join("fail")).unwrap();
    }

    /// Syncs succeed again.
    pub fn heal(&self) {
        fs::remove_file(self.control.join("fail")).unwrap();
    }

    /// Number of failed syncs.
    pub fn failures(&self) -> usize {
        fs::read_to_string(self.control.join("failed")).unwrap_or_default().lines().count()
    }

    /// Simulates the power cut, after the process has ended: every file is cut back to its synced part. A file
    /// without a synced part becomes empty.
    pub fn cut(&self) {
        self.cut_below(&self.data);
    }

    fn cut_below(&self, directory: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.cut_below(&path);
                continue;
            }
            let image = self.control.join("image").join(key(&path));
            if image.exists() {
                fs::copy(image, path).unwrap();
            } else {
                fs::File::create(path).unwrap();
            }
        }
    }
}

/// The name of the image of a file.
fn key(path: &Path) -> OsString {
    let metadata = fs::metadata(path).unwrap();
    let born = metadata.created().expect("a file system that keeps the time of birth");
    let born = born.duration_since(UNIX_EPOCH).unwrap();
    format!("{}-{}-{}", metadata.ino(), born.as_secs(), born.subsec_nanos()).into()
}
