//! A small file system for tests of a full disk. It is mounted in a mount namespace of its own: this needs no
//! root, and nothing stays mounted, however the test ends.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::statvfs;

use crate::counterpart;
use crate::crash::{child_directory, child_test};

/// Runs the test `name` of this binary as a child process that has a file system of `mib` MiB. Panics with
/// its output if the test fails. Records a skip if the system does not allow mount namespaces.
pub fn with_small_disk(name: &str, mib: usize) {
    let directory = tempfile::tempdir().unwrap();
    let test = child_test(name, directory.path());
    let mount = "mount -t tmpfs -o size=\"$1\" none \"$2\" || exit 77; shift 2; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", mount, "sh", &format!("{mib}m")])
        .arg(directory.path())
        .arg(test.get_program())
        .args(test.get_args())
        .envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .output();
    let reason = match output {
        Ok(output) => {
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            let has_run = out.contains("running 1 test");
            if has_run && output.status.success() {
                return;
            }
            assert!(!has_run && !output.status.success(), "{name}:\n{out}{err}");
            err
        }
        Err(error) => error.to_string(),
    };
    let _: Option<()> = counterpart::skip(&format!("a small file system in a mount namespace: {reason}"));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The small file system of a process that [`with_small_disk`] started.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// The file system of this process. `None` in any other process: the test then does nothing.
    pub fn here() -> Option<Self> {
        child_directory().map(Self)
    }

    /// Root directory of the file system.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Uses up all free space.
    pub fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.filler()).unwrap();
        for size in [1 << 20, 4096, 1] {
            let chunk = vec![1; size];
            while file.write_all(&chunk).is_ok() {}
        }
    }

    /// Uses up `mib` MiB, or all free space if there is less.
    pub fn take(&self, mib: usize) {
        let _ = std::fs::write(self.filler(), vec![1; mib << 20]);
    }

    /// Uses up all free space except `mib` MiB.
    pub fn leave(&self, mib: usize) {
        let disk = statvfs(&self.0).unwrap();
        let free = (disk.blocks_available() * disk.fragment_size()) >> 20;
        self.take((free as usize).saturating_sub(mib));
    }

    /// Frees the space that [`Self::fill`], [`Self::take`] or [`Self::leave`] used.
    pub fn empty(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}
