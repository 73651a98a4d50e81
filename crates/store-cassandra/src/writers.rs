//! The writer identity of this process and its registration in the table of writers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plumbago_store::writer::{IDS_PER_WRITER, WRITER_IDS};
use plumbago_store::{StoreError, WriterIdentity};
use uuid::Uuid;

use crate::metadata::NameStore;

/// How long rows may carry writer ids after these were registered or renewed.
const VALID_FOR: Duration = Duration::from_secs(86_400);
/// A margin after `VALID_FOR` and the longest window, during which ids stay taken. It allows for different
/// clocks and for requests in flight.
const MARGIN: Duration = Duration::from_secs(86_400);

/// The time of registration of a process that never registers, such as a command.
const NEVER: i64 = i64::MIN;
/// The time of registration of ids that may no longer be used.
const LOST: i64 = i64::MIN + 1;

/// The writer identity and whether rows may carry it.
#[derive(Debug, Clone)]
pub(crate) struct SharedIdentity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    packed: AtomicU32,
    /// When the ids were last registered or renewed, in milliseconds since the epoch, or `NEVER` or `LOST`.
    registered_ms: AtomicI64,
    /// The identity of rows up to a timestamp, in microseconds since the epoch.
    former: OnceLock<(WriterIdentity, i64)>,
}

impl SharedIdentity {
    pub(crate) fn new(identity: WriterIdentity) -> Self {
        Self(Arc::new(Inner {
            packed: pack(identity).into(),
            registered_ms: NEVER.into(),
            former: OnceLock::new(),
        }))
    }

    /// Declares that rows up to a timestamp carry another identity. Only the first call has an effect.
    pub(crate) fn set_former(&self, identity: WriterIdentity, until_us: i64) {
        let _ = self.0.former.set((identity, until_us));
    }

    /// The former identity, if rows with this timestamp carry it.
    pub(crate) fn former_at(&self, timestamp_us: i64) -> Option<WriterIdentity> {
        self.0.former.get().filter(|(_, until_us)| timestamp_us <= *until_us).map(|(identity, _)| *identity)
    }

    pub(crate) fn get(&self) -> WriterIdentity {
        let packed = self.0.packed.load(Ordering::Acquire);
        WriterIdentity::new((packed >> 16) as u8, packed as u16)
    }

    /// Replaces the identity. If the previous identity was registered, rows may carry the new one only after
    /// it is registered too.
    pub(crate) fn set(&self, identity: WriterIdentity) {
        if self.0.registered_ms.load(Ordering::Acquire) != NEVER {
            self.lose();
        }
        self.0.packed.store(pack(identity), Ordering::Release);
    }

    /// Records that the identity was registered by a request that was sent at `now_ms`.
    pub(crate) fn keep(&self, now_ms: i64) {
        self.0.registered_ms.store(now_ms, Ordering::Release);
    }

    /// Records that the identity belongs to another instance.
    pub(crate) fn lose(&self) {
        self.0.registered_ms.store(LOST, Ordering::Release);
    }

    /// Whether rows may carry the identity. They may not if its registration was not renewed for a day,
    /// because another instance may take it soon after. A clock that was set back by more than a day has the
    /// same effect. Call this after `get`.
    pub(crate) fn is_valid(&self, now_ms: i64) -> bool {
        let at = self.0.registered_ms.load(Ordering::Acquire);
        at == NEVER || now_ms.abs_diff(at) <= VALID_FOR.as_millis() as u64
    }
}

fn pack(identity: WriterIdentity) -> u32 {
    u32::from(identity.replica()) << 16 | u32::from(identity.first_id())
}

/// A row of the table of writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Registered {
    first_id: u16,
    instance: Option<Uuid>,
    /// The time since it was registered or renewed, on the clocks of the servers. Zero if unknown.
    age: Duration,
}

/// For how long writer ids stay taken after their last renewal. After this time, every window of which their owner may
/// have stored a part is closed. So a new owner of the ids cannot replace an open window.
fn taken_for(longest_window: Duration) -> Duration {
    VALID_FOR + MARGIN + longest_window
}

/// An identity of the replica that no instance uses: one that was never registered, chosen by `pick`, or the one
/// that was not renewed for the longest time. `None` if all were renewed within `taken_for`.
fn choose(replica: u8, rows: &[Registered], taken_for: Duration, pick: u128) -> Option<WriterIdentity> {
    let mut ages: BTreeMap<u16, Duration> = BTreeMap::new();
    for row in rows {
        let age = ages.entry(row.first_id).or_insert(row.age);
        *age = row.age.min(*age);
    }
    let all = (0..WRITER_IDS).step_by(usize::from(IDS_PER_WRITER));
    let unused: Vec<u16> = all.filter(|first| !ages.contains_key(first)).collect();
    if !unused.is_empty() {
        let first = unused[(pick % unused.len() as u128) as usize];
        return Some(WriterIdentity::new(replica, first));
    }
    let (first, age) = ages.into_iter().max_by_key(|(_, age)| *age)?;
    (age > taken_for).then(|| WriterIdentity::new(replica, first))
}

impl NameStore {
    /// Registers the writer ids of `identity` for an instance, or renews that. Returns `false` if another instance
    /// has one of them; the caller then needs a new identity.
    pub(crate) async fn register_writer(
        &self,
        identity: WriterIdentity,
        instance: Uuid,
        host: &str,
    ) -> Result<bool, StoreError> {
        let (replica, first) = (identity.replica(), identity.first_id());
        let last = first + IDS_PER_WRITER - 1;
        let taken_for = taken_for(self.longest_window());
        let is_others = |row: &Registered| row.instance != Some(instance) && row.age <= taken_for;
        if self.writers(replica, first, last).await?.iter().any(is_others) {
            return Ok(false);
        }
        let values = (i16::from(replica), first.cast_signed(), instance, host);
        self.run("register the writer", self.text.insert_writer(), &values).await?;
        // Checks the rows again: another instance may have registered the ids at the same time.
        let rows = self.writers(replica, first, last).await?;
        Ok(rows.iter().any(|row| row.instance == Some(instance)) && !rows.iter().any(is_others))
    }

    /// An identity of the replica that no instance uses; `None` if there is none.
    pub(crate) async fn free_writer(&self, replica: u8) -> Result<Option<WriterIdentity>, StoreError> {
        let rows = self.writers(replica, 0, WRITER_IDS - 1).await?;
        Ok(choose(replica, &rows, taken_for(self.longest_window()), Uuid::new_v4().as_u128()))
    }

    /// The registered ids of a replica from `first` to `last`, at the consistency level of writes.
    async fn writers(&self, replica: u8, first: u16, last: u16) -> Result<Vec<Registered>, StoreError> {
        let range = (i16::from(replica), first.cast_signed(), last.cast_signed());
        let rows: Vec<(i16, Option<Uuid>, Option<i64>, i64)> =
            self.rows_at("read writers", self.text.writers(), &range, true).await?;
        let registered = rows.into_iter().map(|(id, instance, since_ms, now_ms)| Registered {
            first_id: WriterIdentity::new(replica, id.cast_unsigned()).first_id(),
            instance,
            age: Duration::from_millis(u64::try_from(now_ms - since_ms.unwrap_or(now_ms)).unwrap_or(0)),
        });
        Ok(registered.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_identity_survives_packing() {
        for identity in
            [WriterIdentity::new(3, 16_383), WriterIdentity::new(0, 0), WriterIdentity::new(1, 13)]
        {
            assert_eq!(SharedIdentity::new(identity).get(), identity);
        }
    }

    #[test]
    fn rows_carry_an_identity_only_while_it_is_registered() {
        const DAY_MS: i64 = 86_400_000;
        let identity = SharedIdentity::new(WriterIdentity::new(0, 8));
        assert!(identity.is_valid(0), "a command registers nothing");
        identity.set(WriterIdentity::new(0, 16));
        assert!(identity.is_valid(0));
        identity.keep(5);
        assert!(identity.is_valid(5 + DAY_MS) && !identity.is_valid(6 + DAY_MS));
        assert!(!identity.is_valid(4 - DAY_MS), "the clock went back");
        identity.set(WriterIdentity::new(0, 24));
        assert!(!identity.is_valid(5), "the new one is not registered");
        identity.keep(7);
        assert!(identity.is_valid(7));
        identity.lose();
        assert!(!identity.is_valid(7));
    }

    #[test]
    fn ids_come_back_when_nobody_has_used_them_for_long() {
        let hours = |n: u64| Duration::from_secs(n * 3600);
        let taken_for = taken_for(hours(24));
        let row = |first_id, age| Registered { first_id, instance: None, age };
        let all = |age: Duration| -> Vec<Registered> {
            (0..WRITER_IDS).step_by(8).map(|first| row(first, age)).collect()
        };
        assert_eq!(choose(1, &all(hours(1)), taken_for, 0), None);
        let mut rows = all(hours(71));
        rows[100].age = hours(80);
        rows[200].age = hours(90);
        assert_eq!(choose(1, &rows, taken_for, 0), Some(WriterIdentity::new(1, 1600)), "the oldest");
        // Another id of the same writer is in use.
        rows.push(row(1600, hours(1)));
        assert_eq!(choose(1, &rows, taken_for, 0), Some(WriterIdentity::new(1, 800)));
        rows.remove(50);
        assert_eq!(choose(1, &rows, taken_for, 7), Some(WriterIdentity::new(1, 400)), "never used");
        let picked: BTreeSet<_> = (0..99).map(|pick| choose(0, &[], taken_for, pick)).collect();
        assert_eq!(picked.len(), 99);
    }
}
