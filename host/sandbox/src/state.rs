//! What an instance's store holds: the memory it has taken, its log, and its WASI if it imports one.

use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::log::PluginLog;
use crate::wasi;

/// The data behind one guest's store.
pub(crate) struct State {
    pub(crate) memory: Memory,
    pub(crate) log: PluginLog,
    wasi: Option<(WasiCtx, ResourceTable)>,
}

/// Streams, pollables and the like that a guest may hold at once. They lie in the host's memory, not in the guest's.
const RESOURCES_MAX: usize = 1024;

impl State {
    pub(crate) fn new(memory_bytes_max: usize, log: PluginLog, with_wasi: bool) -> Self {
        let wasi = with_wasi.then(|| {
            let mut table = ResourceTable::new();
            table.set_max_capacity(RESOURCES_MAX);
            (wasi::context(&log), table)
        });
        Self {
            memory: Memory { max: memory_bytes_max, in_use: 0, last_growth: 0, refused: false },
            log,
            wasi,
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (ctx, table) = self.wasi.as_mut().expect("WASI is linked only where the component imports it");
        WasiCtxView { ctx, table }
    }
}

/// Counts the bytes of all memories and tables of one guest, and refuses growth over the limit by a trap: a guest that
/// lives on after a refusal could answer differently than it would with more memory.
pub(crate) struct Memory {
    max: usize,
    pub(crate) in_use: usize,
    last_growth: usize,
    /// Whether a growth was refused.
    pub(crate) refused: bool,
}

/// What one table element takes on the host.
const TABLE_ELEMENT_BYTES: usize = size_of::<usize>();

impl Memory {
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    fn grow(&mut self, bytes: usize) -> wasmtime::Result<bool> {
        let wanted = self.in_use.saturating_add(bytes);
        if wanted > self.max {
            self.refused = true;
            wasmtime::bail!("asked for {wanted} bytes of memory, of {} allowed", self.max);
        }
        self.in_use = wanted;
        self.last_growth = bytes;
        Ok(true)
    }

    /// A growth that was allowed did not come about.
    fn shrink_back(&mut self) {
        self.in_use -= std::mem::take(&mut self.last_growth);
    }
}

/// Modules that one component is made of, and their memories and tables: honest ones have a few dozen. Making an instance
/// runs no code that a deadline could stop, so their number bounds the time.
const MODULES_MAX: usize = 1000;
const MEMORIES_MAX: usize = 100;

impl ResourceLimiter for Memory {
    fn instances(&self) -> usize {
        MODULES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }

    fn tables(&self) -> usize {
        MODULES_MAX
    }

    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.grow(desired.saturating_sub(current))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.shrink_back();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.grow(desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_BYTES))
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.shrink_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_share_one_limit() {
        let mut memory = Memory { max: 1000, in_use: 0, last_growth: 0, refused: false };
        assert!(memory.memory_growing(0, 600, None).unwrap());
        assert!(memory.table_growing(0, 50, None).unwrap());
        assert_eq!(memory.in_use, 1000);
        assert!(memory.memory_growing(600, 601, None).is_err());
        assert!(memory.refused);
    }

    #[test]
    fn a_growth_that_failed_is_given_back() {
        let mut memory = Memory { max: 1000, in_use: 0, last_growth: 0, refused: false };
        assert!(memory.memory_growing(0, 600, None).unwrap());
        memory.memory_grow_failed(wasmtime::format_err!("no")).unwrap();
        assert_eq!(memory.in_use, 0);
    }
}
