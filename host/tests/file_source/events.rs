//! Random events around a file, and a reader that must not care.

use keyvector_core::change::SequenceNumber;
use keyvector_core::lease::Checkpoint;
use keyvector_host::source::file::FileReader;
use keyvector_host::source::{Batch, ShardReader};
use proptest::prelude::*;
use proptest::sample::Index;

use super::Folder;

/// What happens to the file, and to the reader.
#[derive(Clone, Debug)]
enum Event {
    /// Whole lines: kind (blank, CRLF, plain) and padding in bytes.
    Append(Vec<(u8, u16)>),
    /// Part of a line; the next event that writes to the file ends it.
    Tear(u16),
    Rotate {
        leave_empty: bool,
    },
    CopyAndTruncate,
    Read {
        records_max: usize,
        calls: usize,
    },
    /// A call that is dropped while it waits.
    Drop,
    /// The reader is opened again at one of the positions that it gave.
    Reopen(Index),
}

fn event() -> impl Strategy<Value = Event> {
    let padding = prop_oneof![4 => 0..40u16, 1 => 900..1200u16, 1 => 3000..6000u16];
    prop_oneof![
        4 => prop::collection::vec((any::<u8>(), padding), 1..8).prop_map(Event::Append),
        2 => (1..60u16).prop_map(Event::Tear),
        2 => any::<bool>().prop_map(|leave_empty| Event::Rotate { leave_empty }),
        1 => Just(Event::CopyAndTruncate),
        5 => (1..9usize, 1..4usize).prop_map(|(records_max, calls)| Event::Read { records_max, calls }),
        1 => Just(Event::Drop),
        2 => any::<Index>().prop_map(Event::Reopen),
    ]
}

/// The file, and how it should be read.
struct Model {
    folder: Folder,
    /// Every line that is to be read, with its number in its file.
    lines: Vec<(String, u64)>,
    /// Lines in the present file, blank ones counted, an unfinished one not.
    lines_in_file: u64,
    /// The unfinished line, if there is one.
    torn: Option<String>,
    written: usize,
}

impl Model {
    fn append(&mut self, shapes: &[(u8, u16)]) {
        self.end_torn();
        for &(kind, padding) in shapes {
            self.lines_in_file += 1;
            if kind % 8 == 0 {
                self.folder.append(["\n", "\r\n", " \t\n"][usize::from(kind / 8) % 3]);
                continue;
            }
            let line = self.text(padding);
            self.folder.append(format!("{line}{}", if kind % 8 == 1 { "\r\n" } else { "\n" }));
            self.lines.push((line, self.lines_in_file));
        }
    }

    /// No two lines are the same, so that none can stand in for another.
    fn text(&mut self, padding: u16) -> String {
        self.written += 1;
        format!("{{\"line\":{},\"pad\":\"{}\"}}", self.written, "p".repeat(padding.into()))
    }

    fn tear(&mut self, padding: u16) {
        self.end_torn();
        let line = self.text(padding);
        self.folder.append(&line);
        self.torn = Some(line);
    }

    fn end_torn(&mut self) {
        if let Some(line) = self.torn.take() {
            self.folder.append("\n");
            self.lines_in_file += 1;
            self.lines.push((line, self.lines_in_file));
        }
    }

    fn rotate(&mut self, leave_empty: bool) {
        self.folder.rotate();
        self.folder.append("");
        // As long as the new file is empty, a torn line in the old one may still get its end.
        let leave_empty = leave_empty && self.torn.is_none();
        self.leave_file();
        if !leave_empty {
            self.append(&[(3, 5)]);
        }
    }

    fn copy_and_truncate(&mut self) {
        self.append(&[(2, 9), (4, 1)]);
        self.folder.copy_and_truncate();
        self.leave_file();
        self.append(&[(5, 3)]);
    }

    /// A file whose writer has gone on is finished as it is.
    fn leave_file(&mut self) {
        if let Some(line) = self.torn.take() {
            self.lines.push((line, self.lines_in_file + 1));
        }
        self.lines_in_file = 0;
    }
}

/// Plays events, and compares each batch with the model.
struct Play {
    model: Model,
    reader: FileReader,
    /// How many lines the reader has given.
    given: usize,
    /// The sequence numbers of the lines that were ever given.
    numbers: Vec<SequenceNumber>,
    /// Positions that the reader gave, and how many lines it had given by then.
    positions: Vec<(Checkpoint, usize)>,
}

impl Play {
    async fn read(&mut self, records_max: usize) -> Result<bool, TestCaseError> {
        let batch = self.reader.next(records_max).await.unwrap();
        prop_assert!(batch.records.len() <= records_max);
        self.compare(batch)
    }

    fn compare(&mut self, batch: Batch) -> Result<bool, TestCaseError> {
        prop_assert_eq!(&batch.gap, &None);
        for record in &batch.records {
            let read = (String::from_utf8(record.raw.clone()).unwrap(), record.line.unwrap());
            prop_assert_eq!(Some(&read), self.model.lines.get(self.given), "line {}", self.given);
            match self.numbers.get(self.given) {
                Some(earlier) => prop_assert_eq!(earlier, &record.sequence_number, "read again"),
                None => {
                    prop_assert!(self.numbers.last().is_none_or(|last| *last < record.sequence_number));
                    self.numbers.push(record.sequence_number.clone());
                }
            }
            self.given += 1;
        }
        if !batch.records.is_empty() {
            self.positions.push((Checkpoint::parse(batch.position.as_str()), self.given));
        }
        Ok(batch.at_tip)
    }

    async fn read_all(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..1000 {
            let before = self.given;
            if self.read(7).await? && self.given == before {
                prop_assert_eq!(self.given, self.model.lines.len(), "at the tip");
                return Ok(());
            }
        }
        Err(TestCaseError::fail("the tip is never reached"))
    }

    async fn play(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Append(shapes) => self.model.append(&shapes),
            Event::Tear(padding) => self.model.tear(padding),
            Event::Rotate { leave_empty } => self.model.rotate(leave_empty),
            Event::CopyAndTruncate => {
                // A file of which nothing was read cannot be known again once it is truncated.
                self.read_all().await?;
                if self.model.lines_in_file > 0 {
                    self.model.copy_and_truncate();
                }
            }
            Event::Read { records_max, calls } => {
                for _ in 0..calls {
                    self.read(records_max).await?;
                }
            }
            Event::Drop => {
                let done = tokio::select! {
                    biased;
                    batch = self.reader.next(5) => Some(batch.unwrap()),
                    () = std::future::ready(()) => None,
                };
                if let Some(batch) = done {
                    self.compare(batch)?;
                }
            }
            Event::Reopen(index) => {
                if !self.positions.is_empty() {
                    let (position, given) = index.get(&self.positions).clone();
                    self.reopen(&position, given);
                }
            }
        }
        Ok(())
    }

    fn reopen(&mut self, position: &Checkpoint, given: usize) {
        self.reader = self.model.folder.open(position);
        self.given = given;
    }
}

async fn play(events: Vec<Event>) -> Result<(), TestCaseError> {
    let folder = Folder::new("");
    let reader = folder.open(&Checkpoint::TrimHorizon);
    let model = Model { folder, lines: Vec::new(), lines_in_file: 0, torn: None, written: 0 };
    let mut play = Play { model, reader, given: 0, numbers: Vec::new(), positions: Vec::new() };
    for event in events {
        play.play(event).await?;
    }
    play.read_all().await?;
    play.model.end_torn();
    play.read_all().await?;
    // Once more from every position.
    for (position, given) in play.positions.clone() {
        play.reopen(&position, given);
        play.read_all().await?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Whatever happens to the file, and wherever the reader is opened again: every line once, in order, with its
    /// number, and with the same sequence number when it is read again.
    #[test]
    fn every_line_is_read_once_and_in_order(events in prop::collection::vec(event(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(events))?;
    }
}
