//! Rows that failed: whether they are to blame, or the plugin is, and what becomes of their letters.

use std::collections::BTreeSet;
use std::time::Duration;

use keyvector_core::change::SequenceNumber;
use keyvector_core::document::FailureClass;
use keyvector_core::fingerprint::hash_name;
use keyvector_core::key::RowKey;
use keyvector_core::letter::Letter;
use keyvector_core::poison::Verdict;

use super::sort::{Places, letter};
use super::{Interrupt, Outcome, RowOutcome, Step, Worker};
use crate::embed::{PROBE_TEXT, Purpose};
use crate::render::{AfterDocument, render_row};
use crate::state::Halt;
use crate::table::{DeadLetterPolicy, OnPoison};

/// So many known rows are tried to tell whether a plugin still works.
const KNOWN_ROWS_TRIED: usize = 20;
/// So many of the rows that a shard waits for are named each time.
const WAITING_NAMED_MAX: usize = 5;
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);

impl Worker {
    /// Where the user wants no dead letters, the shard waits here until every row of the batch can be indexed.
    pub(super) async fn wait_without_queue(
        &self,
        mut outcomes: Vec<RowOutcome>,
        places: &Places,
        unreadable: &[Letter],
    ) -> Step<Vec<RowOutcome>> {
        if self.table.policy.dead_letters == DeadLetterPolicy::Store {
            return Ok(outcomes);
        }
        let mut pause = WAIT_FIRST;
        loop {
            let (failed, good): (Vec<_>, Vec<_>) =
                outcomes.into_iter().partition(|outcome| outcome.failure.is_some());
            outcomes = good;
            if failed.is_empty() && unreadable.is_empty() {
                self.counters.waiting(false);
                return Ok(outcomes);
            }
            self.counters.waiting(true);
            let rows = failed.len() + unreadable.len();
            for RowOutcome { change, failure, .. } in failed.iter().take(WAITING_NAMED_MAX) {
                tracing::error!(
                    shard_id = self.shard_id,
                    rows,
                    class = failure.as_ref().map_or("", |failure| failure.class.as_str()),
                    place = places.name(change.position, &self.shard_id, &change.sequence_number),
                    key = self.table.key_names.of(&change.key),
                    "the shard waits for a row that cannot be indexed, since dead_letters = \"none\""
                );
            }
            for letter in unreadable.iter().take(WAITING_NAMED_MAX) {
                tracing::error!(
                    shard_id = self.shard_id,
                    rows,
                    class = letter.class.as_str(),
                    place = letter.place,
                    "the shard waits at a record that cannot be read, since dead_letters = \"none\""
                );
            }
            tokio::select! {
                () = self.stop.now.cancelled() => return Err(Interrupt::Outcome(Outcome::Stopped)),
                () = self.stop.soon.cancelled() => return Err(Interrupt::Outcome(Outcome::Stopped)),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(WAIT_MAX),
            }
            let changes = failed.into_iter().map(|outcome| outcome.change).collect();
            outcomes.extend(self.apply(changes, true).await?);
        }
    }

    /// Dead-letters the rows that failed, once it is clear that they, and not the plugin or model, are to blame.
    pub(super) async fn set_aside(
        &mut self,
        outcomes: Vec<RowOutcome>,
        places: &Places,
        unreadable: Vec<Letter>,
        too_long: Vec<Letter>,
    ) -> Step<()> {
        if self.table.policy.dead_letters == DeadLetterPolicy::None {
            return Ok(());
        }
        self.write_letters(&too_long).await?;
        self.note_mended(&outcomes);
        for (key_hash, letter) in self.in_order(outcomes, places, unreadable) {
            self.guard.saw(key_hash, letter.is_some());
            self.held.extend(letter);
        }
        self.settle_letters().await
    }

    fn note_mended(&mut self, outcomes: &[RowOutcome]) {
        if self.held.is_empty() {
            return;
        }
        let held: BTreeSet<&RowKey> = self.held.iter().filter_map(|letter| letter.key.as_ref()).collect();
        for RowOutcome { change, failure, tried } in outcomes {
            if failure.is_some() {
                self.mended.remove(&change.key);
            } else if *tried && held.contains(&change.key) {
                self.mended.insert(change.key.clone());
            }
        }
    }

    /// Each tried row's key and, where it failed, its letter, in the shard's order.
    fn in_order(
        &self,
        outcomes: Vec<RowOutcome>,
        places: &Places,
        unreadable: Vec<Letter>,
    ) -> Vec<(u64, Option<Letter>)> {
        let mut rows: Vec<(SequenceNumber, u64, Option<Letter>)> = outcomes
            .into_iter()
            .filter(|outcome| outcome.tried || outcome.failure.is_some())
            .map(|RowOutcome { change, failure, .. }| {
                let number = change.sequence_number;
                let key_hash = hash_name(change.key.as_str());
                let letter = failure.map(|failure| {
                    let place = places.name(change.position, &self.shard_id, &number);
                    letter(&self.table, &self.shard_id, place, Some(change.key), number.clone(), failure)
                });
                (number, key_hash, letter)
            })
            .collect();
        if !unreadable.is_empty() {
            rows.extend(unreadable.into_iter().map(|letter| {
                (letter.sequence_number.clone(), hash_name(letter.sequence_number.as_str()), Some(letter))
            }));
            rows.sort_by(|a, b| a.0.cmp(&b.0));
        }
        rows.into_iter().map(|(_, key_hash, letter)| (key_hash, letter)).collect()
    }

    async fn settle_letters(&mut self) -> Step<()> {
        let hold = match self.guard.verdict() {
            Verdict::Release => 0,
            Verdict::Hold { latest } => (latest as usize).min(self.held.len()),
            Verdict::Halt => {
                let (failed, classes) = (self.held.len(), self.classes_held());
                let failed = format!("{failed} rows failed ({classes})");
                if self.blames_plugin_or_model() {
                    let reason = format!("{failed}: it looks like the plugin or the model, not the rows");
                    return Err(Interrupt::Broken(reason));
                }
                let reason = format!("{failed}: it looks like the source or its schema, not single records");
                return Err(Interrupt::Outcome(Outcome::Unreadable(reason)));
            }
        };
        let release = self.held.len() - hold;
        if self.table.policy.on_poison == OnPoison::Delete {
            let failed = self.held[..release].iter().filter_map(|letter| letter.key.as_ref());
            let keys: Vec<RowKey> = failed.filter(|key| !self.mended.contains(*key)).cloned().collect();
            self.delete(&keys).await?;
        }
        self.write_letters(&self.held[..release]).await?;
        self.held.drain(..release);
        if self.held.is_empty() {
            self.mended.clear();
            self.doubted = 0;
        }
        self.guard.released(u32::try_from(hold).unwrap_or(u32::MAX));
        Ok(())
    }

    /// At the tip nothing may come for a long time that tells a bad row from a broken plugin, so rows that were good
    /// before are tried. `drained`: nothing will come at all.
    pub(super) async fn settle_held(&mut self, drained: bool) -> Step<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        if self.held.len() != self.doubted || drained {
            self.doubted = self.held.len();
            if self.still_sound().await? {
                self.guard.proved_sound();
                self.settle_letters().await?;
                self.checkpoint_done().await?;
            }
        }
        if drained && !self.held.is_empty() {
            return Err(Interrupt::Outcome(Outcome::Held(format!(
                "the last {} rows of table {} failed ({}), and there is no other row that plugin and model still work on",
                self.held.len(),
                self.table.name,
                self.classes_held()
            ))));
        }
        Ok(())
    }

    /// Whether plugin and model, as far as held letters blame them, still work on something that is known to be good.
    async fn still_sound(&self) -> Step<bool> {
        let blamed = |from: FailureClass, to: FailureClass| {
            self.held.iter().any(|letter| (from..=to).contains(&letter.class))
        };
        if blamed(FailureClass::PluginRefused, FailureClass::PluginOutput)
            && !self.renders_a_known_row().await?
        {
            return Ok(false);
        }
        if blamed(FailureClass::ModelRejected, FailureClass::ModelFailed) {
            let probe = self.table.embedder.embed(&[PROBE_TEXT], Purpose::Document, &self.stop.now).await;
            return Ok(matches!(probe.as_deref(), Ok([Ok(_)])));
        }
        Ok(true)
    }

    async fn renders_a_known_row(&self) -> Step<bool> {
        let failed: BTreeSet<&str> =
            self.held.iter().filter_map(|letter| letter.key.as_ref()).map(|key| key.as_str()).collect();
        let known = self.first_rows(failed.len() + KNOWN_ROWS_TRIED).await?;
        for (_, row) in known.iter().filter(|(key, _)| !failed.contains(key.as_str())) {
            let rendered = self.unless_stopped(render_row(&self.table, row)).await??;
            if !matches!(rendered, AfterDocument::Failed(_)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops the table for every host, under this plugin and model. Held letters are not written.
    pub(super) async fn halt(&self, reason: String) -> Step<Outcome> {
        let halt = Halt::of(&self.table, &reason);
        self.write_halt(&halt).await?;
        tracing::error!(table = self.table.name, "the table is halted");
        Ok(Outcome::Halted(reason))
    }

    fn blames_plugin_or_model(&self) -> bool {
        self.held.iter().any(|letter| letter.class >= FailureClass::PluginRefused)
    }

    fn classes_held(&self) -> String {
        let classes: BTreeSet<&str> = self.held.iter().map(|letter| letter.class.as_str()).collect();
        classes.into_iter().collect::<Vec<_>>().join(", ")
    }
}
