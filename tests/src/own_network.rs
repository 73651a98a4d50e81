//! Runs a test in a network of its own. All ports of 127.0.0.1 are free there, so that programs can listen on
//! the ports that their documentation names. The test also has its own process namespace, so that no program
//! keeps running, however the test ends.

use std::process::{Command, Stdio};

use crate::counterpart;
use crate::crash::{child_directory, child_test};

/// Runs the test `name` of this binary again, as a child process in a network of its own. Returns true in the child,
/// and false in the parent once the child has ended. Panics with the child's output if it fails. Records a skip if
/// the system does not allow such networks.
pub fn inside(name: &str) -> bool {
    if child_directory().is_some() {
        return true;
    }
    run(name, &["--map-root-user"]);
    false
}

/// Like [`inside`], for a test that runs programs as other users and mounts file systems. Nobody outside sees
/// these mounts. This needs root.
pub fn inside_as_root(name: &str) -> bool {
    if child_directory().is_some() {
        return true;
    }
    if counterpart::root("to mount and to become other users").is_some() {
        run(name, &[]);
    }
    false
}

/// Makes an address unreachable: no packet arrives there. Only for a test in a network of its own.
pub fn cut_off(address: &str) {
    route("add", address);
}

/// Undoes [`cut_off`].
pub fn reconnect(address: &str) {
    route("del", address);
}

/// A route that drops all packets. It must be in the table of local addresses, because the kernel consults
/// that table first.
fn route(change: &str, address: &str) {
    assert!(child_directory().is_some(), "not in a network of its own");
    let arguments = ["route", change, "blackhole", address, "table", "local"];
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn run(name: &str, options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let test = child_test(name, directory.path());
    // The shell remains as the first process, because the first process must collect processes whose parents
    // have ended.
    let up = "ip link set lo up || exit 77; \"$@\"; exit $?";
    let output = Command::new("unshare")
        .args(options)
        .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", up, "sh"])
        .arg(test.get_program())
        .args(test.get_args())
        .envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .output();
    let reason = match output {
        Ok(output) => {
            let text =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let has_run = text[0].contains("running 1 test");
            if has_run && output.status.success() {
                return;
            }
            assert!(!has_run, "{name}:\n{}", text.concat());
            text.concat()
        }
        Err(error) => error.to_string(),
    };
    let _: Option<()> = counterpart::skip(&format!("a network namespace, with iproute2: {reason}"));
}
