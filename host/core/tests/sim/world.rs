//! Hosts, a lease table, an index without conditions, and what goes wrong between them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use keyvector_core::lease::lineage::{FORMER_OWNER, Listing, StartAt};
use keyvector_core::lease::machine::{Command, Event, LeaseConfig, LeaseMachine};
use keyvector_core::lease::settle::Settling;
use keyvector_core::lease::{Applied, Checkpoint, Lease, LeaseWrite, Tenure};

use crate::random::Random;
use crate::stream::{Key, Stream, Version};
use crate::worker::{At, Worker, position_of};

/// How a run goes. All chances are per mille.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) hosts: u32,
    pub(crate) roots: u32,
    pub(crate) keys: Key,
    pub(crate) failover: Duration,
    /// The longest time that a write to the index is under way.
    pub(crate) settle: Duration,
    pub(crate) run_for: Duration,
    pub(crate) produce_every: Duration,
    pub(crate) faults_every: Duration,
    /// Of a lease write that its reply is lost, it is lost itself, or it lands late.
    pub(crate) write_faults: u64,
    pub(crate) put_faults: u64,
    pub(crate) read_faults: u64,
    /// Whether workers work; else only leases move.
    pub(crate) works: bool,
}

pub(crate) struct Host {
    pub(crate) machine: LeaseMachine,
    /// Its clock: parts per thousand of true time, from an offset.
    rate: u32,
    offset: Duration,
    paused_until: Duration,
    pub(crate) workers: BTreeMap<Tenure, Worker>,
    woken_at: Option<Duration>,
    /// A clean shutdown is under way.
    pub(crate) leaving: bool,
}

impl Host {
    fn local(&self, now: Duration) -> Duration {
        self.offset + now * self.rate / 1000
    }

    fn true_time(&self, local: Duration) -> Duration {
        // Rounded up: it is not woken before its time.
        (local.saturating_sub(self.offset)) * 1000 / self.rate + Duration::from_nanos(1000)
    }
}

enum Happens {
    ToHost {
        host: String,
        event: Event,
    },
    Wake {
        host: String,
    },
    Scan {
        host: String,
        sent: Duration,
    },
    List {
        host: String,
        sent: Duration,
    },
    ReadBack {
        host: String,
        id: u64,
        lease_key: String,
    },
    /// A lease write lands; `reply`: whether the host hears of it.
    Lands {
        host: String,
        id: u64,
        write: LeaseWrite,
        reply: bool,
    },
    Step {
        host: String,
        tenure: Tenure,
        step: u64,
    },
    PutLands {
        rows: Vec<(Key, Version)>,
    },
    PutAnswered {
        host: String,
        tenure: Tenure,
        step: u64,
        unknown: bool,
    },
    Produce,
    Fault,
    NewHost,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) scans: u64,
    pub(crate) rows_scanned: u64,
    pub(crate) writes: u64,
    pub(crate) takes: u64,
    pub(crate) hand_overs: u64,
    pub(crate) puts: u64,
    pub(crate) late_puts_undone: u64,
    /// The longest time that a lease was unread after its owner had died, and after it was given up.
    pub(crate) unread_after_death: Duration,
    pub(crate) unread_after_giving_up: Duration,
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) random: Random,
    pub(crate) now: Duration,
    queue: BTreeMap<(Duration, u64), Happens>,
    next_event: u64,
    pub(crate) stream: Stream,
    pub(crate) leases: BTreeMap<String, Lease>,
    /// Earlier states of the table, each with the time until which it stood: a read that lags sees them.
    past: VecDeque<(Duration, BTreeMap<String, Lease>)>,
    pub(crate) index: BTreeMap<Key, Version>,
    /// What a checkpoint has passed: nothing older may ever stand in the index again.
    acknowledged: BTreeMap<Key, Version>,
    pub(crate) hosts: BTreeMap<String, Host>,
    /// Leases that nobody works on: since when, and whether their owner died.
    unread: BTreeMap<String, (Duration, bool)>,
    hosts_made: u32,
    throttled_until: Duration,
    faults: bool,
    pub(crate) counts: Counts,
    /// Hash of all that happened, to compare two runs of one seed.
    pub(crate) trace: u64,
}

const MS: Duration = Duration::from_millis(1);

impl World {
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        let mut world = Self {
            stream: Stream::new(setup.roots, setup.keys),
            random: Random::new(seed),
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            next_event: 0,
            leases: BTreeMap::new(),
            past: VecDeque::new(),
            index: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            hosts: BTreeMap::new(),
            unread: BTreeMap::new(),
            hosts_made: 0,
            throttled_until: Duration::ZERO,
            faults: true,
            counts: Counts::default(),
            trace: 0,
            setup,
        };
        for _ in 0..world.setup.hosts {
            let delay = world.random.between(0, 500);
            world.at(MS * delay as u32, Happens::NewHost);
        }
        if world.setup.works {
            world.at(MS, Happens::Produce);
        }
        if !world.setup.faults_every.is_zero() {
            world.at(world.setup.faults_every, Happens::Fault);
        }
        world
    }

    fn at(&mut self, delay: Duration, happens: Happens) {
        self.queue.insert((self.now + delay, self.next_event), happens);
        self.next_event += 1;
    }

    fn delay(&mut self, low: u64, high: u64) -> Duration {
        MS * self.random.between(low, high) as u32
    }

    pub(crate) fn run_until(&mut self, end: Duration) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((now, _), happens) = entry.remove_entry();
            self.now = now;
            self.happen(happens);
        }
        self.now = end;
    }

    /// No more faults, no more records; what was under way goes on.
    pub(crate) fn calm(&mut self) {
        self.faults = false;
        self.throttled_until = self.now;
        if self.hosts.values().all(|host| host.leaving) {
            self.new_host();
        }
    }

    fn traced(&mut self, what: &str) {
        if std::env::var_os("KEYVECTOR_SIM_TRACE").is_some() {
            eprintln!("{:?} {what}", self.now);
        }
        for byte in what.bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
        }
        self.trace ^= self.now.as_micros() as u64;
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::NewHost => self.new_host(),
            Happens::ToHost { host, event } => {
                if let Some(until) = self.paused(&host) {
                    self.at(until - self.now, Happens::ToHost { host, event });
                } else {
                    self.drive(&host, Some(event));
                }
            }
            Happens::Wake { host } => {
                // Only the latest wake that was set counts.
                let is_set = self.hosts.get(&host).is_some_and(|host| host.woken_at == Some(self.now));
                if let Some(until) = self.paused(&host).filter(|_| is_set) {
                    self.wake_at(&host, until);
                } else if is_set {
                    self.drive(&host, None);
                }
            }
            Happens::Scan { host, sent } => self.scan(host, sent),
            Happens::List { host, sent } => {
                let reply = self.delay(1, 30);
                let event = if self.fails() {
                    Event::ListFailed
                } else {
                    Event::Listed(Listing::new(self.stream.listing(), true, sent))
                };
                self.at(reply, Happens::ToHost { host, event });
            }
            Happens::ReadBack { host, id, lease_key } => {
                let reply = self.delay(1, 30);
                let event = if self.fails() {
                    Event::ReadBackFailed { id }
                } else {
                    Event::ReadBack { id, row: self.leases.get(&lease_key).cloned() }
                };
                self.at(reply, Happens::ToHost { host, event });
            }
            Happens::Lands { host, id, write, reply } => {
                let applied = self.land(&write);
                if reply {
                    let delay = self.delay(1, 15);
                    self.at(delay, Happens::ToHost { host, event: Event::Written { id, applied } });
                }
            }
            Happens::Step { host, tenure, step } => {
                if let Some(until) = self.paused(&host) {
                    self.at(until - self.now, Happens::Step { host, tenure, step });
                } else {
                    self.step(&host, &tenure, step);
                }
            }
            Happens::PutLands { rows } => self.put_lands(&rows),
            Happens::PutAnswered { host, tenure, step, unknown } => {
                if let Some(until) = self.paused(&host) {
                    self.at(until - self.now, Happens::PutAnswered { host, tenure, step, unknown });
                } else {
                    self.put_answered(&host, &tenure, step, unknown);
                }
            }
            Happens::Produce => {
                if self.faults {
                    self.stream.produce(&mut self.random);
                    let every = self.setup.produce_every;
                    self.at(every, Happens::Produce);
                }
            }
            Happens::Fault => self.fault(),
        }
    }

    // Hosts.

    fn new_host(&mut self) {
        let name = format!("host-{:03}", self.hosts_made);
        self.hosts_made += 1;
        let config = LeaseConfig {
            finish_within: self.setup.failover * 3,
            list_every: self.setup.failover * 4,
            ..LeaseConfig::new(self.setup.failover, StartAt::TrimHorizon)
        };
        let seed = self.random.next();
        let host = Host {
            machine: LeaseMachine::new(name.clone(), config, seed),
            rate: self.random.between(990, 1011) as u32,
            offset: Duration::from_secs(self.random.between(0, 100_000)),
            paused_until: Duration::ZERO,
            workers: BTreeMap::new(),
            woken_at: None,
            leaving: false,
        };
        self.traced(&name);
        self.hosts.insert(name.clone(), host);
        self.drive(&name, None);
    }

    fn paused(&self, host: &str) -> Option<Duration> {
        self.hosts.get(host).map(|host| host.paused_until).filter(|&until| until > self.now)
    }

    /// Gives a host's machine an event, or the time, and does what it says.
    fn drive(&mut self, name: &str, event: Option<Event>) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(name) else { return };
        let local = host.local(now);
        let commands = match event {
            Some(event) => host.machine.handle(local, event),
            None => host.machine.wake(local),
        };
        for command in commands {
            self.obey(name, local, command);
        }
        let Some(host) = self.hosts.get_mut(name) else { return };
        if host.leaving && host.machine.is_done() {
            assert!(host.workers.is_empty(), "{name} left with workers");
            self.hosts.remove(name);
            return;
        }
        if let Some(wake) = host.machine.next_wake() {
            let at = host.true_time(wake).max(now + MS / 10);
            self.wake_at(name, at);
        }
    }

    fn wake_at(&mut self, name: &str, at: Duration) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if host.woken_at != Some(at) {
            host.woken_at = Some(at);
            self.at(at - self.now, Happens::Wake { host: name.to_owned() });
        }
    }

    fn obey(&mut self, name: &str, local: Duration, command: Command) {
        let host = || name.to_owned();
        match command {
            Command::Scan => {
                let delay = self.delay(1, 20);
                self.at(delay, Happens::Scan { host: host(), sent: local });
            }
            Command::List => {
                let delay = self.delay(1, 40);
                self.at(delay, Happens::List { host: host(), sent: local });
            }
            Command::ReadBack { id, lease_key } => {
                let delay = self.delay(1, 10);
                self.at(delay, Happens::ReadBack { host: host(), id, lease_key });
            }
            Command::Write { id, write } => self.send(name, id, write),
            Command::Start { tenure, checkpoint, unsettled, .. } => {
                self.start(name, local, tenure, &checkpoint, unsettled);
            }
            Command::SafeUntil { tenure, until } => {
                if let Some(worker) = self.worker(name, &tenure) {
                    worker.safe_until = until;
                }
            }
            Command::Checkpointed { tenure, checkpoint } => {
                let Some(worker) = self.worker(name, &tenure) else { return };
                if matches!(&worker.at, At::Checkpointing(asked) if *asked == checkpoint) {
                    worker.at = At::Reading;
                    self.next_step(name, &tenure, MS);
                }
            }
            Command::Finish { tenure } if self.setup.works => {
                if let Some(worker) = self.worker(name, &tenure) {
                    worker.finishing = true;
                }
            }
            Command::Finish { tenure } => self.leave_off(name, tenure),
            Command::LeaveOff { tenure } => self.leave_off(name, tenure),
        }
    }

    fn leave_off(&mut self, name: &str, tenure: Tenure) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if let Some(worker) = host.workers.remove(&tenure) {
            let unsettled = !worker.settling.is_settled() || matches!(worker.at, At::Putting { .. });
            self.stopped(name, tenure, unsettled);
        }
    }

    fn stopped(&mut self, name: &str, tenure: Tenure, unsettled: bool) {
        let delay = self.delay(0, 5);
        self.at(
            delay,
            Happens::ToHost { host: name.to_owned(), event: Event::Stopped { tenure, unsettled } },
        );
    }

    fn worker(&mut self, name: &str, tenure: &Tenure) -> Option<&mut Worker> {
        self.hosts.get_mut(name)?.workers.get_mut(tenure)
    }

    // The lease table.

    fn fails(&mut self) -> bool {
        let faults = self.setup.read_faults;
        self.now < self.throttled_until || (self.faults && self.random.chance(faults))
    }

    fn scan(&mut self, host: String, sent: Duration) {
        let delay = self.delay(1, 30);
        if self.fails() {
            self.at(delay, Happens::ToHost { host, event: Event::ScanFailed });
            return;
        }
        // An eventually consistent read may lag behind.
        let lag = self.delay(0, 300);
        let lagging = self.past.iter().find(|(until, _)| *until + lag > self.now);
        let table = lagging.map_or(&self.leases, |(_, table)| table);
        let leases: Vec<Lease> = table.values().cloned().collect();
        self.counts.scans += 1;
        self.counts.rows_scanned += leases.len() as u64;
        self.at(delay, Happens::ToHost { host, event: Event::Scanned { leases, sent } });
    }

    fn send(&mut self, name: &str, id: u64, write: LeaseWrite) {
        self.counts.writes += 1;
        let host = || name.to_owned();
        let unknown = |delay| (delay, Happens::ToHost { host: host(), event: Event::WriteUnknown { id } });
        let timeout = self.setup.failover / 8;
        if self.now < self.throttled_until {
            let (delay, event) = unknown(self.delay(1, 50));
            return self.at(delay, event);
        }
        let faulty = self.faults && self.random.chance(self.setup.write_faults);
        let lands = match (faulty, self.random.between(0, 3)) {
            (false, _) => {
                let delay = self.delay(1, 15);
                return self.at(delay, Happens::Lands { host: host(), id, write, reply: true });
            }
            (true, 0) => None,
            (true, 1) => Some(self.delay(1, 15)),
            // After the host has given up waiting for it, perhaps after somebody else's.
            (true, _) => Some(timeout + self.delay(1, 3 * self.setup.failover.as_millis() as u64)),
        };
        if let Some(delay) = lands {
            self.at(delay, Happens::Lands { host: host(), id, write, reply: false });
        }
        let (delay, event) = unknown(timeout);
        self.at(delay, event);
    }

    fn land(&mut self, write: &LeaseWrite) -> Option<Applied> {
        let lease_key = write.lease_key();
        let before = self.leases.get(lease_key).cloned();
        let applied = write.apply(before.as_ref());
        self.traced(&format!("{write:?} {}", applied.is_some()));
        match &applied {
            Some(Applied::Row(after)) => {
                match write {
                    LeaseWrite::Take { .. } => {
                        self.counts.takes += 1;
                        self.read_again(lease_key);
                        for parent in &after.parent_shard_ids {
                            // One that was taken away by hand had ended, or this shard would not have been begun.
                            let begun = after.checkpoint != Checkpoint::TrimHorizon;
                            let ended = self.leases.get(parent).map_or(begun, Lease::is_finished);
                            assert!(ended, "{lease_key} was taken before its parent {parent} had ended");
                        }
                    }
                    LeaseWrite::GiveUp { to, .. } if !after.is_finished() => {
                        self.counts.hand_overs += u64::from(to.is_some());
                        self.unread.insert(lease_key.to_owned(), (self.now, false));
                    }
                    _ => {}
                }
                if let (Some(before), LeaseWrite::Renew { .. } | LeaseWrite::GiveUp { .. }) = (&before, write)
                {
                    self.check_checkpoint(before, after);
                }
                if self.setup.works {
                    let now = self.now;
                    self.past.retain(|(until, _)| *until + MS * 400 > now);
                    self.past.push_back((now, self.leases.clone()));
                }
                self.leases.insert(lease_key.to_owned(), after.clone());
            }
            Some(Applied::Removed) => drop(self.leases.remove(lease_key)),
            None => {}
        }
        applied
    }

    fn read_again(&mut self, lease_key: &str) {
        let Some((since, died)) = self.unread.remove(lease_key) else { return };
        let counts = &mut self.counts;
        let longest = if died { &mut counts.unread_after_death } else { &mut counts.unread_after_giving_up };
        *longest = (*longest).max(self.now - since);
    }

    /// Nothing is acknowledged that the index lacks, and no checkpoint goes back.
    fn check_checkpoint(&mut self, before: &Lease, after: &Lease) {
        let (from, to) = (position_of(&before.checkpoint), position_of(&after.checkpoint));
        assert!(from <= to, "{}: the checkpoint went back: {before:?} {after:?}", after.lease_key);
        if !self.setup.works {
            return;
        }
        let shard = &self.stream.shards[&after.lease_key];
        if to == usize::MAX {
            assert!(shard.closed, "{} ended while it was open", after.lease_key);
        }
        for &(key, version) in &shard.records[from.min(shard.records.len())..to.min(shard.records.len())] {
            let indexed = self.index.get(&key).copied().unwrap_or(0);
            assert!(
                indexed >= version,
                "{}: version {version} of row {key} was acknowledged, the index has {indexed}",
                after.lease_key
            );
            let acknowledged = self.acknowledged.entry(key).or_default();
            *acknowledged = (*acknowledged).max(version);
        }
    }

    // Workers.

    fn start(
        &mut self,
        name: &str,
        local: Duration,
        tenure: Tenure,
        checkpoint: &Checkpoint,
        unsettled: bool,
    ) {
        let settle = self.setup.settle;
        let Some(host) = self.hosts.get_mut(name) else { return };
        let same_shard = host.workers.keys().any(|other| other.lease_key == tenure.lease_key);
        assert!(!same_shard, "{name} has two workers on {}", tenure.lease_key);
        let worker = Worker {
            position: position_of(checkpoint),
            at: At::Reading,
            safe_until: local,
            settling: Settling::new(settle, local, unsettled),
            planned: BTreeMap::new(),
            finishing: false,
            step: 0,
        };
        host.workers.insert(tenure.clone(), worker);
        self.next_step(name, &tenure, MS);
    }

    fn next_step(&mut self, name: &str, tenure: &Tenure, delay: Duration) {
        if !self.setup.works {
            return;
        }
        let Some(worker) = self.worker(name, tenure) else { return };
        worker.step += 1;
        let step = worker.step;
        self.at(delay, Happens::Step { host: name.to_owned(), tenure: tenure.clone(), step });
    }

    fn step(&mut self, name: &str, tenure: &Tenure, step: u64) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(name) else { return };
        let local = host.local(now);
        let Some(worker) = host.workers.get_mut(tenure).filter(|worker| worker.step == step) else { return };
        match worker.at.clone() {
            At::Reading => {
                if worker.finishing {
                    let unsettled = !worker.settling.is_settled();
                    host.workers.remove(tenure);
                    return self.stopped(name, tenure.clone(), unsettled);
                }
                if let Some(keys) = worker.settling.due(local) {
                    let rows = keys
                        .iter()
                        .map(|key| (*key, worker.planned[key]))
                        .filter(|(key, version)| self.index.get(key) != Some(version))
                        .collect::<Vec<_>>();
                    self.counts.late_puts_undone += rows.len() as u64;
                    worker.at = At::Putting { rows, keys: vec![], end: None, unknown: false };
                    return self.put(name, tenure);
                }
                let shard = &self.stream.shards[&tenure.lease_key];
                let end = shard.records.len().min(worker.position + self.random.between(1, 9) as usize);
                let batch = &shard.records[worker.position..end];
                if batch.is_empty() {
                    if shard.closed && worker.settling.is_settled() {
                        let tenure = tenure.clone();
                        host.workers.remove(&tenure);
                        self.at(
                            MS,
                            Happens::ToHost { host: name.to_owned(), event: Event::Drained { tenure } },
                        );
                        return;
                    }
                    return self.next_step(name, tenure, MS * 100);
                }
                worker.planned.extend(batch.iter().copied());
                let keys: Vec<_> = batch.iter().map(|(key, _)| *key).collect();
                // Before is unknown: what the index has already needs no write.
                let rows: Vec<_> = keys
                    .iter()
                    .map(|key| (*key, worker.planned[key]))
                    .filter(|(key, version)| self.index.get(key) != Some(version))
                    .collect();
                worker.at = At::Putting { rows, keys, end: Some(end), unknown: false };
                let embedding = self.delay(1, 80);
                self.next_step(name, tenure, embedding);
            }
            At::Putting { .. } => self.put(name, tenure),
            At::Checkpointing(_) => {}
        }
    }

    /// The last step before transmission.
    fn put(&mut self, name: &str, tenure: &Tenure) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(name) else { return };
        let local = host.local(now);
        let Some(worker) = host.workers.get_mut(tenure) else { return };
        let At::Putting { rows, .. } = worker.at.clone() else { return };
        if rows.is_empty() {
            worker.step += 1;
            let step = worker.step;
            return self.put_answered(name, &tenure.clone(), step, false);
        }
        if local >= worker.safe_until {
            // The lease cannot be relied on: it is renewed or taken away soon.
            return self.next_step(name, tenure, MS * 20);
        }
        if let Some(row) = self.leases.get(&tenure.lease_key) {
            let ours =
                row.lease_owner.as_ref() == Some(&tenure.lease_owner) && row.lease_counter >= tenure.taken_at;
            // Of a row that was taken away by hand its owner learns with the next renewal.
            let made_anew = row.lease_owner.as_ref().is_some_and(|owner| owner.starts_with(FORMER_OWNER));
            assert!(ours || made_anew, "{name} writes for {tenure:?}, which is {row:?}");
        }
        worker.step += 1;
        let step = worker.step;
        self.counts.puts += 1;
        let timeout = self.setup.failover / 5;
        let answered =
            |unknown| Happens::PutAnswered { host: name.to_owned(), tenure: tenure.clone(), step, unknown };
        if self.faults && self.random.chance(self.setup.put_faults) {
            // Each landing is its own: some rows of a batch now, some late, some never.
            for row in rows {
                let lands = match self.random.between(0, 3) {
                    0 => continue,
                    1 => self.delay(1, 20),
                    _ => self.delay(1, self.setup.settle.as_millis() as u64 - 10),
                };
                self.at(lands, Happens::PutLands { rows: vec![row] });
            }
            let answer = answered(true);
            return self.at(timeout, answer);
        }
        let lands = self.delay(1, timeout.as_millis() as u64 / 2);
        self.at(lands, Happens::PutLands { rows });
        let answer = answered(false);
        self.at(lands + MS, answer);
    }

    fn put_lands(&mut self, rows: &[(Key, Version)]) {
        for &(key, version) in rows {
            let acknowledged = self.acknowledged.get(&key).copied().unwrap_or(0);
            assert!(
                version >= acknowledged,
                "a late write brought back version {version} of row {key}, of which {acknowledged} was acknowledged"
            );
            self.index.insert(key, version);
        }
        self.traced(&format!("{rows:?}"));
    }

    fn put_answered(&mut self, name: &str, tenure: &Tenure, step: u64, unknown: bool) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(name) else { return };
        let local = host.local(now);
        let Some(worker) = host.workers.get_mut(tenure).filter(|worker| worker.step == step) else { return };
        let At::Putting { rows, keys, end, unknown: unknown_before } = worker.at.clone() else { return };
        if unknown {
            worker.at = At::Putting { rows, keys, end, unknown: true };
            return self.next_step(name, tenure, MS * 30);
        }
        let checkpoint = match end {
            Some(end) => {
                worker.position = end;
                worker.settling.done(local, Checkpoint::At(end.to_string()), keys, unknown_before)
            }
            None => worker.settling.looked_at(local, unknown_before),
        };
        worker.at = match &checkpoint {
            Some(checkpoint) => At::Checkpointing(checkpoint.clone()),
            None => At::Reading,
        };
        match checkpoint {
            Some(checkpoint) => {
                let event = Event::Checkpoint { tenure: tenure.clone(), checkpoint, tip_at_ms: None };
                self.drive(name, Some(event));
            }
            None => self.next_step(name, tenure, MS),
        }
    }

    // Faults.

    fn fault(&mut self) {
        if !self.faults {
            return;
        }
        let again = self.setup.faults_every;
        let again = again / 2 + MS * self.random.between(0, again.as_millis() as u64) as u32;
        self.at(again, Happens::Fault);
        let failover_ms = self.setup.failover.as_millis() as u64;
        let names: Vec<_> = self.hosts.keys().cloned().collect();
        let name = self.random.one_of(&names).cloned();
        let kind = self.random.between(0, 9);
        self.traced(&format!("fault {kind} {name:?}"));
        match (kind, name) {
            (0, Some(name)) => {
                self.kill(&name);
                let back = self.delay(10, 3 * failover_ms);
                self.at(back, Happens::NewHost);
            }
            (1 | 2, Some(name)) => {
                let pause = self.delay(10, 3 * failover_ms);
                let host = self.hosts.get_mut(&name).expect("it was listed");
                host.paused_until = self.now + pause;
            }
            (3, _) => self.throttled_until = self.now + self.delay(10, 4 * failover_ms),
            (4 | 5, _) => self.stream.split(&mut self.random),
            (6, _) => self.stream.merge(&mut self.random),
            (7, Some(name)) => {
                self.leave(&name);
                let back = self.delay(10, failover_ms);
                self.at(back, Happens::NewHost);
            }
            (8, _) if self.now > self.setup.failover * 2 + MS * 1000 => {
                // Not that of a shard which ended a moment ago: a child that starts at the same moment and the parent that
                // is read again would go side by side, which no conditional write of one row can prevent.
                let begun = |parent: &str| {
                    let mut children = self
                        .leases
                        .values()
                        .filter(|lease| lease.parent_shard_ids.iter().any(|id| id == parent));
                    children.all(|child| child.checkpoint != Checkpoint::TrimHorizon)
                };
                let keys: Vec<_> = self
                    .leases
                    .values()
                    .filter(|lease| !lease.is_finished() || begun(&lease.lease_key))
                    .map(|lease| lease.lease_key.clone())
                    .collect();
                // Where no lease is left, a host that starts now takes the table for a new one.
                let worked_on = self.leases.values().filter(|lease| lease.lease_counter > 0).count();
                if let Some(lease_key) = self.random.one_of(&keys).filter(|_| worked_on > 1) {
                    // An operator's hand. What was read is read again, and stands in the index in older states meanwhile.
                    self.leases.remove(lease_key);
                    self.acknowledged.clear();
                }
            }
            _ => {}
        }
    }

    pub(crate) fn leases_a_host(&self) -> Vec<usize> {
        self.hosts.values().map(|host| host.workers.len()).collect()
    }

    /// A clean shutdown begins.
    pub(crate) fn leave(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name) {
            host.leaving = true;
            self.at(Duration::ZERO, Happens::ToHost { host: name.to_owned(), event: Event::Shutdown });
        }
    }

    pub(crate) fn join(&mut self) {
        self.at(Duration::ZERO, Happens::NewHost);
    }

    pub(crate) fn kill(&mut self, name: &str) {
        self.hosts.remove(name);
        for lease in self.leases.values().filter(|lease| lease.lease_owner.as_deref() == Some(name)) {
            self.unread.entry(lease.lease_key.clone()).or_insert((self.now, true));
        }
    }
}
