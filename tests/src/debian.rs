//! A small Debian that `tests/install.sh` creates for the tests. [`Root`] is a copy that a test may change,
//! and [`Machine`] runs it under its own systemd.
//!
//! Both work in a process that is in [`crate::own_network::inside_as_root`]: their mounts and processes end
//! with that process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::child::Guarded;
use crate::counterpart;
use crate::wait::wait_for;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Arguments: the Debian of the cache, and an empty directory.
const MOUNT: &str = r#"
base=$1 work=$2
mount -t tmpfs none "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay none -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/work" "$work/root"
cd "$work/root"
mount -t proc none proc
mount -t sysfs -o ro none sys
# Not sticky, as tmpfs is by default: writing to a device there that another user has made would be refused.
mount -t tmpfs -o mode=755 none dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts
ln -s pts/ptmx dev/ptmx
"#;

/// Arguments: the root directory, the directory that may be written, user and group, and the command.
const SEALED: &str = r#"
root=$1 writable=$2 user=$3 group=$4
shift 4
mount --bind "$root$writable" "$root$writable"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs \
    --inh-caps=-all --bounding-set=-all "$@"
"#;

/// systemd puts its services into control groups below that of its own process, so its process gets a control
/// group that nothing else uses. Arguments: the root directory, a name for the control group, and the script
/// to continue with.
const GROUP: &str = r#"
groups=$1/sys/fs/cgroup
mount -t cgroup2 none "$groups"
mkdir "$groups/$2"
echo $$ >"$groups/$2/cgroup.procs"
umount "$groups"
exec unshare --mount --cgroup --uts --ipc --pid --fork --kill-child sh -ec "$3" sh "$1"
"#;

/// Argument: the root directory.
const BOOT: &str = r#"
cd "$1"
mount -t proc none proc
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs none run
mount -t tmpfs none tmp
: >etc/machine-id
mkdir host
pivot_root . host
umount -l /host
export container=chroot
exec chroot . /lib/systemd/systemd --log-target=console
"#;

/// The processes in systemd's control group end shortly after systemd itself is killed. The arguments are
/// those of `GROUP`.
const FORGET: &str = r#"
groups=$1/sys/fs/cgroup
mount -t cgroup2 none "$groups"
for _ in $(seq 100); do
    find "$groups/$2" -depth -type d -exec rmdir {} + 2>/dev/null || true
    if [ ! -e "$groups/$2" ]; then break; fi
    sleep 0.05
done
umount "$groups"
"#;

/// A root directory with the cached Debian system. It is an overlay: only changes use space, and they are
/// kept in memory.
#[derive(Debug)]
pub struct Root {
    work: PathBuf,
}

impl Root {
    /// A fresh copy. `None`, and a recorded skip, if there is no Debian in the cache.
    pub fn new() -> Option<Self> {
        let base = counterpart::debian_root()?;
        // The directory is not removed at the end, because nothing that is mounted in it may be deleted file
        // by file.
        let root =
            Self { work: tempfile::Builder::new().prefix("plumbago-debian-").tempdir().unwrap().keep() };
        let output = shell(MOUNT).arg(base).arg(&root.work).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        Some(root)
    }

    /// The path under which the test sees a file of the Debian. Links in the path must be relative.
    pub fn path(&self, path: &str) -> PathBuf {
        inside(&self.work.join("root"), path)
    }

    /// A command, run there as root.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.path("/")).args(arguments).env_clear().env("PATH", PATH).stdin(Stdio::null());
        command
    }

    /// Runs a command there that has to succeed. Returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        well(arguments, &self.command(arguments).output().unwrap())
    }

    /// A command that runs as the user `UID:GID` without any privilege and can write to only one directory.
    pub fn sealed(
        &self,
        user: &str,
        writable: &str,
        environment: &BTreeMap<String, String>,
        arguments: &[String],
    ) -> Command {
        let (user, group) = user.split_once(':').unwrap();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", SEALED, "sh"])
            .arg(self.path("/"))
            .args([writable, user, group]);
        command.args(arguments).env_clear().env("PATH", PATH).envs(environment).stdin(Stdio::null());
        command
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-R", "-l"]).arg(&self.work).status();
        let _ = std::fs::remove_dir(&self.work);
    }
}

/// A Debian that runs its systemd as the first process, in the network of this process. Dropping it kills
/// everything at once, like a power cut.
#[derive(Debug)]
pub struct Machine {
    process: Guarded,
    systemd: u32,
    root: Root,
}

impl Machine {
    /// Starts the machine and waits until it is up.
    pub fn start(root: Root) -> Self {
        let mut command = shell(GROUP);
        command.arg(root.path("/")).arg(group(&root)).arg(BOOT).env_clear().env("PATH", PATH);
        let process = Guarded::start(command, &root.work.join("console"));
        let mut machine = Self { process, systemd: 0, root };
        machine.systemd = wait_for("the machine to have a first process", || {
            assert!(machine.process.runs(), "{}", machine.process.output());
            let id = machine.process.id();
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
            let first: u32 = children.trim().parse().ok()?;
            let name = std::fs::read_to_string(format!("/proc/{first}/comm")).ok()?;
            (name.trim() == "systemd").then_some(first)
        });
        wait_for("the machine to be up", || {
            assert!(machine.process.runs(), "{}", machine.process.output());
            let output = machine.command(&["systemctl", "is-system-running"]).output().unwrap();
            ["running", "degraded"].contains(&said(&output).trim()).then_some(())
        });
        machine
    }

    /// The path under which the test sees a file of the machine. Links in the path must be relative.
    pub fn path(&self, path: &str) -> PathBuf {
        inside(Path::new(&format!("/proc/{}/root", self.systemd)), path)
    }

    /// A command, run there as root.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &self.systemd.to_string(),
            "--mount",
            "--cgroup",
            "--uts",
            "--ipc",
            "--pid",
        ]);
        command.arg("--").args(arguments).env_clear().env("PATH", PATH).stdin(Stdio::null());
        command
    }

    /// Runs a command there that has to succeed. Returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        well(arguments, &self.command(arguments).output().unwrap())
    }

    /// Runs a command there that has to fail. Returns its output.
    pub fn run_badly(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} succeeded: {}", said(&output));
        said(&output)
    }

    /// The state of a unit according to systemd: `active`, `inactive`, `failed`, …
    pub fn state(&self, unit: &str) -> String {
        let output = self.command(&["systemctl", "is-active", unit]).output().unwrap();
        said(&output).trim().to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.child().kill();
        let _ = self.process.child().wait();
        let _ = shell(FORGET).arg(self.root.path("/")).arg(group(&self.root)).output();
    }
}

/// A name for the control group that no other test uses.
fn group(root: &Root) -> &str {
    root.work.file_name().and_then(|name| name.to_str()).unwrap()
}

fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-ec", script, "sh"]).stdin(Stdio::null());
    command
}

fn well(arguments: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "{arguments:?} {:?}: {}", output.status, said(output));
    said(output)
}

/// Standard output and standard error as one text.
pub fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}
