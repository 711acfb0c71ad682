//! The place of one instance: opened when it is needed, reused from call to call, and gone after a stop.

use std::sync::Arc;

use crate::guest::{Bounds, Guest, Stop};
use crate::isolate::{Broken, Failed, Try};
use crate::load::Role;
use crate::log::quoted;
use crate::plugin::Plugin;
use crate::stats::{Counters, RestartReason};

/// Why a plugin cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It plays other roles.
    #[error("{plugin} is no {wanted} plugin: it is {roles}")]
    OtherRole { plugin: String, wanted: Role, roles: String },
    /// It does not take its configuration, or not this table: the operator's mistake, in the plugin's words.
    #[error("{plugin} refuses: {}", quoted(reason))]
    Refused { plugin: String, reason: String },
    /// What it declares is not allowed.
    #[error("{plugin} declares what it may not: {}", quoted(reason))]
    Declaration { plugin: String, reason: String },
    /// It stopped twice, the second time with the longer deadline, or its threads cannot be started.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Why one instance did not open.
pub(crate) enum NotOpened {
    Stopped(Stop),
    Refused(String),
}

impl From<Stop> for NotOpened {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// How much longer than usual a try may take.
pub(crate) fn patience(plugin: &Plugin, this: Try) -> u32 {
    if this.is_first() { 1 } else { plugin.limits().second_chance_factor.max(1) }
}

/// Refuses a plugin that does not export `role`.
pub(crate) fn require_role(plugin: &Plugin, role: Role) -> Result<(), OpenError> {
    if plugin.roles().contains(&role) {
        return Ok(());
    }
    let roles = plugin.roles().iter().map(|role| role.as_str()).collect::<Vec<_>>().join(" and ");
    Err(OpenError::OtherRole { plugin: plugin.name().to_owned(), wanted: role, roles })
}

/// Opens something in a fresh instance; after a stop once more, with the longer deadline.
pub(crate) fn open_twice<T>(
    plugin: &Plugin,
    counters: &Counters,
    mut open: impl FnMut(u32) -> Result<T, NotOpened>,
) -> Result<T, OpenError> {
    let mut this = Try::FIRST;
    loop {
        match open(patience(plugin, this)) {
            Ok(opened) => return Ok(opened),
            Err(NotOpened::Refused(reason)) => {
                return Err(OpenError::Refused { plugin: plugin.name().to_owned(), reason });
            }
            Err(NotOpened::Stopped(stop)) => {
                counters.restart(RestartReason::of(stop.class));
                if !this.is_first() {
                    let reason = format!("cannot be opened: {}", stop.reason);
                    return Err(Broken { plugin: plugin.name().to_owned(), reason }.into());
                }
                this = Try(2);
            }
        }
    }
}

type Open<B> = dyn Fn(u32) -> Result<Guest<B>, NotOpened> + Send + Sync;

/// One thread's instance.
pub(crate) struct Slot<B> {
    plugin: Plugin,
    counters: Arc<Counters>,
    open: Arc<Open<B>>,
    guest: Option<Guest<B>>,
}

/// The slots of all threads of an open plugin. The first holds the instance that proved that the plugin opens.
pub(crate) fn slots<B>(
    plugin: &Plugin,
    counters: &Arc<Counters>,
    open: impl Fn(u32) -> Result<Guest<B>, NotOpened> + Send + Sync + 'static,
    first: Guest<B>,
) -> Vec<Slot<B>> {
    let open: Arc<Open<B>> = Arc::new(open);
    let mut first = Some(first);
    (0..plugin.engine.config.threads.max(1))
        .map(|_| Slot {
            plugin: plugin.clone(),
            counters: Arc::clone(counters),
            open: Arc::clone(&open),
            guest: first.take(),
        })
        .collect()
}

impl<B> Slot<B> {
    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Makes a call and checks its answer. After a stop, and after an answer that fails the check, the instance is gone.
    pub(crate) fn call<R, T>(
        &mut self,
        this: Try,
        bounds: Bounds,
        call: impl FnOnce(&B, &mut wasmtime::Store<crate::state::State>) -> wasmtime::Result<R>,
        check: impl FnOnce(R) -> Result<T, Stop>,
    ) -> Result<T, Failed> {
        if !this.is_first() {
            self.guest = None;
        }
        let mut guest = match self.guest.take() {
            Some(guest) => guest,
            None => self.open().map_err(Failed::Ended)?,
        };
        match guest.call(bounds, call).and_then(check) {
            Ok(answer) => {
                self.guest = Some(guest);
                Ok(answer)
            }
            Err(stop) => {
                self.counters.restart(RestartReason::of(stop.class));
                Err(Failed::Stopped(stop))
            }
        }
    }

    /// Between batches: the next one gets a fresh instance if this one's memory is high.
    pub(crate) fn rest(&mut self) {
        self.guest = self.guest.take().and_then(Guest::unless_memory_is_high);
    }

    /// Runs something in a fresh instance, and leaves the one at hand as it is.
    pub(crate) fn aside<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        let at_hand = self.guest.take();
        let result = run(self);
        self.guest = at_hand;
        result
    }

    fn open(&self) -> Result<Guest<B>, Broken> {
        open_twice(&self.plugin, &self.counters, |patience| (self.open)(patience)).map_err(
            |error| match error {
                OpenError::Broken(broken) => broken,
                error => Broken {
                    plugin: self.plugin.name().to_owned(),
                    reason: format!("no longer opens: {error}"),
                },
            },
        )
    }
}
