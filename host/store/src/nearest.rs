//! Exact distances, and the few nearest of many candidates.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use keyvector_core::document::Metadata;
use keyvector_core::index::{DistanceMetric, Hit};

/// Components are summed in this many lanes, which the compiler turns into vector instructions.
const LANES: usize = 8;

/// A question's vector, made ready to be compared with many.
///
/// Sums are in 64 bits: no finite vector overflows them, and both stores give bit for bit the same distance.
pub(crate) struct Question {
    metric: DistanceMetric,
    components: Vec<f64>,
    norm: f64,
}

impl Question {
    pub(crate) fn new(metric: DistanceMetric, vector: &[f32]) -> Self {
        Self {
            metric,
            components: vector.iter().map(|&component| f64::from(component)).collect(),
            norm: norm(vector),
        }
    }

    /// Distance to a vector of the same dimension and its [`norm`].
    pub(crate) fn distance(&self, data: &[f32], norm: f64) -> f32 {
        let lanes = |at: usize| {
            let mut out = [0.0; LANES];
            out.copy_from_slice(&data[at..at + LANES]);
            out
        };
        self.distance_by(norm, |at| data[at], lanes)
    }

    /// The same for a stored vector: little-endian bytes.
    pub(crate) fn distance_to_bytes(&self, data: &[u8], norm: f64) -> f32 {
        let (components, _) = data.as_chunks::<4>();
        let lanes = |at: usize| {
            let mut out = [0.0; LANES];
            for (lane, component) in out.iter_mut().zip(&components[at..at + LANES]) {
                *lane = f32::from_le_bytes(*component);
            }
            out
        };
        self.distance_by(norm, |at| f32::from_le_bytes(components[at]), lanes)
    }

    fn distance_by(
        &self,
        norm: f64,
        one: impl Fn(usize) -> f32,
        lanes: impl Fn(usize) -> [f32; LANES],
    ) -> f32 {
        match self.metric {
            DistanceMetric::Cosine => {
                let dot = self.sum(one, lanes, |mine, theirs| mine * theirs);
                // Rounding may step a hair outside.
                (1.0 - dot / (self.norm * norm)).clamp(0.0, 2.0) as f32
            }
            DistanceMetric::Euclidean => {
                self.sum(one, lanes, |mine, theirs| (mine - theirs) * (mine - theirs)).sqrt() as f32
            }
        }
    }

    #[inline(always)]
    fn sum(
        &self,
        one: impl Fn(usize) -> f32,
        lanes: impl Fn(usize) -> [f32; LANES],
        term: impl Fn(f64, f64) -> f64,
    ) -> f64 {
        let mut sums = [0.0_f64; LANES];
        let chunks = self.components.chunks_exact(LANES);
        let rest = chunks.remainder();
        for (position, mine) in chunks.enumerate() {
            let theirs = lanes(position * LANES);
            for lane in 0..LANES {
                sums[lane] += term(mine[lane], f64::from(theirs[lane]));
            }
        }
        let done = self.components.len() - rest.len();
        for (position, &mine) in rest.iter().enumerate() {
            sums[position] += term(mine, f64::from(one(done + position)));
        }
        sums.iter().sum()
    }
}

/// Length of a vector.
pub(crate) fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&component| f64::from(component) * f64::from(component)).sum::<f64>().sqrt()
}

/// The nearest hits so far, at most `count`; ties by key.
pub(crate) struct Nearest {
    count: usize,
    heap: BinaryHeap<Candidate>,
}

struct Candidate(Hit);

impl Nearest {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, heap: BinaryHeap::with_capacity(count + 1) }
    }

    /// Whether a hit at this distance would be among them. Asked first, so that the metadata of the many that are
    /// too far are never read.
    pub(crate) fn admits(&self, distance: f32, key: &str) -> bool {
        self.heap.len() < self.count
            || self.heap.peek().is_some_and(|Candidate(worst)| {
                distance.total_cmp(&worst.distance).then_with(|| key.cmp(&worst.key)) == Ordering::Less
            })
    }

    pub(crate) fn push(&mut self, key: String, distance: f32, metadata: Metadata) {
        self.heap.push(Candidate(Hit { key, distance, metadata }));
        if self.heap.len() > self.count {
            self.heap.pop();
        }
    }

    pub(crate) fn into_hits(self) -> Vec<Hit> {
        self.heap.into_sorted_vec().into_iter().map(|Candidate(hit)| hit).collect()
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.distance.total_cmp(&other.0.distance).then_with(|| self.0.key.cmp(&other.0.key))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}
