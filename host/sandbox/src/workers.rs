//! Threads that run guest code, fed by one bounded queue.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::isolate::Broken;
use crate::plugin::Plugin;

/// What waits for a thread: a question, and where its answer goes.
struct Job<Q, A> {
    question: Q,
    answer: Reply<A>,
}

/// Where an answer goes.
pub(crate) struct Reply<A>(oneshot::Sender<Result<A, Broken>>);

impl<A> Reply<A> {
    pub(crate) fn channel() -> (Self, oneshot::Receiver<Result<A, Broken>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Nobody waits any more: work on it is wasted.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn send(self, answer: Result<A, Broken>) {
        // The asker may be gone, and then nobody misses the answer.
        drop(self.0.send(answer));
    }
}

/// A handle to an open plugin's threads. They end once it is dropped and the queue is empty.
pub(crate) struct Workers<Q, A> {
    plugin: String,
    jobs: mpsc::Sender<Job<Q, A>>,
}

impl<Q: Send + 'static, A: Send + 'static> Workers<Q, A> {
    /// Starts a thread for each of `workers`, each of which then is asked in turn.
    pub(crate) fn start<W>(plugin: &Plugin, workers: Vec<W>, ask: fn(&mut W, Q, Reply<A>)) -> io::Result<Self>
    where
        W: Send + 'static,
    {
        let (sender, receiver) = mpsc::channel::<Job<Q, A>>(plugin.engine.config.queue.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        for (index, mut worker) in workers.into_iter().enumerate() {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new().name(format!("plugin-{index}")).spawn(move || {
                // The lock is held while waiting: one idle thread waits for work, the others for their turn to wait.
                let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
                while let Some(job) = next() {
                    ask(&mut worker, job.question, job.answer);
                }
            })?;
        }
        Ok(Self { plugin: plugin.name().to_owned(), jobs: sender })
    }

    /// Waits for room in the queue, and then for the answer.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the question is either not asked or its answer dropped.
    pub(crate) async fn ask(&self, question: Q) -> Result<A, Broken> {
        let (answer, receiver) = Reply::channel();
        let gone = || Broken { plugin: self.plugin.clone(), reason: "its thread has ended".to_owned() };
        self.jobs.send(Job { question, answer }).await.map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}
