//! The real graphite-web with its composer, on a free port.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::child::Guarded;
use crate::counterpart;
use crate::wait::wait_for;

/// A running graphite-web.
#[derive(Debug)]
pub struct GraphiteWeb {
    _process: Guarded,
    address: SocketAddr,
}

impl GraphiteWeb {
    /// Starts it on a storage directory, with the whisper files in `whisper` below it. `None`, and a recorded skip, if
    /// Python or its packages are missing.
    pub fn start(storage: &Path) -> Option<Self> {
        let mut command = Command::new(counterpart::python()?);
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/python/graphite_web.py"), "0"]);
        command.env("GRAPHITE_STORAGE_DIR", storage).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("TMPDIR", storage);
        std::fs::create_dir_all(storage.join("whisper")).unwrap();
        let mut process = Guarded::start(command, &storage.join("graphite-web.log"));
        let address = wait_for("graphite-web to be ready", || {
            let output = process.output();
            assert!(process.runs(), "graphite-web has ended: {output}");
            output.lines().find_map(|line| line.strip_prefix("listening http ")?.parse().ok())
        });
        Some(Self { _process: process, address })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
