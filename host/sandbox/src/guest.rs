//! One instance of a plugin, and the only way into it: bounded in time, memory and output.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use keyvector_core::document::FailureClass;
use wasmtime::{Store, Trap};
use wasmtime_wasi::I32Exit;

use crate::engine::{Engine, one_line};
use crate::log::{PluginLog, quoted_with_its_end};
use crate::plugin::Plugin;
use crate::state::State;
use crate::stats::{Counters, RestartReason};

/// A call that did not come back with an answer. The instance is gone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stop {
    /// One of the `Plugin…` classes.
    pub(crate) class: FailureClass,
    pub(crate) reason: String,
}

impl Stop {
    /// The answer breaks the contract as a whole: it counts as a trap.
    pub(crate) fn output(reason: impl Into<String>) -> Self {
        Self { class: FailureClass::PluginOutput, reason: reason.into() }
    }
}

/// An instance and its typed exports.
pub(crate) struct Guest<B> {
    store: Store<State>,
    exports: B,
    plugin: Plugin,
    counters: Arc<Counters>,
    memory_after_open: usize,
}

/// What a call may use.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) deadline: Duration,
    pub(crate) output_bytes: usize,
}

impl Bounds {
    /// For calls that carry no rows.
    pub(crate) fn of_setup(plugin: &Plugin, patience: u32) -> Self {
        /// Descriptions, routes and refusals are small.
        const OUTPUT_BYTES: usize = 1 << 20;
        Self { deadline: plugin.limits().deadline(0, patience), output_bytes: OUTPUT_BYTES }
    }

    /// For a call over `rows` rows of `input_bytes` together.
    pub(crate) fn of_rows(plugin: &Plugin, rows: usize, input_bytes: usize, patience: u32) -> Self {
        let limits = plugin.limits();
        Self {
            deadline: limits.deadline(rows, patience),
            output_bytes: limits.output_bytes(rows, input_bytes),
        }
    }
}

impl<B> Guest<B> {
    /// Makes an instance. Its start functions run under the same bounds as any call.
    pub(crate) fn instantiate(
        plugin: &Plugin,
        counters: &Arc<Counters>,
        patience: u32,
        bind: impl FnOnce(&mut Store<State>) -> wasmtime::Result<B>,
    ) -> Result<Self, Stop> {
        let log = PluginLog::new(plugin.name(), plugin.engine.config.log_plugin_text);
        let state = State::new(plugin.memory_bytes_max(), log, plugin.with_wasi());
        let mut store = Store::new(&plugin.engine.inner, state);
        store.limiter(|state| &mut state.memory);
        let exports = enter(&mut store, Bounds::of_setup(plugin, patience), counters, bind)?;
        Ok(Self {
            store,
            exports,
            plugin: plugin.clone(),
            counters: Arc::clone(counters),
            memory_after_open: 0,
        })
    }

    /// Makes one bounded call. After an error the guest must be dropped.
    pub(crate) fn call<R>(
        &mut self,
        bounds: Bounds,
        call: impl FnOnce(&B, &mut Store<State>) -> wasmtime::Result<R>,
    ) -> Result<R, Stop> {
        let exports = &self.exports;
        enter(&mut self.store, bounds, &self.counters, |store| call(exports, store))
    }

    /// Marks the end of setting up: from here on growth counts as a leak.
    pub(crate) fn opened(mut self) -> Self {
        self.memory_after_open = self.store.data().memory.in_use;
        self
    }

    /// Whether memory has passed three quarters of the limit, or half of what was left after opening if that is more.
    pub(crate) fn memory_is_high(&self) -> bool {
        let memory = &self.store.data().memory;
        let max = memory.max();
        let left = max.saturating_sub(self.memory_after_open);
        memory.in_use > (max / 4 * 3).max(self.memory_after_open + left / 2)
    }

    /// Ends the guest between batches, and counts it, if its memory is high.
    pub(crate) fn unless_memory_is_high(self) -> Option<Self> {
        if !self.memory_is_high() {
            return Some(self);
        }
        self.counters.restart(RestartReason::MemoryHigh);
        tracing::debug!(
            plugin = self.plugin.name(),
            memory_bytes = self.store.data().memory.in_use,
            "plugin instance is replaced before it runs out of memory"
        );
        None
    }
}

fn enter<R>(
    store: &mut Store<State>,
    bounds: Bounds,
    counters: &Counters,
    run: impl FnOnce(&mut Store<State>) -> wasmtime::Result<R>,
) -> Result<R, Stop> {
    store.data_mut().log.begin_call();
    store.set_epoch_deadline(Engine::ticks(bounds.deadline));
    // Bounds what the guest hands over at once, answers and log lines alike, before the host allocates for it. What
    // frames an answer (states, offsets) comes on top of its data.
    store.set_hostcall_fuel(bounds.output_bytes.saturating_add(bounds.output_bytes / 4));
    let started = Instant::now();
    let result = run(store);
    counters.call(started.elapsed(), store.data().memory.in_use);
    result.map_err(|error| stop(&error, store.data(), bounds))
}

fn stop(error: &wasmtime::Error, state: &State, bounds: Bounds) -> Stop {
    let (class, cause) = if state.memory.refused {
        (FailureClass::PluginMemory, format!("asked for more than {} bytes of memory", state.memory.max()))
    } else if let Some(Trap::Interrupt) = error.downcast_ref::<Trap>() {
        (FailureClass::PluginDeadline, format!("ran for more than {} ms", bounds.deadline.as_millis()))
    } else if is_too_much_output(error) {
        (FailureClass::PluginOutput, format!("answered more than {} bytes", bounds.output_bytes))
    } else if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        (FailureClass::PluginTrapped, format!("exited with {code}"))
    } else {
        (FailureClass::PluginTrapped, one_line(error))
    };
    let last_words = state.log.last_words();
    let reason = if last_words.is_empty() { cause } else { format!("{cause}; it said: {last_words}") };
    Stop { class, reason: quoted_with_its_end(&reason) }
}

/// The error's type is private to wasmtime. Should its words change, the call counts as trapped, which ends the same way.
fn is_too_much_output(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("fuel allocated for hostcalls has been exhausted"))
}

/// Runs guest code on a thread of its own and waits for it. Plugins never run on an async runtime's threads: WASI's host
/// calls would panic there.
pub(crate) fn on_own_thread<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("plugin-setup".to_owned())
            .spawn_scoped(scope, run)
            .expect("a thread can be started")
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
