use std::cell::RefCell;

use crate::bindings::exports::keyvector::plugin::table::{
    Column, Documents, Guest, MetadataKey, MetadataType, RowState, TableInfo,
};
use crate::bindings::keyvector::plugin::log;
use crate::modes::{RUDE, TABLE_MODES};
use crate::{
    MODE, Misbehave, count_call, mode, opened_as, overflow_stack, pack, puppet, spin, take_all_memory,
};

impl Guest for Misbehave {
    fn describe(config: String) -> Result<TableInfo, String> {
        let mode = mode(&config, TABLE_MODES)?;
        let mut reads = vec!["text".to_owned()];
        match mode.as_str() {
            "loop-in-describe" => spin(),
            "refuse-describe" => return Err("no such thing as a table".to_owned()),
            "flood-describe" => reads.push("x".repeat(10 << 20)),
            "metadata" => reads.push("metadata".to_owned()),
            "twin-reads" => reads.push("text".to_owned()),
            "rude-describe" => return Err(RUDE.to_owned()),
            "rude-reads" => reads.push(RUDE.to_owned()),
            _ => {}
        }
        if let Some(metadata) = own_keys(&mode) {
            return Ok(TableInfo { reads, metadata });
        }
        let metadata = [
            ("title", MetadataType::Text),
            ("year", MetadataType::Number),
            ("seen", MetadataType::Boolean),
            ("tags", MetadataType::TextList),
            ("scores", MetadataType::NumberList),
        ];
        let metadata = metadata
            .into_iter()
            .map(|(name, value_type)| MetadataKey {
                name: name.to_owned(),
                value_type,
                filterable: name != "title",
            })
            .collect();
        Ok(TableInfo { reads, metadata })
    }

    fn open(config: String, columns: Vec<Column>) -> Result<(), String> {
        let mode = mode(&config, TABLE_MODES)?;
        match mode.as_str() {
            "loop-in-open" => spin(),
            "rude-open" => return Err(RUDE.to_owned()),
            "refuse-open" => return Err(format!("{} is {}", columns[0].name, columns[0].cql_type)),
            _ => {}
        }
        MODE.set(mode);
        Ok(())
    }

    fn render(rows: u32, cells: Vec<u8>) -> Documents {
        let mode = opened_as();
        let call = count_call();
        let rows = rows as usize;
        let cells = read_cells(&cells);
        let columns = cells.len() / rows;
        let texts: Vec<&[u8]> = cells.iter().step_by(columns).map(|cell| cell.unwrap_or_default()).collect();
        let poisoned = texts.contains(&b"poison".as_slice());
        let echo = echo(&texts);
        match mode.as_str() {
            "echo" => echo,
            "metadata" => {
                let metadata: Vec<_> =
                    cells.iter().skip(1).step_by(2).map(|cell| cell.unwrap_or_default()).collect();
                Documents { metadata: pack(&metadata), ..echo }
            }
            "puppet" | "many-keys" => puppet::answer(texts[0]),
            "one-by-one" => one_by_one(&texts),
            "panic" => {
                log::write(log::Level::Error, "about to panic");
                panic!("on purpose")
            }
            "stack-overflow" => {
                std::hint::black_box(overflow_stack(0));
                echo
            }
            "trap-on-poison" if poisoned => panic!("poison"),
            "trap-every-second-call" if call.is_multiple_of(2) => panic!("second call"),
            "loop" => spin(),
            "loop-on-poison" if poisoned => spin(),
            "memory-bomb" => take_all_memory(),
            "memory-bomb-on-poison" if poisoned => take_all_memory(),
            "leak" => {
                std::mem::forget(std::hint::black_box(vec![1_u8; 4 << 20]));
                echo
            }
            "slow-leak" => {
                std::mem::forget(std::hint::black_box(vec![1_u8; 500 * rows]));
                echo
            }
            "flood" => Documents { texts: pack(&vec![vec![b'x'; 1 << 20]; rows]), ..echo },
            "chatty" => {
                let line = "é".repeat(10_000);
                for _ in 0..1000 {
                    log::write(log::Level::Info, &line);
                }
                log::write(log::Level::Error, "enough");
                echo
            }
            "long-line" => {
                log::write(log::Level::Info, &"x".repeat(30 << 20));
                echo
            }
            "rude-log" => {
                for level in [log::Level::Debug, log::Level::Info, log::Level::Warn, log::Level::Error] {
                    log::write(level, RUDE);
                }
                if poisoned { panic!("what it logged as an error goes into the reason") } else { echo }
            }
            "carry-over" => {
                let last = texts.last().copied().unwrap_or_default().to_vec();
                let carried = CARRIED.replace(last);
                Documents {
                    texts: pack(&texts.iter().map(|text| [&carried, *text].concat()).collect::<Vec<_>>()),
                    ..echo
                }
            }
            "count-rows" => Documents { texts: pack(&vec![format!("one of {rows}"); rows]), ..echo },
            "fickle" => Documents { texts: pack(&vec![format!("call {call}"); rows]), ..echo },
            "wrong-counts" => {
                let mut states = echo.states;
                states.push(RowState::Skipped);
                Documents { states, ..echo }
            }
            "missing-metadata" => Documents { metadata: pack::<&[u8]>(&[]), ..echo },
            "falling-ends" => {
                let mut texts = echo.texts;
                texts.ends.reverse();
                Documents { texts, ..echo }
            }
            "long-data" => {
                let mut texts = echo.texts;
                texts.data.push(b'!');
                Documents { texts, ..echo }
            }
            "invalid-utf8" => {
                let texts: Vec<_> = texts
                    .iter()
                    .map(|&text| if text == b"poison" { b"\xff\xfe".as_slice() } else { text })
                    .collect();
                Documents { texts: pack(&texts), ..echo }
            }
            _ => echo,
        }
    }
}

thread_local! {
    /// The last row of the batch before, in mode `carry-over`.
    static CARRIED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the modes declare that are about declarations.
fn own_keys(mode: &str) -> Option<Vec<MetadataKey>> {
    let key = |name: &str, filterable| MetadataKey {
        name: name.to_owned(),
        value_type: MetadataType::Number,
        filterable,
    };
    let numbered = |count, filterable| (0..count).map(move |n| key(&format!("k{n}"), filterable)).collect();
    match mode {
        "many-keys" => Some(numbered(48, true)),
        "hidden-keys" => Some(numbered(10, false)),
        "forged-key" => Some(vec![key("_fingerprint", true)]),
        "twin-keys" => Some(vec![key("a", true), key("a", true)]),
        "rude-key" => Some(vec![key(RUDE, true)]),
        _ => None,
    }
}

/// Each row does something else, by its text. All other modes have one fault; a table has rows of every kind.
fn one_by_one(texts: &[&[u8]]) -> Documents {
    let mut documents = echo(texts);
    let (mut answers, mut metadata) = (Vec::new(), Vec::new());
    for (row, &text) in texts.iter().enumerate() {
        let (answer, object): (&[u8], &[u8]) = match text {
            b"panic" => {
                log::write(log::Level::Error, RUDE);
                panic!("on purpose")
            }
            b"spin" => spin(),
            b"bomb" => take_all_memory(),
            b"overflow" => {
                std::hint::black_box(overflow_stack(0));
                (text, b"")
            }
            b"rude" => {
                documents.states[row] = RowState::Failed;
                (RUDE.as_bytes(), b"")
            }
            b"rude document" => (RUDE.as_bytes(), b"{\"title\":\"\\u001b[31m\\u009b2J\\u202e\"}"),
            b"not utf-8" => (b"\xff\xfe", b""),
            b"forged" => (text, b"{\"_fingerprint\":\"1\"}"),
            b"broken metadata" => (text, b"{\"year\":"),
            _ => (text, b""),
        };
        answers.push(answer);
        metadata.push(object);
    }
    Documents { texts: pack(&answers), metadata: pack(&metadata), ..documents }
}

/// Each row's first cell as its text; `skip` and `refuse` are done.
fn echo(texts: &[&[u8]]) -> Documents {
    let states = texts
        .iter()
        .map(|&text| match text {
            b"skip" => RowState::Skipped,
            b"refuse" => RowState::Failed,
            _ => RowState::Document,
        })
        .collect();
    Documents { states, texts: pack(texts), metadata: pack(&vec![b""; texts.len()]) }
}

fn read_cells(mut cells: &[u8]) -> Vec<Option<&[u8]>> {
    let mut read = Vec::new();
    while let Some((length, rest)) = cells.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (cell, rest) = rest.split_at(length.unwrap_or(0));
        read.push(length.map(|_| cell));
        cells = rest;
    }
    read
}
