//! Takes a lease and keeps it. Renewing never waits for the line: it has a runtime and a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keyvector_core::lease::{Checkpoint, ExpiryObserver, Fenced, Lease, Tenure};
use keyvector_core::port::{self, LeaseTable};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How long a lease lives without renewal, and what follows from it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTimes {
    /// Another host may take a lease whose counter stood still this long.
    pub failover: Duration,
}

impl LeaseTimes {
    fn renew_every(self) -> Duration {
        self.failover / 3
    }

    /// The owner stops writing this long before anybody may take the lease.
    fn margin(self) -> Duration {
        self.failover / 4
    }

    fn look_every(self) -> Duration {
        (self.failover / 4).clamp(Duration::from_millis(20), Duration::from_secs(2))
    }

    fn retry_every(self) -> Duration {
        (self.failover / 20).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

/// How long the end of a shard's work waits for its lease to be given up.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// The thread on which leases are renewed.
pub struct KeeperRuntime {
    handle: tokio::runtime::Handle,
    // Dropping it ends the thread.
    _alive: oneshot::Sender<()>,
}

impl KeeperRuntime {
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("leases".into()).spawn(move || {
            // Either way of ending means that the owner is gone.
            runtime.block_on(async { ended.await.ok() });
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?;
        Ok(Self { handle, _alive: alive })
    }
}

/// Creates the lease if there is none, waits until it is free or expired, and takes it. `None`: `stop` came first.
///
/// # Errors
/// What the lease table says, apart from passing faults, which are tried again.
pub async fn acquire(
    leases: &dyn LeaseTable,
    lease_key: &str,
    owner: &str,
    times: LeaseTimes,
    stop: &CancellationToken,
) -> port::Result<Option<TakenLease>> {
    let started = Instant::now();
    let mut observer = ExpiryObserver::new();
    let mut told = false;
    loop {
        match try_take(leases, lease_key, owner, times, &mut observer, started).await {
            Ok(Taken::Yes(taken)) => return Ok(Some(taken)),
            Ok(Taken::Created) => continue,
            Ok(Taken::Owned { by }) => {
                if !told {
                    tracing::info!(lease_key, lease_owner = by, "waiting for a lease that another host owns");
                    told = true;
                }
            }
            Err(port::Error::Transient { message, .. }) => {
                tracing::warn!(lease_key, error = message, "lease table is not answering, trying again");
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(times.look_every()) => {}
        }
    }
}

/// A lease that was just taken.
#[derive(Clone, Debug)]
pub struct TakenLease {
    pub tenure: Tenure,
    pub checkpoint: Checkpoint,
    /// When the take was sent: the lease may expire a fail-over time after that.
    pub sent: Instant,
}

enum Taken {
    Yes(TakenLease),
    Created,
    Owned { by: String },
}

async fn try_take(
    leases: &dyn LeaseTable,
    lease_key: &str,
    owner: &str,
    times: LeaseTimes,
    observer: &mut ExpiryObserver,
    started: Instant,
) -> port::Result<Taken> {
    let Some(seen) = find(leases, lease_key).await? else {
        leases.create(lease_key, &[], &Checkpoint::TrimHorizon).await?;
        return Ok(Taken::Created);
    };
    let sent = Instant::now();
    if observer.may_take(&seen, started.elapsed(), times.failover)
        && let Some(tenure) = leases.take(&seen, owner).await?
    {
        return Ok(Taken::Yes(TakenLease { tenure, checkpoint: seen.checkpoint, sent }));
    }
    Ok(Taken::Owned { by: seen.lease_owner.unwrap_or_else(|| "nobody yet".into()) })
}

async fn find(leases: &dyn LeaseTable, lease_key: &str) -> port::Result<Option<Lease>> {
    Ok(leases.list().await?.into_iter().find(|lease| lease.lease_key == lease_key))
}

/// One kept lease. The one serial writer of its row: each write is renewal, pending checkpoint and counter in one, so
/// that a renewal cannot fail its own checkpoint.
pub struct LeaseKeeper {
    tenure: Tenure,
    requests: mpsc::Sender<Request>,
    lost: CancellationToken,
    clock: Arc<Clock>,
}

/// Until when the lease is ours without question, counted from the sending of the last successful renewal.
struct Clock {
    started: Instant,
    safe_until_ms: AtomicU64,
}

impl Clock {
    fn set(&self, sent: Instant, times: LeaseTimes) {
        let until = sent.duration_since(self.started) + times.failover - times.margin();
        self.safe_until_ms.store(milliseconds(until), Ordering::Release);
    }

    fn is_safe(&self) -> bool {
        milliseconds(self.started.elapsed()) < self.safe_until_ms.load(Ordering::Acquire)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

enum Request {
    Checkpoint(Checkpoint, oneshot::Sender<Fenced>),
    Release(oneshot::Sender<Fenced>),
}

impl LeaseKeeper {
    /// Starts renewing a lease that was just taken.
    pub fn start(
        runtime: &KeeperRuntime,
        leases: Arc<dyn LeaseTable>,
        taken: &TakenLease,
        times: LeaseTimes,
    ) -> Self {
        let tenure = taken.tenure.clone();
        let (requests, receiver) = mpsc::channel(1);
        let lost = CancellationToken::new();
        let clock = Arc::new(Clock { started: taken.sent, safe_until_ms: AtomicU64::new(0) });
        clock.set(clock.started, times);
        let writer = Writer {
            leases,
            counter: tenure.taken_at,
            tenure: tenure.clone(),
            times,
            clock: clock.clone(),
            lost: lost.clone(),
        };
        runtime.handle.spawn(writer.run(receiver));
        Self { tenure, requests, lost, clock }
    }

    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Cancelled once the lease is lost.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether a write sent now still lands while the lease is ours. Asked in the last step before every put and delete.
    pub fn may_write(&self) -> bool {
        !self.lost.is_cancelled() && self.clock.is_safe()
    }

    /// Makes the checkpoint durable.
    pub async fn checkpoint(&self, checkpoint: Checkpoint) -> Fenced {
        self.ask(|reply| Request::Checkpoint(checkpoint, reply)).await
    }

    /// Gives the lease up at once, for the next host to take without waiting.
    pub async fn release(self) -> Fenced {
        self.ask(Request::Release).await
    }

    /// The same where nothing can be done if it fails: the lease then expires by itself.
    pub async fn leave(self) {
        let lease_key = self.tenure.lease_key.clone();
        // A lease table that does not answer must not hold the process.
        let released = tokio::time::timeout(RELEASE_WITHIN, self.release()).await;
        if !matches!(released, Ok(Fenced::Written)) {
            tracing::debug!(lease_key, "the lease was not released: it expires");
        }
    }

    async fn ask(&self, request: impl FnOnce(oneshot::Sender<Fenced>) -> Request) -> Fenced {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(request(reply)).await.is_err() {
            return Fenced::Lost;
        }
        answer.await.unwrap_or(Fenced::Lost)
    }
}

struct Writer {
    leases: Arc<dyn LeaseTable>,
    tenure: Tenure,
    counter: u64,
    times: LeaseTimes,
    clock: Arc<Clock>,
    lost: CancellationToken,
}

impl Writer {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let request = tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(request) => Some(request),
                    // The worker is gone without a release, as after a crash: the lease is left to expire.
                    None => return,
                },
                () = tokio::time::sleep(self.times.renew_every()) => None,
            };
            let fenced = match request {
                None => self.write(None, &requests).await,
                Some(Request::Checkpoint(checkpoint, reply)) => {
                    let fenced = self.write(Some(&checkpoint), &requests).await;
                    // A worker that has stopped waiting has no use for the answer.
                    reply.send(fenced).ok();
                    fenced
                }
                Some(Request::Release(reply)) => {
                    let fenced = self.release().await;
                    reply.send(fenced).ok();
                    return;
                }
            };
            if fenced == Fenced::Lost {
                tracing::info!(
                    lease_key = self.tenure.lease_key,
                    "lease lost to another host: this shard stops here"
                );
                self.lost.cancel();
                return;
            }
        }
    }

    /// Renewal and checkpoint in one conditional write; tried again through passing faults until it is known to have
    /// gone through or to be lost.
    async fn write(&mut self, checkpoint: Option<&Checkpoint>, requests: &mpsc::Receiver<Request>) -> Fenced {
        // Whether an earlier try may have gone through, its reply lost.
        let mut unknown = false;
        while !requests.is_closed() {
            let sent = Instant::now();
            match self.leases.renew(&self.tenure, self.counter, checkpoint).await {
                Ok(Some(counter)) => return self.written(sent, counter),
                Ok(None) if !unknown => return Fenced::Lost,
                Ok(None) => {
                    return match self.read_back(checkpoint).await {
                        Some(counter) => self.written(sent, counter),
                        None => Fenced::Lost,
                    };
                }
                Err(port::Error::Fatal(message)) => {
                    tracing::error!(
                        lease_key = self.tenure.lease_key,
                        error = message,
                        "the lease table is broken"
                    );
                    return Fenced::Lost;
                }
                Err(error) => {
                    unknown = true;
                    tracing::warn!(
                        lease_key = self.tenure.lease_key,
                        error = %error,
                        "renewing the lease failed, trying again"
                    );
                    if let Some(counter) = self.read_back(checkpoint).await {
                        return self.written(sent, counter);
                    }
                    tokio::time::sleep(self.times.retry_every()).await;
                }
            }
        }
        Fenced::Lost
    }

    fn written(&mut self, sent: Instant, counter: u64) -> Fenced {
        self.counter = counter;
        self.clock.set(sent, self.times);
        Fenced::Written
    }

    /// After a reply that was lost: the raised counter if our write went through all the same.
    async fn read_back(&self, checkpoint: Option<&Checkpoint>) -> Option<u64> {
        let lease = find(self.leases.as_ref(), &self.tenure.lease_key).await.ok()??;
        let ours = lease.lease_owner.as_deref() == Some(&self.tenure.lease_owner)
            && lease.lease_counter == self.counter + 1
            && checkpoint.is_none_or(|checkpoint| *checkpoint == lease.checkpoint);
        ours.then_some(lease.lease_counter)
    }

    async fn release(&self) -> Fenced {
        match self.leases.release(&self.tenure, None).await {
            Ok(fenced) => fenced,
            Err(error) => {
                tracing::warn!(
                    lease_key = self.tenure.lease_key,
                    error = %error,
                    "the lease could not be released: it expires by itself"
                );
                Fenced::Lost
            }
        }
    }
}
