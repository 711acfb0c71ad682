//! WASI for language runtimes that cannot do without, and inert: no files, sockets, arguments or environment, clocks that
//! stand still, the same random bytes in every instance, and a trap instead of waiting. A guest that slept inside a
//! host call would escape its deadline, which only stops code of its own.

use std::time::Duration;

use bytes::Bytes;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::bindings::sync::io::poll;
use wasmtime_wasi::p2::{DynPollable, OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{Deterministic, HostMonotonicClock, HostWallClock, WasiCtx, WasiView};

use crate::log::{PluginLog, Source};
use crate::state::State;

/// The interfaces that a plugin may import, as `wasi:PACKAGE/…`, all of version 0.2.
const PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// Whether a component's import is one that [`add_to_linker`] answers.
pub(crate) fn is_offered(import: &str) -> bool {
    import.strip_prefix("wasi:").and_then(|rest| rest.split_once('/')).is_some_and(|(package, rest)| {
        PACKAGES.contains(&package)
            && rest
                .split_once('@')
                .and_then(|(_, version)| semver::Version::parse(version).ok())
                .is_some_and(|version| version.major == 0 && version.minor == 2)
    })
}

pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    poll::add_to_linker::<State, NoWaiting>(linker, |state| NoWaitingIn(state.ctx().table))?;
    linker.allow_shadowing(false);
    Ok(())
}

/// One instance's WASI.
pub(crate) fn context(log: &PluginLog) -> WasiCtx {
    WasiCtx::builder()
        .stdout(Said(log.clone(), Source::Stdout))
        .stderr(Said(log.clone(), Source::Stderr))
        .wall_clock(StandingClock)
        .monotonic_clock(StandingClock)
        .secure_random(Deterministic::new(constant_bytes(1)))
        .insecure_random(Deterministic::new(constant_bytes(2)))
        .insecure_random_seed(0x6b65_7976_6563_746f_7200_0000_0000_0001)
        .max_random_size(1 << 20)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .allow_blocking_current_thread(true)
        .build()
}

/// 4 KiB that look random and never change: a guest's hash seeds, for example. SplitMix64.
fn constant_bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..512)
        .flat_map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)).to_le_bytes()
        })
        .collect()
}

/// 2000-01-01, for ever.
struct StandingClock;

impl HostWallClock for StandingClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        Duration::from_secs(946_684_800)
    }
}

impl HostMonotonicClock for StandingClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// `wasi:io/poll` without waiting. Everything is ready, so that nothing tells the time.
struct NoWaiting;

struct NoWaitingIn<'a>(&'a mut ResourceTable);

impl HasData for NoWaiting {
    type Data<'a> = NoWaitingIn<'a>;
}

impl poll::Host for NoWaitingIn<'_> {
    fn poll(&mut self, _: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        wasmtime::bail!("a plugin may not wait (wasi:io/poll)")
    }
}

impl poll::HostPollable for NoWaitingIn<'_> {
    fn ready(&mut self, _: Resource<DynPollable>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn block(&mut self, _: Resource<DynPollable>) -> wasmtime::Result<()> {
        wasmtime::bail!("a plugin may not wait (wasi:io/poll)")
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        poll::HostPollable::drop(self.0, pollable)
    }
}

/// Standard output or standard error: always writable, all of it said to the plugin's log.
#[derive(Clone)]
struct Said(PluginLog, Source);

/// What a guest may write at once.
const WRITE_BYTES_MAX: usize = 64 << 10;

impl IsTerminal for Said {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Said {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only later WASI versions, which are refused, ask for this form.
        Box::new(tokio::io::sink())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Said {
    async fn ready(&mut self) {}
}

impl OutputStream for Said {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.line(self.1, &String::from_utf8_lossy(&bytes));
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wasi_0_2_without_http_is_offered() {
        assert!(is_offered("wasi:io/poll@0.2.0"));
        assert!(is_offered("wasi:cli/stderr@0.2.6"));
        for refused in
            ["wasi:http/types@0.2.0", "wasi:io/poll@0.3.0", "wasi:io/poll", "env", "acme:io/poll@0.2.0"]
        {
            assert!(!is_offered(refused), "{refused}");
        }
    }

    #[test]
    fn random_bytes_are_the_same_for_ever() {
        assert_eq!(constant_bytes(1)[..8], 0x910a_2dec_8902_5cc1_u64.to_le_bytes());
        assert_ne!(constant_bytes(1), constant_bytes(2));
    }
}
