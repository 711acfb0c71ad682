//! Which plugin and configuration render a table, and how one takes over from another: first the store says so, then
//! every host of a lower revision ends, then [`crate::rerender`] brings the whole table under the new one.
//!
//! A host reads what renders the table after it has taken a lease, and before its first write under it. So of two hosts
//! one is fenced off, or sees that it was overtaken; no table is rendered by two plugins at once.

use std::pin::pin;
use std::time::Duration;

use keyvector_core::port::{self, State};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::exit::{Code, Failure};
use crate::state::{self, Rendering, Rerender, rendering_key};
use crate::table::Table;
use crate::worker::Backoff;

/// How often a host looks whether it was superseded.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a host that wants to work under a rendering has to do.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// The store knows this plugin and configuration, under this revision.
    Known(Rendering),
    /// The store has to be told: nothing renders the table yet, or something else does.
    Write(Rendering),
    /// The same revision stands for another plugin or configuration.
    Refused { stored: Rendering },
    /// A higher revision stands for another plugin or configuration.
    Superseded { by: Rendering },
}

/// Decides by what is stored. `by_itself`: another plugin or configuration takes over whatever revision it names.
///
/// | wanted revision | plugin and configuration | then |
/// |---|---|---|
/// | any, and none is stored | any | it is the first |
/// | not higher | as stored | known, under the stored revision |
/// | higher | as stored | only the number is raised |
/// | higher | other | takes over |
/// | the same | other | refused; by itself: takes over with the next number |
/// | lower | other | superseded; by itself: takes over with the next number |
pub fn decide(stored: Option<&Rendering>, wanted: &Rendering, by_itself: bool, now_ms: i64) -> Decision {
    let Some(stored) = stored else { return Decision::Write(wanted.clone()) };
    let higher = wanted.revision > stored.revision;
    if stored.render_id == wanted.render_id {
        return match higher {
            true => Decision::Write(Rendering { rerender: stored.rerender.clone(), ..wanted.clone() }),
            false => Decision::Known(stored.clone()),
        };
    }
    let revision = match (higher, by_itself) {
        (true, _) => Some(wanted.revision),
        (false, true) => stored.revision.checked_add(1),
        (false, false) => None,
    };
    match revision {
        Some(revision) => Decision::Write(Rendering {
            revision,
            rerender: Some(Rerender { done_to: None, since_ms: now_ms }),
            ..wanted.clone()
        }),
        None if wanted.revision == stored.revision => Decision::Refused { stored: stored.clone() },
        None => Decision::Superseded { by: stored.clone() },
    }
}

/// Makes this host's plugin and configuration the ones that render the table, if it may; what it then works under.
///
/// # Errors
/// It may not: in words, with the ways on. What passes is tried again until it has.
pub async fn claim(
    items: &dyn State,
    table: &str,
    wanted: &Rendering,
    by_itself: bool,
) -> Result<Rendering, Failure> {
    let decide = |stored: Option<&Rendering>| decide(stored, wanted, by_itself, clock::now_ms());
    match claim_by(items, table, decide).await? {
        Claimed::Ours(rendering) => Ok(rendering),
        Claimed::Refused(stored) => Err(refused(table, &stored)),
        Claimed::Superseded(by) => Err(superseded(table, wanted.revision, &by)),
    }
}

/// The same by itself for a host at work whose plugin's file holds another now. `Err` in the `Ok`: another host has taken
/// the table over from `former` meanwhile, and has it.
///
/// # Errors
/// What the state says, but for what passes.
pub async fn claim_from(
    items: &dyn State,
    table: &str,
    former: &Rendering,
    wanted: &Rendering,
) -> Result<Result<Rendering, Rendering>, Failure> {
    let decide = |stored: Option<&Rendering>| match stored {
        // The wanted plugin itself: of a write whose reply was lost, or of a host that watches the same file.
        Some(stored) if !stored.is_same(former) && stored.render_id != wanted.render_id => {
            Decision::Superseded { by: stored.clone() }
        }
        stored => decide(stored, wanted, true, clock::now_ms()),
    };
    Ok(match claim_by(items, table, decide).await? {
        Claimed::Ours(rendering) => Ok(rendering),
        Claimed::Refused(by) | Claimed::Superseded(by) => Err(by),
    })
}

enum Claimed {
    Ours(Rendering),
    Refused(Rendering),
    Superseded(Rendering),
}

async fn claim_by(
    items: &dyn State,
    table: &str,
    decide: impl Fn(Option<&Rendering>) -> Decision,
) -> Result<Claimed, Failure> {
    let mut backoff = Backoff::new();
    loop {
        match try_claim(items, table, &decide).await {
            Ok(Some(claimed)) => return Ok(claimed),
            // Of two that come at once the slower one looks again.
            Ok(None) => {}
            Err(port::Error::Transient { message, retry_after }) => {
                tracing::warn!(table, error = message, "claiming the table failed, trying again");
                tokio::time::sleep(retry_after.unwrap_or_else(|| backoff.next())).await;
            }
            Err(error) => {
                let code = Code::of(&error);
                return Err(Failure::new(code, format!("claim table {table}: {error}")));
            }
        }
    }
}

async fn try_claim(
    items: &dyn State,
    table: &str,
    decide: impl Fn(Option<&Rendering>) -> Decision,
) -> port::Result<Option<Claimed>> {
    let key = rendering_key(table);
    let (stored, text) = state::read_with_text::<Rendering>(items, &key).await?.unzip();
    Ok(match decide(stored.as_ref()) {
        Decision::Known(rendering) => Some(Claimed::Ours(rendering)),
        Decision::Write(rendering) => items
            .put_if(&key, text.as_deref(), &state::to_json(&rendering))
            .await?
            .then_some(Claimed::Ours(rendering)),
        Decision::Refused { stored } => Some(Claimed::Refused(stored)),
        Decision::Superseded { by } => Some(Claimed::Superseded(by)),
    })
}

/// Two things under one revision.
pub fn refused(table: &str, stored: &Rendering) -> Failure {
    let message = format!(
        "table {table} is rendered by {} under revision {}, and this is another plugin or configuration: its texts may \
         differ from those in the index",
        stored.plugin, stored.revision
    );
    let next = format!(
        "set revision = {} to have it take the table over, or restore what was; --reload raises it by itself",
        u64::from(stored.revision) + 1
    );
    Failure::new(Code::BadConfig, message).next(next)
}

/// A host that comes too late; no error, since another one has the table.
pub fn superseded(table: &str, revision: u32, by: &Rendering) -> Failure {
    let message = format!(
        "table {table}: superseded by revision {} ({}): revision {revision} does no more here",
        by.revision, by.plugin
    );
    let next = format!("for a rollback set revision = {} with the older plugin", u64::from(by.revision) + 1);
    Failure::new(Code::Superseded, message).next(next)
}

/// What renders the table by now, where that is no longer what this process has.
///
/// # Errors
/// What the state says.
pub async fn superseded_by(table: &Table) -> port::Result<Option<Rendering>> {
    let stored = state::read::<Rendering>(table.state.as_ref(), &rendering_key(&table.name)).await?;
    Ok(stored.filter(|stored| !stored.is_same(&table.rendering)))
}

/// Does the work, and asks it to end `soon` once the table has been taken over.
pub async fn until_superseded<T>(
    table: &Table,
    soon: &CancellationToken,
    work: impl Future<Output = T>,
) -> (T, Option<Rendering>) {
    let mut work = pin!(work);
    let by = tokio::select! {
        result = &mut work => return (result, None),
        by = taken_over(table) => by,
    };
    tracing::info!(table = table.name, revision = by.revision, "superseded: handing over");
    soon.cancel();
    (work.await, Some(by))
}

/// Waits until the table has been taken over.
pub async fn taken_over(table: &Table) -> Rendering {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match superseded_by(table).await {
            Ok(Some(by)) => return by,
            Ok(None) => {}
            // The line meets the same fault, and knows what to do about it.
            Err(error) => tracing::debug!(table = table.name, error = %error, "cannot look what renders it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use keyvector_store::{Store, StoreConfig};

    use super::*;

    fn rendering(revision: u32, render_id: &str) -> Rendering {
        Rendering {
            revision,
            render_id: render_id.to_owned(),
            plugin: format!("{render_id}.wasm"),
            rerender: None,
        }
    }

    fn taken_over(revision: u32, render_id: &str) -> Decision {
        let rerender = Some(Rerender { done_to: None, since_ms: 9 });
        Decision::Write(Rendering { rerender, ..rendering(revision, render_id) })
    }

    #[test]
    fn who_may_render_a_table() {
        let stored = rendering(5, "a");
        let of = |revision, id, by_itself| decide(Some(&stored), &rendering(revision, id), by_itself, 9);
        for by_itself in [false, true] {
            assert_eq!(decide(None, &rendering(1, "a"), by_itself, 9), Decision::Write(rendering(1, "a")));
            assert_eq!(of(4, "a", by_itself), Decision::Known(stored.clone()));
            assert_eq!(of(5, "a", by_itself), Decision::Known(stored.clone()));
            assert_eq!(of(6, "a", by_itself), Decision::Write(rendering(6, "a")), "nothing to render");
            assert_eq!(of(7, "b", by_itself), taken_over(7, "b"));
        }
        assert_eq!(of(5, "b", false), Decision::Refused { stored: stored.clone() });
        assert_eq!(of(4, "b", false), Decision::Superseded { by: stored.clone() });
        assert_eq!(of(5, "b", true), taken_over(6, "b"));
        assert_eq!(of(1, "b", true), taken_over(6, "b"));
    }

    #[tokio::test]
    async fn a_host_at_work_does_not_overrule_one_that_took_over_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig { create: true, ..StoreConfig::default() };
        let items = Store::open(folder.path().join("x.db"), config).unwrap().table_scope("t").state();
        let first = claim(&items, "t", &rendering(1, "a"), false).await.unwrap();
        let second = claim_from(&items, "t", &first, &rendering(1, "b")).await.unwrap().unwrap();
        assert_eq!((second.revision, second.render_id.as_str()), (2, "b"));
        let again = claim_from(&items, "t", &first, &rendering(1, "b")).await.unwrap();
        assert_eq!(again, Ok(second.clone()), "the reply was lost");
        let other = claim(&items, "t", &rendering(3, "c"), false).await.unwrap();
        assert_eq!(claim_from(&items, "t", &second, &rendering(1, "d")).await.unwrap(), Err(other.clone()));
        let stored = state::read::<Rendering>(&items, &rendering_key("t")).await.unwrap();
        assert_eq!(stored, Some(other));
    }

    #[tokio::test]
    async fn an_item_of_another_format_is_a_failure_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig { create: true, ..StoreConfig::default() };
        let items = Store::open(folder.path().join("x.db"), config).unwrap().table_scope("t").state();
        items.put(&rendering_key("t"), r#"{"format":99}"#).await.unwrap();
        let failure = claim(&items, "t", &rendering(1, "a"), false).await.unwrap_err();
        assert_eq!(failure.code, Code::Failed, "{failure}");
        assert!(failure.message.contains("format 99"), "{failure}");
    }

    #[test]
    fn what_is_still_due_stays_due_only_under_the_same_plugin() {
        let half = Some(Rerender { done_to: Some("k".into()), since_ms: 3 });
        let stored = Rendering { rerender: half.clone(), ..rendering(2, "a") };
        let of = |revision, id| decide(Some(&stored), &rendering(revision, id), false, 9);
        assert_eq!(of(2, "a"), Decision::Known(stored.clone()));
        assert_eq!(of(3, "a"), Decision::Write(Rendering { rerender: half, ..rendering(3, "a") }));
        assert_eq!(of(3, "b"), taken_over(3, "b"));
    }
}
