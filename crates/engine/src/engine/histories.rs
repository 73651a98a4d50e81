//! Passes requests about heads to the shards, and the changes that follow, when histories are stored or
//! ranges are deleted.

use futures::future::try_join_all;
use plumbago_store::FetchError;
use tokio::sync::oneshot;

use super::Engine;
use crate::command::{ShardCommand, ask};
use crate::router::NameHash;
use crate::shard::copy::{BeginMove, Moved};
use crate::shard::import::{Begin, Begun, End};
use crate::shard::ranges::BeginRange;

impl Engine {
    /// Asks the shards for the content of the heads of these metrics. The answers are in the same order.
    pub(crate) async fn begin_import(&self, begins: Vec<Begin>) -> Result<Vec<Begun>, FetchError> {
        self.ask_heads(begins, |begin| begin.hash, ShardCommand::BeginImport).await
    }

    /// Like `begin_import`, for metrics of which a range is deleted.
    pub(crate) async fn begin_range(&self, begins: Vec<BeginRange>) -> Result<Vec<Begun>, FetchError> {
        self.ask_heads(begins, |begin| begin.hash, ShardCommand::BeginRange).await
    }

    /// Begins the deletion of metrics that were copied. The answers are in the same order.
    pub(crate) async fn begin_moves(&self, moves: &[BeginMove]) -> Result<Vec<Moved>, FetchError> {
        let hashes: Vec<NameHash> = moves.iter().map(|moved| moved.hash).collect();
        let questions = self.0.router.group(&hashes).into_iter().map(|(shard, places)| async move {
            let asked = places.iter().map(|place| moves[*place].clone()).collect();
            let answer =
                ask(&self.0.workers[shard], |sender| ShardCommand::BeginMoves(asked, sender)).await?;
            Ok::<_, FetchError>((places, answer))
        });
        let mut answers: Vec<Moved> = Vec::new();
        answers.resize_with(moves.len(), Moved::default);
        for (places, part) in try_join_all(questions).await? {
            for (place, answer) in places.into_iter().zip(part) {
                answers[place] = answer;
            }
        }
        Ok(answers)
    }

    async fn ask_heads<B: Copy>(
        &self,
        begins: Vec<B>,
        hash: fn(&B) -> NameHash,
        question: fn(Vec<B>, oneshot::Sender<Vec<Begun>>) -> ShardCommand,
    ) -> Result<Vec<Begun>, FetchError> {
        let hashes: Vec<NameHash> = begins.iter().map(hash).collect();
        let begins = &begins;
        let questions = self.0.router.group(&hashes).into_iter().map(|(shard, places)| async move {
            let asked = places.iter().map(|place| begins[*place]).collect();
            let answer = ask(&self.0.workers[shard], |sender| question(asked, sender)).await?;
            Ok::<_, FetchError>((places, answer))
        });
        let mut answers: Vec<Begun> = Vec::new();
        answers.resize_with(begins.len(), || Begun::Unknown);
        for (places, part) in try_join_all(questions).await? {
            for (place, answer) in places.into_iter().zip(part) {
                answers[place] = answer;
            }
        }
        Ok(answers)
    }

    /// Passes the changes to the shards, each with the number of its shard.
    pub(crate) async fn end_import(&self, ends: Vec<(usize, End)>) -> Result<(), FetchError> {
        let mut shares: Vec<Vec<End>> = self.0.workers.iter().map(|_| Vec::new()).collect();
        ends.into_iter().for_each(|(shard, end)| shares[shard].push(end));
        let shares = self.0.workers.iter().zip(shares).filter(|(_, share)| !share.is_empty());
        try_join_all(
            shares.map(|(shard, share)| ask(shard, |sender| ShardCommand::EndImport(share, sender))),
        )
        .await?;
        Ok(())
    }
}
