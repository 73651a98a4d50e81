//! A lock on a file that ends when it is dropped, not when the file is closed.

use std::fs::{File, TryLockError};

/// A locked file.
///
/// If the program starts another one, the new process has copies of all open files until it runs its own program, and with
/// a copy it holds the lock, too. So dropping this value releases the lock itself.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Locks the file. Other processes, and other openings of the file in this one, cannot lock it.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if the file is locked already, [`TryLockError::Error`] if the system refuses.
    pub fn try_new(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_the_file_has_copies() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::create(dir.path().join("lock")).unwrap();
        let file = open();
        let copy = file.try_clone().unwrap();
        let lock = FileLock::try_new(file).unwrap();
        assert!(matches!(FileLock::try_new(open()), Err(TryLockError::WouldBlock)));
        drop(lock);
        assert!(FileLock::try_new(open()).is_ok());
        drop(copy);
    }
}
