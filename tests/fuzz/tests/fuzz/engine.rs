//! Runs a target: what once failed, the samples, then random inputs until the time is over. What fails is made
//! smaller, kept in `regressions/`, and reported.

use std::any::Any;
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use keyvector_fuzz::Target;

use crate::mutate::Mutator;

const SECONDS_DEFAULT: u64 = 2;
const SEED_DEFAULT: u64 = 1;
/// An input that takes longer, twice, has failed.
const SLOW: Duration = Duration::from_secs(5);
/// The process is ended when one input takes this long.
const HANG: Duration = Duration::from_secs(60);

pub(crate) fn fuzz(target: &Target) {
    let number = |name: &str, default: u64| match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    };
    let time = Duration::from_secs(number("KEYVECTOR_FUZZ_SECONDS", SECONDS_DEFAULT));
    let seed = number("KEYVECTOR_FUZZ_SEED", SEED_DEFAULT);
    let runner = Runner::start(target);

    let regressions = files_in(&folder_of("regressions", target));
    for (path, input) in &regressions {
        if let Some(fault) = runner.fault_of(input) {
            panic!("{} fails on {}: {fault}", target.name, path.display());
        }
    }
    let mut samples = (target.samples)();
    samples.extend(corpus(target));
    for input in &samples {
        runner.must_hold(input);
    }
    samples.extend(regressions.into_iter().map(|(_, input)| input));

    let mut mutator = Mutator::new(seed, &samples, target.words);
    let started = Instant::now();
    let mut count = 0_u64;
    while started.elapsed() < time {
        runner.must_hold(&mutator.next());
        count += 1;
    }
    let (name, samples, seconds) = (target.name, samples.len(), time.as_secs());
    println!("{name}: {samples} samples, {count} random inputs of seed {seed} in {seconds} s");
}

/// The input under way, and since when.
type UnderWay = Option<(Instant, Vec<u8>)>;

/// Runs inputs under a watch.
struct Runner<'a> {
    target: &'a Target,
    now: Arc<Mutex<UnderWay>>,
    /// Ends the watch when it is dropped.
    _alive: mpsc::Sender<()>,
}

impl<'a> Runner<'a> {
    fn start(target: &'a Target) -> Self {
        hear_no_panic_of_quiet_threads();
        let now = Arc::new(Mutex::new(UnderWay::None));
        let (alive, ended) = mpsc::channel();
        let (watched, name, folder) = (Arc::clone(&now), target.name, folder_of("regressions", target));
        thread::spawn(move || {
            while ended.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((since, input)) = &*now
                    && since.elapsed() > HANG
                {
                    let path = keep(&folder, input);
                    eprintln!("{name} does not come to an end on {}", path.display());
                    process::abort();
                }
            }
        });
        Self { target, now, _alive: alive }
    }

    /// Runs one input; keeps a small form of what fails, and panics.
    fn must_hold(&self, input: &[u8]) {
        let Some(fault) = self.fault_of(input) else { return };
        let small = self.smaller(input);
        let fault = self.fault_of(&small).unwrap_or(fault);
        let path = keep(&folder_of("regressions", self.target), &small);
        panic!("{} fails on {} bytes, kept as {}: {fault}", self.target.name, small.len(), path.display());
    }

    /// Why the target does not hold on this input: a panic's words, or its slowness.
    fn fault_of(&self, input: &[u8]) -> Option<String> {
        let mut took = self.time_of(input);
        if took.as_ref().is_ok_and(|took| *took > SLOW) {
            // Once more: the machine may have been busy.
            took = self.time_of(input);
        }
        match took {
            Ok(took) if took <= SLOW => None,
            Ok(took) => Some(format!("it takes {} ms", took.as_millis())),
            Err(fault) => Some(fault),
        }
    }

    fn time_of(&self, input: &[u8]) -> Result<Duration, String> {
        let started = Instant::now();
        *self.now() = Some((started, input.to_vec()));
        QUIET.set(true);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| (self.target.run)(input)));
        QUIET.set(false);
        *self.now() = None;
        outcome.map(|()| started.elapsed()).map_err(|payload| words_of(&*payload))
    }

    /// Takes parts out for as long as it still fails, for a few seconds.
    fn smaller(&self, input: &[u8]) -> Vec<u8> {
        let started = Instant::now();
        let mut small = input.to_vec();
        let mut part = small.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < small.len() && started.elapsed() < SLOW {
                let mut less = small.clone();
                less.drain(at..(at + part).min(small.len()));
                if self.fault_of(&less).is_some() { small = less } else { at += part }
            }
            part /= 2;
        }
        small
    }

    fn now(&self) -> MutexGuard<'_, UnderWay> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A finding is reported once, not as often as it is met while it is made smaller.
fn hear_no_panic_of_quiet_threads() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
}

fn words_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

fn folder_of(kind: &str, target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target.name)
}

/// By name, so that every run has the same order.
fn files_in(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// What a coverage-guided run found worth keeping: an input a line, in hexadecimal.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let path = folder_of("corpus", target).with_extension("hex");
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

fn keep(folder: &Path, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = folder.join(format!("{:016x}", hasher.finish()));
    fs::create_dir_all(folder).unwrap();
    fs::write(&path, input).unwrap();
    path
}
