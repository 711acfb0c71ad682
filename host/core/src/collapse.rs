//! All changes of one row in a batch, folded into one.

use crate::change::{Before, Change, Origin, SequenceNumber};
use crate::key::RowKey;
use crate::row::Row;

/// What a batch did to one row: its state before the first change and after the last.
#[derive(Clone, Debug, PartialEq)]
pub struct NetChange {
    pub key: RowKey,
    /// Of the last change.
    pub sequence_number: SequenceNumber,
    /// When the last change was made, milliseconds since 1970.
    pub created_at_ms: Option<i64>,
    pub before: Before,
    /// `None`: the row is gone.
    pub after: Option<Row>,
    /// Where the last change stood among the changes that were collapsed.
    pub position: usize,
    /// How many changes were folded, at least 1. Above 1 the index may hold a state from their middle, left by a crash
    /// or by a batch that was cut elsewhere.
    pub changes: u32,
    /// Whether any of them was made in another Region, whose host may have done the work already.
    pub replicated: bool,
}

/// Folds the changes of one shard, given in the shard's order, to one a row. The result is in the order of each row's
/// last change.
pub fn collapse(changes: Vec<Change>) -> Vec<NetChange> {
    let mut by_key: Vec<(usize, Change)> = changes.into_iter().enumerate().collect();
    // Stable: changes of one row stay in the shard's order.
    by_key.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));

    let mut net: Vec<NetChange> = Vec::with_capacity(by_key.len());
    for (position, change) in by_key {
        let replicated = change.origin == Origin::Replication;
        match net.last_mut() {
            Some(folded) if folded.key == change.key => {
                folded.position = position;
                folded.sequence_number = change.sequence_number;
                folded.created_at_ms = change.created_at_ms;
                folded.after = change.after;
                folded.changes += 1;
                folded.replicated |= replicated;
            }
            _ => net.push(NetChange {
                key: change.key,
                sequence_number: change.sequence_number,
                created_at_ms: change.created_at_ms,
                before: change.before,
                after: change.after,
                position,
                changes: 1,
                replicated,
            }),
        }
    }
    net.sort_by_key(|change| change.position);
    net
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Cell;

    fn row(text: &str) -> Row {
        Row::new([Cell::Bytes(text.as_bytes())])
    }

    fn change(key: &str, number: u64, before: Before, after: Option<Row>) -> Change {
        Change {
            key: RowKey::from_stored(key),
            sequence_number: number.into(),
            created_at_ms: None,
            origin: Origin::User,
            before,
            after,
        }
    }

    #[test]
    fn insert_then_delete_is_a_row_gone() {
        let net = collapse(vec![
            change("m1", 1, Before::Absent, Some(row("A"))),
            change("m1", 2, Before::Row(row("A")), None),
        ]);
        assert_eq!(net.len(), 1);
        assert_eq!((net[0].after.as_ref(), net[0].changes, &net[0].before), (None, 2, &Before::Absent));
    }

    #[test]
    fn insert_delete_insert_keeps_the_last() {
        let net = collapse(vec![
            change("m1", 1, Before::Absent, Some(row("A"))),
            change("m1", 2, Before::Row(row("A")), None),
            change("m1", 3, Before::Absent, Some(row("C"))),
        ]);
        assert_eq!(net[0].after, Some(row("C")));
        assert_eq!(net[0].sequence_number, 3.into());
    }

    #[test]
    fn rows_come_in_the_order_of_their_last_change() {
        let net = collapse(vec![
            change("b", 1, Before::Absent, Some(row("1"))),
            change("a", 2, Before::Absent, Some(row("2"))),
            change("b", 3, Before::Row(row("1")), Some(row("3"))),
        ]);
        let keys: Vec<_> = net.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
    }
}
