//! Runs long work on threads that serve no connections.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::{ApiError, aborted};

/// Runs work on a thread for blocking work, after waiting for one of the permits.
///
/// # Errors
///
/// If the process is stopping.
pub(crate) async fn on_thread<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(|_| aborted())?;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.map_err(|_| aborted())
}
