//! The engine that all plugins of a host share: compiler, cache of compiled code, and the ticker behind deadlines.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wasmtime::Config;
use wasmtime::component::{Component, Linker};

use crate::limits::Limits;
use crate::load::{self, LoadError};
use crate::plugin::Plugin;
use crate::state::State;
use crate::{cache, wasi};

/// How an engine runs plugins.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub limits: Limits,
    /// Where compiled code is kept. `None`: plugins are compiled at every start, which takes 0.2 s for one in Rust and
    /// half a minute for one in JavaScript or Python.
    pub cache_folder: Option<PathBuf>,
    /// Threads for each open plugin.
    pub threads: usize,
    /// Batches that wait for a thread; further callers wait for room.
    pub queue: usize,
    /// Whether the host's log carries the words of a plugin, which may be row data, or only their length.
    pub log_plugin_text: bool,
}

impl Default for EngineConfig {
    /// The default limits, no cache, a thread for each core.
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self {
            limits: Limits::default(),
            cache_folder: None,
            threads,
            queue: 2 * threads,
            log_plugin_text: false,
        }
    }
}

/// How often a running guest is looked at: deadlines are kept to about this.
const TICK: Duration = Duration::from_millis(5);

/// Loads plugins. Clones share one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: wasmtime::Engine,
    pub(crate) config: Arc<EngineConfig>,
    cache_refused: Option<String>,
}

/// The engine could not be set up: this machine or process cannot run WebAssembly.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the plugin engine: {0}")]
pub struct EngineError(String);

impl Engine {
    /// Sets the engine up and starts its ticker. A cache folder that is not safe is logged and left alone.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let (cache, cache_refused) = match config.cache_folder.as_deref().map(cache::open) {
            None => (None, None),
            Some(Ok(cache)) => (Some(cache), None),
            Some(Err(reason)) => {
                tracing::warn!(reason, "compiled plugins are not cached");
                (None, Some(reason))
            }
        };
        let mut wasmtime = Config::new();
        wasmtime
            .cache(cache)
            .epoch_interruption(true)
            // Off, an empty call takes 0.16 µs instead of 0.4 µs; plugins have no concurrency of their own.
            .concurrency_support(false)
            // The same row must give the same text on every machine.
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true)
            // Release builds have no names to show, and a trap's cost counts while a batch is halved.
            .wasm_backtrace_max_frames(None);
        let inner = wasmtime::Engine::new(&wasmtime).map_err(|error| EngineError(format!("{error:#}")))?;
        start_ticker(&inner)?;
        Ok(Self { inner, config: Arc::new(config), cache_refused })
    }

    /// Why compiled code is not cached although a folder was configured.
    pub fn cache_refused(&self) -> Option<&str> {
        self.cache_refused.as_deref()
    }

    /// Reads and compiles a plugin: a component, or a core module with its component types, which is made a component
    /// here. `name` is what messages call it. Compiling blocks for 0.2 s and more.
    ///
    /// # Errors
    /// One line each: not WebAssembly, compiled or damaged files, another version of the boundary, foreign imports.
    pub fn load(&self, name: &str, bytes: &[u8]) -> Result<Plugin, LoadError> {
        let limits = &self.config.limits;
        if bytes.len() > limits.component_bytes_max {
            return Err(LoadError::new(
                name,
                format!(
                    "has {} bytes, more than the {} that a plugin may have",
                    bytes.len(),
                    limits.component_bytes_max
                ),
            ));
        }
        let component_bytes = load::to_component(name, bytes)?;
        let names = load::Names::read(name, &component_bytes)?;
        let spoken = names.check(name)?;
        let component = Component::from_binary(&self.inner, &component_bytes)
            .map_err(|error| LoadError::new(name, format!("cannot be compiled: {}", one_line(&error))))?;
        load::check_log(name, &component, &spoken)?;

        let with_wasi = names.imports_wasi();
        let mut linker = Linker::<State>::new(&self.inner);
        let linked = spoken
            .bound
            .add_to_linker(&mut linker)
            .and_then(|()| if with_wasi { wasi::add_to_linker(&mut linker) } else { Ok(()) })
            .and_then(|()| linker.instantiate_pre(&component));
        let instance_pre = linked
            .map_err(|error| LoadError::new(name, format!("does not fit this host: {}", one_line(&error))))?;
        let large = with_wasi || bytes.len() > limits.large_component_bytes;
        Ok(Plugin::new(self.clone(), name, bytes, names, spoken, instance_pre, large))
    }

    /// Epochs until a call of this length is over: whole ticks, and one for the tick that is under way.
    pub(crate) fn ticks(deadline: Duration) -> u64 {
        let ticks = deadline.as_nanos().div_ceil(TICK.as_nanos());
        u64::try_from(ticks).unwrap_or(u64::MAX - 1) + 1
    }
}

/// An error with its causes in one line.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A plain thread that ends with the engine. It does not catch up after the process was stopped: time in which no guest
/// ran is not held against one.
fn start_ticker(engine: &wasmtime::Engine) -> Result<(), EngineError> {
    let engine = engine.weak();
    thread::Builder::new()
        .name("plugin-ticker".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
            }
        })
        .map(drop)
        .map_err(|error| EngineError(format!("cannot start a thread: {error}")))
}
