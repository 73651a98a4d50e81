//! Sends the rows again that a server may have lost.

use std::time::Duration;

use uuid::Uuid;

use crate::Member;
use crate::nodes_file::NodesFile;

/// How often the start times of the servers are compared with the known ones.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At the start: how often the daemon checks for the first answers of the servers, and for how long.
const FIRST_LOOK_EVERY: Duration = Duration::from_millis(20);
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

impl Member {
    /// Compares the start times once before the first row is sent. A new server has no rows of this daemon at
    /// that time, so none are sent again for it. Waits for the answers of the servers, but not long: servers
    /// that answer later count as new.
    pub(crate) async fn look_before_sending(&self) {
        let answered = async {
            loop {
                let listed = self.store().node_starts();
                if !listed.is_empty() && listed.iter().all(|node| node.start.is_some()) {
                    return;
                }
                tokio::time::sleep(FIRST_LOOK_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_LOOK_TIMEOUT, answered).await;
        self.look().await;
    }

    /// Sends retained rows again whenever a server was restarted, because it may have lost rows that it had
    /// acknowledged. Retained rows expire only once it is known that no server was restarted after they were
    /// acknowledged. Never returns.
    pub(crate) async fn resend_after_restarts(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await;
        }
    }

    async fn look(&self) {
        let this = self.clone();
        // Run on a blocking thread because it syncs files. A panic is reported by the panic hook.
        let _ = tokio::task::spawn_blocking(move || this.compare_starts()).await;
    }

    fn compare_starts(&self) {
        let mut nodes = self.nodes();
        // Read before the list is made, because the process may be suspended at any point.
        let now_ms = self.clock().steady_ms();
        let listed = self.store().node_starts();
        let news = nodes.news(&listed);
        // Noted only after the queued rows are on the disk, so that a crash in between loses nothing.
        if !news.is_empty() && self.resend(&news) {
            if nodes.has_restart(&news) {
                self.note_restart();
            }
            nodes.note(&news);
        }
        if let Some(age) = nodes.settled(&listed) {
            let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            self.outbox().release(now_ms.saturating_sub(age_ms));
        }
        save(&mut nodes);
    }

    /// Queues retained rows to be sent again to these servers. Returns `false` if the caller has to retry.
    fn resend(&self, news: &[(Uuid, i64)]) -> bool {
        let servers: Vec<Uuid> = news.iter().map(|(server, _)| *server).collect();
        match self.outbox().resend(&servers) {
            Ok(0) => true,
            Ok(_) => {
                for server in servers {
                    tracing::info!(%server, "a server was restarted or is new: retained rows are sent again");
                }
                true
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot queue retained rows to be sent again; retrying"
                );
                false
            }
        }
    }
}

/// A failure is only logged: while the old file exists, the next start sends the rows again once more.
fn save(nodes: &mut NodesFile) {
    if let Err(error) = nodes.save() {
        tracing::warn!(
            %error,
            "cannot write the file that says when each server was started; retrying. After a restart of this daemon, rows of \
             the last minutes may be sent once more"
        );
    }
}
