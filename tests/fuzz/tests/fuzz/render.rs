//! What a table plugin answers, through the real boundary: the guest `misbehave` in its mode `puppet` answers what its
//! first cell dictates.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Duration;

use keyvector_core::document::{Document, FailureClass, MetadataType, MetadataValue, Rendered};
use keyvector_core::letter::scrub_reason;
use keyvector_core::schema::ColumnKind;
use keyvector_fuzz::input::Input;
use keyvector_fuzz::{Target, stored};
use keyvector_sandbox::{
    ColumnInfo, Engine, EngineConfig, Limits, METADATA_KEYS_MAX, Plugin, TableInfo, TablePlugin, is_blank,
    push_cell,
};
use serde_json::{Map, Value};
use tokio::runtime::Runtime;

use crate::component::built_plugin;

/// The number of rows and whether their frame is broken; for each row its state, text and metadata; how it is broken.
#[rustfmt::skip]
pub(crate) const DOCUMENTS: Target = Target {
    name: "render",
    run: documents,
    samples,
    words: &[
        "{\"title\":\"", "\"year\":", "\"seen\":", "\"tags\":[", "\"scores\":[", "{", "}", "[", "]", ",", ":", "null",
        "true", "9007199254740993", "-9007199254740992", "1e400", "\"_keyvector\":", "\"$and\":", "\\ud800",
        "\\u0000", "\u{200b}", "\u{1b}[2J", "{\"title\":{\"a\":{\"b\":{\"c\":", "[[[[",
    ],
};

const OUTPUT_BYTES_PER_ROW: usize = 300;

struct Host {
    table: TablePlugin,
    runtime: Runtime,
}

static PLUGIN: LazyLock<Plugin> = LazyLock::new(|| {
    let limits = Limits {
        // Nothing here is about time, and the machine may be busy.
        deadline: Duration::from_secs(20),
        output_bytes_per_row: OUTPUT_BYTES_PER_ROW,
        output_factor: 0,
        ..Limits::default()
    };
    let engine = Engine::new(EngineConfig { limits, threads: 1, ..EngineConfig::default() }).unwrap();
    engine.load("misbehave.wasm", &built_plugin("misbehave.wasm")).unwrap()
});

thread_local! {
    static HOST: Cell<Option<Host>> = const { Cell::new(None) };
}

fn open() -> Host {
    let text = ColumnInfo { name: "text".to_owned(), cql_type: "text".to_owned(), kind: ColumnKind::Regular };
    let table = TablePlugin::open(&PLUGIN, "{\"mode\":\"puppet\"}", &[text]).unwrap();
    Host { table, runtime: tokio::runtime::Builder::new_current_thread().build().unwrap() }
}

fn documents(data: &[u8]) {
    // After a finding the plugin is opened anew: its thread may have ended.
    let host = HOST.take().unwrap_or_else(open);
    render(&host, data);
    HOST.set(Some(host));
}

/// What the guest is to answer.
#[derive(Default)]
struct Answer {
    /// 0 document, 1 skipped, 2 failed.
    states: Vec<u8>,
    texts: Packed,
    metadata: Packed,
}

#[derive(Default)]
struct Packed {
    data: Vec<u8>,
    ends: Vec<u32>,
}

impl Packed {
    fn push(&mut self, item: &[u8]) {
        self.data.extend_from_slice(item);
        self.ends.push(self.data.len() as u32);
    }

    /// Whether it holds this many items, each within the data, and nothing else.
    fn is_whole(&self, count: usize) -> bool {
        let last = self.ends.last().map_or(0, |&end| end as usize);
        self.ends.len() == count && self.ends.is_sorted() && last == self.data.len()
    }

    fn item(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.data[start..self.ends[index] as usize]
    }
}

impl Answer {
    fn is_whole(&self, rows: usize) -> bool {
        let bytes = self.texts.data.len() + self.metadata.data.len();
        self.states.len() == rows
            && self.texts.is_whole(rows)
            && self.metadata.is_whole(rows)
            && bytes <= rows * OUTPUT_BYTES_PER_ROW
    }

    /// As the guest reads it.
    fn to_bytes(&self) -> Vec<u8> {
        let part = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
        let mut bytes = part(&self.states);
        for packed in [&self.texts, &self.metadata] {
            bytes.extend(part(&packed.data));
            bytes.extend((packed.ends.len() as u32).to_le_bytes());
            packed.ends.iter().for_each(|end| bytes.extend(end.to_le_bytes()));
        }
        bytes
    }
}

fn render(host: &Host, data: &[u8]) {
    let mut input = Input::new(data);
    let rows = 1 + input.below(5);
    let broken = input.below(8) >= 5;
    let mut answer = Answer::default();
    for _ in 0..rows {
        answer.states.push((input.byte() % 4).min(2));
        answer.texts.push(input.bytes());
        answer.metadata.push(input.bytes());
    }
    if broken {
        break_frame(&mut input, &mut answer);
    }

    let mut cells = Vec::new();
    push_cell(&mut cells, Some(&answer.to_bytes()));
    (1..rows).for_each(|_| push_cell(&mut cells, None));
    let rendered = host.runtime.block_on(host.table.render(rows as u32, cells));
    let rendered = rendered.unwrap_or_else(|broken| panic!("a few rows are no broken plugin: {broken}"));
    assert_eq!(rendered.len(), rows, "one result a row");
    rendered.iter().for_each(check_words);

    if answer.is_whole(rows) {
        for (index, rendered) in rendered.iter().enumerate() {
            check_row(host.table.info(), &answer, index, rendered);
        }
        return;
    }
    // The batch was halved down to its rows. Only the first one's cell dictates anything: alone or with its neighbour it
    // may have got an answer that is whole for as many rows; every other one made the guest panic.
    let answered = (1..rows).find(|&fewer| answer.is_whole(fewer)).unwrap_or(0);
    for (index, rendered) in rendered.iter().enumerate() {
        if index < answered && !matches!(rendered, Rendered::Failed(failure) if failure.attempts > 1) {
            check_row(host.table.info(), &answer, index, rendered);
            continue;
        }
        let Rendered::Failed(failure) = rendered else { panic!("row {index}: {rendered:?}") };
        assert!(failure.attempts > 1, "a broken answer is asked for again: {failure:?}");
        if index > 0 {
            assert_eq!(failure.class, FailureClass::PluginTrapped, "row {index}: {failure:?}");
        }
    }
}

/// Ends, counts and data that do not belong together.
fn break_frame(input: &mut Input<'_>, answer: &mut Answer) {
    for _ in 0..=input.below(3) {
        let packed = if input.flag() { &mut answer.texts } else { &mut answer.metadata };
        let at = input.below(packed.ends.len().max(1));
        let number = u32::from_le_bytes(input.array());
        match input.below(7) {
            0 => drop(answer.states.pop()),
            1 => answer.states.push(1),
            2 => packed.data.push(b'!'),
            3 => drop(packed.ends.pop()),
            4 => packed.ends.push(number),
            _ if packed.ends.is_empty() => packed.data.clear(),
            5 => packed.ends[at] = number,
            _ => packed.ends[at] = packed.ends[at].wrapping_add(number % 8).wrapping_sub(4),
        }
    }
}

/// The row's result is what the boundary says of this answer.
fn check_row(info: &TableInfo, answer: &Answer, index: usize, rendered: &Rendered) {
    let class = match rendered {
        Rendered::Failed(failure) => Some(failure.class),
        _ => None,
    };
    let metadata = answer.metadata.item(index);
    match (answer.states[index], std::str::from_utf8(answer.texts.item(index))) {
        (1, _) => assert_eq!(rendered, &Rendered::Skipped),
        (2, _) => assert_eq!(class, Some(FailureClass::PluginRefused)),
        (_, Err(_)) => assert_eq!(class, Some(FailureClass::PluginOutput)),
        (_, Ok(text)) if is_blank(text) => assert_eq!(rendered, &Rendered::Blank),
        (_, Ok(text)) => match rendered {
            Rendered::Document(document) => check_document(info, text, metadata, document),
            refused => {
                assert_eq!(class, Some(FailureClass::PluginOutput), "{refused:?}");
                assert!(!is_plainly_right(metadata), "{refused:?}");
            }
        },
    }
}

/// The document is the plugin's, and its metadata are what the plugin declared.
fn check_document(info: &TableInfo, text: &str, json: &[u8], document: &Document) {
    assert_eq!(document.text, text);
    let metadata = &document.metadata.0;
    assert!(metadata.len() <= METADATA_KEYS_MAX);
    let given: Map<String, Value> =
        if json.is_empty() { Map::new() } else { serde_json::from_slice(json).expect("an object was read") };
    for (name, value) in metadata {
        let declared = info.metadata.iter().find(|key| *key.name == **name);
        let declared = declared.unwrap_or_else(|| panic!("{name:?} is not declared"));
        let fits = match (declared.value_type, value, &given[&**name]) {
            (MetadataType::Text, MetadataValue::Text(mine), Value::String(given)) => mine == given,
            (MetadataType::Boolean, MetadataValue::Boolean(mine), Value::Bool(given)) => mine == given,
            (MetadataType::Number, MetadataValue::Number(mine), given) => is_same_number(*mine, given),
            (MetadataType::TextList, MetadataValue::TextList(mine), Value::Array(given)) => {
                mine.iter().map(|text| Some(text.as_str())).eq(given.iter().map(Value::as_str))
            }
            (MetadataType::NumberList, MetadataValue::NumberList(mine), Value::Array(given)) => {
                mine.len() == given.len()
                    && mine.iter().zip(given).all(|(mine, given)| is_same_number(*mine, given))
            }
            _ => false,
        };
        assert!(fits, "{name}: {value:?} of {given:?}");
    }
    let kept = |(name, value): (&String, &Value)| value.is_null() != metadata.contains_key(name.as_str());
    assert!(given.iter().all(kept), "{given:?} became {metadata:?}");
}

fn is_same_number(mine: f64, given: &Value) -> bool {
    mine.is_finite() && mine.abs() <= 9_007_199_254_740_992.0 && given.as_f64() == Some(mine)
}

/// Metadata that nobody could refuse: a title and a year at most, each once.
fn is_plainly_right(json: &[u8]) -> bool {
    let Ok(given) = serde_json::from_slice::<Map<String, Value>>(json) else { return json.is_empty() };
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "title" => value.is_string(),
        "year" => value.as_i64().is_some_and(|year| year.abs() < 10_000),
        _ => false,
    };
    // A key that comes twice has a colon more; a title with one in it is left to others.
    let colons = json.iter().filter(|&&byte| byte == b':').count();
    given.iter().all(fits) && colons == given.len()
}

/// Whatever a plugin says can be put into a letter and onto a terminal.
fn check_words(rendered: &Rendered) {
    if let Rendered::Failed(failure) = rendered {
        assert!(!failure.reason.trim().is_empty());
        assert!(failure.reason.len() <= 16 << 10, "{} bytes of reason", failure.reason.len());
        stored::check_reason(&scrub_reason(&failure.reason));
    }
}

fn samples() -> Vec<Vec<u8>> {
    let row = |state: u8, text: &str, metadata: &str| {
        let part = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [vec![state], part(text), part(metadata)].concat()
    };
    let full = r#"{"year":1994,"title":"\u00e9\n","seen":true,"tags":["a","b"],"scores":[1,-2.5e3]}"#;
    let mut samples = vec![
        [vec![0, 0], row(0, "a text", full)].concat(),
        [vec![0, 0], row(0, "a text", r#"{"title":"x","year":-7}"#)].concat(),
        [vec![2, 1], row(0, "one", full), row(1, "", ""), row(2, "year is negative", "")].concat(),
        [vec![1, 0], row(0, " \u{200b}", ""), row(0, "two", r#"{"year":null,"tags":[]}"#)].concat(),
        [vec![0, 0], row(0, "x", r#"{"_keyvector":"x"}"#)].concat(),
        [vec![0, 0], row(0, "x", r#"{"year":1,"year":2}"#)].concat(),
        [vec![0, 0], row(0, "x", r#"{"title":{"a":{"b":{"c":{"d":{}}}}}}"#)].concat(),
    ];
    // Two rows whose frame is broken in each way.
    for how in 0..7 {
        let breaks = vec![0, 1, 1, 9, 0, 0, 0, how];
        samples.push([vec![1, 5], row(0, "one", full), row(0, "two", ""), breaks].concat());
    }
    samples
}
