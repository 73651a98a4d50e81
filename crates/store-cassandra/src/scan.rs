//! Reads all metrics, in the order of the token ring.

use std::collections::HashMap;

use plumbago_store::{ErrorKind, MetaEntry, MetaPage, Share, StoreError};
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::driver::Session;
use crate::error;
use crate::metadata::NameStore;
use crate::schema::METADATA;

/// Maximum number of rows in one page, even if the caller asks for more. Larger pages are not faster.
const PAGE_MAX: usize = 20_000;

/// A range of the token ring, including both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRange {
    /// The first token.
    pub first: i64,
    /// The last token.
    pub last: i64,
}

impl TokenRange {
    /// The whole ring.
    pub const ALL: Self = Self { first: i64::MIN, last: i64::MAX };

    /// The part of the ring that belongs to a share.
    pub(crate) fn of(share: Share) -> Self {
        let (first, last) = share.bounds();
        // Shares count from 0 to the largest u64; tokens begin at the lowest i64.
        let token = |at: u64| (at ^ (1 << 63)).cast_signed();
        Self { first: token(first), last: token(last) }
    }

    /// The ring in `n` parts of equal size (at least one). A job can stop after any part and resume later.
    pub fn split(n: u32) -> Vec<Self> {
        Self::ALL.parts(n)
    }

    /// The tokens after this one; `None` if it is the last.
    pub(crate) fn behind(token: i64) -> Option<Self> {
        Some(Self { first: token.checked_add(1)?, last: i64::MAX })
    }

    /// The range in `n` parts of equal size; fewer if it has fewer than `n` tokens.
    pub(crate) fn parts(self, n: u32) -> Vec<Self> {
        let (first, after) = (i128::from(self.first), i128::from(self.last) + 1);
        let n = i128::from(n).clamp(1, (after - first).max(1));
        let edge = |i: i128| first + (after - first) * i / n;
        let part = |i| Self { first: edge(i) as i64, last: (edge(i + 1) - 1) as i64 };
        (0..n).map(part).collect()
    }
}

/// The rows of a page, and the position of the next one.
pub(crate) fn rows_and_next(
    operation: &str,
    (answer, next): (QueryResult, PagingStateResponse),
) -> Result<(QueryRowsResult, Option<Vec<u8>>), StoreError> {
    let rows = answer.into_rows_result().map_err(|error| error::answer(operation, error))?;
    let next = match next {
        PagingStateResponse::HasMorePages { state } => {
            let bytes = state.as_bytes_slice().map(|bytes| bytes.to_vec());
            Some(bytes.ok_or_else(|| StoreError::new(ErrorKind::Corrupt, operation))?)
        }
        PagingStateResponse::NoMorePages => None,
    };
    Ok((rows, next))
}

type Row<'a> = (&'a str, Option<Uuid>, Option<HashMap<String, String>>, Option<CqlTimeuuid>);

impl NameStore {
    /// A page of the metrics whose names have their token in `range`. `position` is the `next` of the page
    /// before, or `None` for the first page. Rows that are not usable metrics are left out.
    pub(crate) async fn scan(
        &self,
        range: TokenRange,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<MetaPage, StoreError> {
        let session = self.cluster.session().await?;
        let mut page = MetaPage::default();
        let mut position = position;
        // A page may have no usable row although more pages follow.
        loop {
            let (rows, next) = self.page(&*session, self.text.scan(), range, position, limit).await?;
            let rows = rows.rows::<Row<'_>>().map_err(|error| error::answer("scan metrics", error))?;
            for row in rows {
                match row {
                    Ok((name, id, config, created_on)) => self.add(&mut page, name, id, config, created_on),
                    Err(error) => self.damage.report(METADATA, &"a row of the scan", &error),
                }
            }
            page.next.clone_from(&next);
            position = next;
            if position.is_none() || !page.entries.is_empty() {
                return Ok(page);
            }
        }
    }

    async fn page(
        &self,
        session: &dyn Session,
        text: String,
        range: TokenRange,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<(QueryRowsResult, Option<Vec<u8>>), StoreError> {
        let mut statement = (*self.statement(session, text, false).await?).clone();
        statement.set_page_size(limit.clamp(1, PAGE_MAX) as i32);
        let state = position.map_or_else(PagingState::start, PagingState::new_from_raw_bytes);
        self.stats.metadata_requests.add(1);
        let answer = session.execute_single_page(&statement, &(range.first, range.last), state).await;
        rows_and_next("scan names", answer.map_err(|error| self.failed("scan names", error))?)
    }

    fn add(
        &self,
        page: &mut MetaPage,
        name: &str,
        id: Option<Uuid>,
        config: Option<HashMap<String, String>>,
        created_on: Option<CqlTimeuuid>,
    ) {
        let Some((config, created_on)) = self.understand(name, id, config, created_on) else { return };
        page.text.push_str(name);
        let name_end = page.text.len() as u32;
        page.entries.push(MetaEntry { name_end, created_on, config });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_ring_once() {
        for n in [1, 2, 3, 7, 1000] {
            let parts = TokenRange::split(n);
            assert_eq!(parts.len(), n as usize);
            assert_eq!((parts[0].first, parts[parts.len() - 1].last), (i64::MIN, i64::MAX));
            assert!(parts.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
        }
        assert_eq!(TokenRange::split(1), [TokenRange::ALL]);
        let behind = TokenRange::behind(i64::MAX - 3).unwrap();
        assert_eq!(behind.parts(4).len(), 3);
        assert_eq!(behind.parts(4)[2], TokenRange { first: i64::MAX, last: i64::MAX });
        assert_eq!(TokenRange::behind(i64::MAX), None);
    }
}
