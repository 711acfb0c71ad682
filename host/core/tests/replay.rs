//! A small world, searched whole: every history of few changes over few documents, cut into batches in every way, with a
//! crash after any part of any batch's writes, and cut in every way again after it. However it went, the index ends as the
//! fold of the history, and no text is paid for that the index already holds.
//!
//! All 2^(n-1) cuts, and all cuts after all crashes, are walked as one graph: from each place that can be reached, the
//! next batch may end anywhere. So crashes upon crashes are among them too.

use std::collections::{BTreeMap, BTreeSet};

use keyvector_core::change::{Before, Change, Origin};
use keyvector_core::collapse::{NetChange, collapse};
use keyvector_core::document::{Document, Metadata, MetadataValue};
use keyvector_core::fingerprint::{Fingerprint, hash_metadata, hash_text};
use keyvector_core::index::{FINGERPRINT_KEY, StoredVector};
use keyvector_core::key::RowKey;
use keyvector_core::plan::{Action, DocumentAfter, DocumentBefore, needs_stored, plan};
use keyvector_core::row::{Cell, Row};

const MODEL: u64 = 1;

/// What a row can be. The letters are texts; `A2` is `A` with other metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Gone,
    /// A row of which the plugin makes no document.
    Skipped,
    A,
    A2,
    B,
}

use State::{A, A2, B, Gone, Skipped};

const ALL: [State; 5] = [Gone, Skipped, A, A2, B];

impl State {
    fn text(self) -> Option<&'static str> {
        match self {
            Gone | Skipped => None,
            A | A2 => Some("a"),
            B => Some("b"),
        }
    }

    fn document(self) -> Option<Document> {
        let year = MetadataValue::Number(f64::from(u8::from(self == A2)));
        let metadata = Metadata([("year".into(), year)].into());
        self.text().map(|text| Document { text: text.to_owned(), metadata })
    }

    fn row(self) -> Option<Row> {
        let cell = (0..).zip(ALL).find(|&(_, state)| state == self).map_or(0, |(cell, _): (u8, _)| cell);
        (self != Gone).then(|| Row::new([Cell::Bytes(&[cell])]))
    }

    /// As a plugin reads it.
    fn of(row: Option<&Row>) -> Self {
        row.map_or(Gone, |row| match row.cell(0) {
            Cell::Bytes(&[cell]) => ALL[usize::from(cell)],
            cell => panic!("{cell:?} was never written"),
        })
    }
}

/// One change: which row, and what it is afterwards.
type Step = (usize, State);

/// The index: for each of two rows the state that its vector was made from; `Gone` where there is none.
type Index = [State; 2];

/// The rows after these changes.
fn table(steps: &[Step]) -> Index {
    steps.iter().fold([Gone; 2], |mut table, &(row, after)| {
        table[row] = after;
        table
    })
}

/// What the index has to be after these changes.
fn fold(steps: &[Step]) -> Index {
    table(steps).map(|state| if state.text().is_some() { state } else { Gone })
}

/// How a host plans; the second way of each is the naive one.
#[derive(Clone, Copy)]
struct Rules {
    /// A net change of several is planned as one of several, or as if it were one change.
    knows_folded: bool,
    /// After a crash no before image is trusted until everything that the crash may have left is read again.
    doubts_after_crash: bool,
}

const HOST: Rules = Rules { knows_folded: true, doubts_after_crash: true };

/// One write of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct IndexWrite {
    row: usize,
    /// `Gone`: a delete.
    to: State,
    embedded: bool,
}

fn key(row: usize) -> RowKey {
    RowKey::from_stored(["r0", "r1"][row])
}

/// The writes that a batch asks for, puts before deletes.
fn writes(
    rules: Rules,
    history: &[Step],
    batch: std::ops::Range<usize>,
    index: &Index,
    doubt: bool,
) -> Vec<IndexWrite> {
    let mut table = table(&history[..batch.start]);
    let changes = batch.map(|position| {
        let (row, after) = history[position];
        let before = match (table[row].row(), after.row()) {
            (Some(before), _) => Before::Row(before),
            (None, Some(_)) => Before::Absent,
            (None, None) => Before::Unknown,
        };
        table[row] = after;
        Change {
            key: key(row),
            sequence_number: (position as u64 + 1).into(),
            created_at_ms: None,
            origin: Origin::User,
            before,
            after: after.row(),
        }
    });
    let mut writes: Vec<IndexWrite> =
        collapse(changes.collect()).iter().filter_map(|change| write(rules, change, index, doubt)).collect();
    writes.sort_by_key(|write| write.to == Gone);
    writes
}

fn write(rules: Rules, change: &NetChange, index: &Index, doubt: bool) -> Option<IndexWrite> {
    let row = usize::from(change.key == key(1));
    let before = match &change.before {
        Before::Unknown => None,
        _ if doubt => None,
        Before::Absent => Some(Gone),
        Before::Row(row) => Some(State::of(Some(row))),
    };
    let before_document = before.and_then(State::document);
    let planned_before = match (before, &before_document) {
        (None, _) => DocumentBefore::Unknown,
        (Some(_), None) => DocumentBefore::None,
        (Some(_), Some(document)) => DocumentBefore::Document(document),
    };
    let after = State::of(change.after.as_ref());
    let after_document = after.document();
    let planned_after = match &after_document {
        None if after == Gone => DocumentAfter::Gone,
        None => DocumentAfter::None,
        Some(document) => DocumentAfter::Document(document),
    };
    let folded = rules.knows_folded && change.changes > 1;
    let stored = needs_stored(planned_before, planned_after, folded).then(|| stored(index[row])).flatten();
    match plan(planned_before, planned_after, folded, stored, MODEL) {
        Action::Nothing => None,
        Action::Delete => Some(IndexWrite { row, to: Gone, embedded: false }),
        Action::Embed => Some(IndexWrite { row, to: after, embedded: true }),
        Action::PutStored { data, .. } => {
            assert_eq!(Some(data), vector(after), "a vector was put under another text than its own");
            Some(IndexWrite { row, to: after, embedded: false })
        }
    }
}

fn vector(state: State) -> Option<Vec<f32>> {
    state.text().map(|text| vec![f32::from(text.as_bytes()[0])])
}

fn stored(state: State) -> Option<StoredVector> {
    let document = state.document()?;
    let fingerprint = Fingerprint {
        model: MODEL,
        text: hash_text(&document.text),
        metadata: hash_metadata(&document.metadata),
        shard: 1,
        sequence_number: 1.into(),
    };
    let mut metadata = document.metadata;
    metadata.0.insert(FINGERPRINT_KEY.into(), MetadataValue::Text(fingerprint.to_text()));
    Some(StoredVector { key: "r".into(), data: vector(state), metadata })
}

/// Every index that a crash in the middle of these writes can leave: puts go out side by side, deletes after them.
fn crashed(index: &Index, writes: &[IndexWrite]) -> Vec<Index> {
    let puts = writes.iter().filter(|write| write.to != Gone).count();
    let some_of = |index: Index, writes: &[IndexWrite]| -> Vec<Index> {
        let chosen = |set: usize| writes.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
        (0..1 << writes.len())
            .map(|set| {
                chosen(set).fold(index, |mut index, (_, write)| {
                    index[write.row] = write.to;
                    index
                })
            })
            .collect()
    };
    let mut left = some_of(*index, &writes[..puts]);
    let all_put = *left.last().expect("the empty choice is one");
    left.extend(some_of(all_put, &writes[puts..]));
    left
}

/// Where a host stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The checkpoint, in changes.
    done: usize,
    index: Index,
    /// How far any life before this one may have written.
    old_end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    /// The index is not the fold.
    Stale,
    /// A text was embedded that the index held.
    PaidTwice,
}

/// What is walked beside the host's own batches and crashes, and what counts as wrong.
#[derive(Clone, Copy)]
struct World {
    /// A backfill may at any time write a row's state of now, which the stream has yet to tell.
    backfill: bool,
    /// A text paid for twice is wrong too, not a wrong index alone.
    counts_cost: bool,
}

const CRASHES: World = World { backfill: false, counts_cost: true };
/// What a backfill has embedded, a host at the tip, which asks no index, embeds again.
const BACKFILL: World = World { backfill: true, counts_cost: false };

/// Walks all that can become of one history. Gives the first thing that goes wrong, and the way there in words.
fn walk(rules: Rules, world: World, history: &[Step]) -> Result<usize, (Wrong, String)> {
    let start = Place { done: 0, index: [Gone; 2], old_end: 0 };
    // Each place with the one it was reached from, and how.
    let mut places = vec![(start, 0, "start", 0)];
    let mut seen = BTreeSet::from([start]);
    // Places differ in what earlier lives may have left more often than in what is to do.
    let mut known = BTreeMap::new();
    let mut at = 0;
    while at < places.len() {
        let place = places[at].0;
        let mut wrong = None;
        let mut next = Vec::new();
        if place.done == history.len() && place.index != fold(history) {
            wrong = Some((Wrong::Stale, history.len()));
        }
        for end in place.done + 1..=history.len() {
            let doubt = rules.doubts_after_crash && place.done < place.old_end;
            let writes = known
                .entry((place.done, end, doubt, place.index))
                .or_insert_with(|| writes(rules, history, place.done..end, &place.index, doubt));
            let paid_twice =
                |write: &IndexWrite| write.embedded && place.index[write.row].text() == write.to.text();
            if world.counts_cost && writes.iter().any(paid_twice) {
                wrong = Some((Wrong::PaidTwice, end));
            }
            let crashes = crashed(&place.index, writes);
            let finished = *crashes.last().expect("nothing written is one of them");
            next.push((Place { done: end, index: finished, ..place }, "done to", end));
            let old_end = place.old_end.max(end);
            next.extend(
                crashes.into_iter().map(|index| (Place { index, old_end, ..place }, "crash before", end)),
            );
        }
        if world.backfill {
            for now in place.done + 1..=history.len() {
                for row in 0..2 {
                    let mut index = place.index;
                    index[row] = fold(&history[..now])[row];
                    next.push((Place { index, ..place }, "backfill of", now));
                }
            }
        }
        if let Some((wrong, end)) = wrong {
            return Err((wrong, way(history, &places, at, end)));
        }
        for (place, how, end) in next {
            if seen.insert(place) {
                places.push((place, at, how, end));
            }
        }
        at += 1;
    }
    Ok(places.len())
}

fn way(history: &[Step], places: &[(Place, usize, &str, usize)], mut at: usize, end: usize) -> String {
    let mut steps = Vec::new();
    loop {
        let (place, from, how, end) = places[at];
        steps.push(format!("{how} {end} with {:?}", place.index));
        if at == 0 {
            break;
        }
        at = from;
    }
    steps.reverse();
    format!("{history:?}, wrong at {end}: {}", steps.join("; "))
}

/// Every history of `length` changes over these states, of one row or of two. With two the first change is the first
/// row's: which row is called first makes no difference.
fn histories(rows: usize, states: &[State], length: u32) -> impl Iterator<Item = Vec<Step>> {
    let choices: Vec<Step> =
        (0..rows).flat_map(|row| states.iter().map(move |&state| (row, state))).collect();
    (0..choices.len().pow(length))
        .map(move |mut number| {
            let mut history = Vec::new();
            for _ in 0..length {
                history.push(choices[number % choices.len()]);
                number /= choices.len();
            }
            history
        })
        .filter(|history| history.first().is_none_or(|step| step.0 == 0))
}

fn never_wrong(world: World, histories: impl Iterator<Item = Vec<Step>>) -> (usize, usize) {
    let mut counts = (0, 0);
    for history in histories {
        counts.0 += 1;
        match walk(HOST, world, &history) {
            Ok(places) => counts.1 += places,
            Err((wrong, way)) => panic!("{wrong:?}: {way}"),
        }
    }
    counts
}

#[test]
fn one_row_ends_right_however_it_is_cut_and_whatever_crashes() {
    for length in 1..=6 {
        let (histories, places) = never_wrong(CRASHES, histories(1, &ALL, length));
        assert_eq!(histories, 5_usize.pow(length));
        assert!(places > histories * length as usize, "only {places} places for {histories} histories");
    }
}

#[test]
fn two_rows_end_right_however_they_are_cut_and_whatever_crashes() {
    for length in 2..=4 {
        never_wrong(CRASHES, histories(2, &ALL, length));
    }
    for length in 5..=6 {
        never_wrong(CRASHES, histories(2, &[Gone, A], length));
    }
}

#[test]
fn a_backfill_beside_the_stream_does_no_harm() {
    for length in 1..=5 {
        never_wrong(BACKFILL, histories(1, &ALL, length));
    }
}

/// The first of the shortest histories that go wrong under these rules.
fn counter_example(rules: Rules, world: World) -> (Wrong, String) {
    (1..=4)
        .flat_map(|length| histories(1, &ALL, length))
        .find_map(|history| walk(rules, world, &history).err())
        .expect("no history goes wrong")
}

#[test]
fn naive_folding_is_caught() {
    // There and back again around a crash: the fold looks like no change at all.
    let naive = Rules { knows_folded: false, doubts_after_crash: false };
    let (wrong, way) = counter_example(naive, World { counts_cost: false, ..CRASHES });
    assert_eq!(wrong, Wrong::Stale, "{way}");
    assert!(way.contains("crash"), "{way}");
}

#[test]
fn each_half_of_naive_folding_is_caught() {
    let trusting = Rules { doubts_after_crash: false, ..HOST };
    let (wrong, way) = counter_example(trusting, CRASHES);
    assert_eq!(wrong, Wrong::PaidTwice, "{way}");
    assert!(way.contains("crash"), "{way}");

    let (wrong, way) = counter_example(Rules { knows_folded: false, ..HOST }, BACKFILL);
    assert_eq!(wrong, Wrong::Stale, "{way}");
    assert!(way.contains("backfill"), "{way}");
}
