//! The file operations that can fail on a faulty or full disk. They are behind a trait, so that tests can
//! inject faults.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use plumbago_fjall_host::space;

/// Operations on the journal's files. The default methods use the operating system; tests override some.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Creates a file. Fails if it exists.
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Reserves `len` bytes of disk space at the offset `at`. They read as zeros. Does nothing on file
    /// systems without this feature, where files grow as they are written.
    fn allocate(&self, file: &File, at: u64, len: u64) -> io::Result<()> {
        allocate(file, at, len)
    }

    /// Writes all of `bytes` at the offset `at`.
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }

    /// Makes the content of a file survive power loss.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Gives a file another name. A file that has this name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    /// Makes the creation, renaming and removal of files in a directory survive power loss.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    /// Free bytes on the disk of `dir`. `None` if the system does not report them.
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        space::free_at(dir)
    }
}

/// The real disk.
pub(crate) struct SystemDisk;

impl Disk for SystemDisk {}

#[cfg(target_os = "linux")]
fn allocate(file: &File, at: u64, len: u64) -> io::Result<()> {
    use nix::errno::Errno;
    use nix::fcntl::{FallocateFlags, fallocate};

    let range = (i64::try_from(at), i64::try_from(len));
    let (Ok(at), Ok(len)) = range else { return Err(io::ErrorKind::FileTooLarge.into()) };
    match fallocate(file, FallocateFlags::empty(), at, len) {
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        result => result.map_err(io::Error::from),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}
