use crate::bindings::exports::keyvector::plugin::table::{
    Column, Document, Guest, MetadataKey, MetadataType, TableInfo,
};
use crate::{OldVersion, count_call, misbehave, mode, open_as, opened_as};

impl Guest for OldVersion {
    fn describe(config: String) -> Result<TableInfo, String> {
        mode(&config)?;
        let metadata = [
            ("title", MetadataType::Text),
            ("year", MetadataType::Number),
            ("seen", MetadataType::Boolean),
            ("tags", MetadataType::TextList),
            ("scores", MetadataType::NumberList),
        ];
        let key = |(name, value_type): (&str, _)| MetadataKey { name: name.to_owned(), value_type };
        Ok(TableInfo {
            reads: vec!["text".to_owned(), "metadata".to_owned()],
            metadata: metadata.into_iter().map(key).collect(),
        })
    }

    fn open(config: String, columns: Vec<Column>) -> Result<(), String> {
        if let Some(column) = columns.iter().find(|column| column.cql_type != "text") {
            return Err(format!("{} is {} and {:?}", column.name, column.cql_type, column.kind));
        }
        open_as(&config)
    }

    /// The first cell as the text, the second as metadata; `skip` and `refuse` are done.
    fn render(rows: u32, cells: Vec<u8>) -> Vec<Result<Option<Document>, String>> {
        let mode = opened_as();
        let call = count_call();
        let cells = read_cells(&cells);
        let poisoned = cells.iter().step_by(2).any(|cell| cell.as_deref() == Some("poison"));
        misbehave(&mode, poisoned);
        let row = |cells: &[Option<String>]| {
            let text = cells[0].clone().unwrap_or_default();
            match (text.as_str(), mode.as_str()) {
                ("skip", _) => Ok(None),
                ("refuse", _) => Err(text),
                (_, "fickle") => Ok(Some(Document { text: format!("call {call}"), metadata: None })),
                (_, "flood") => Ok(Some(Document { text: "x".repeat(1 << 20), metadata: None })),
                _ => Ok(Some(Document { text, metadata: cells[1].clone() })),
            }
        };
        let missing = usize::from(mode == "missing-row");
        cells.chunks(2).take(rows as usize - missing).map(row).collect()
    }
}

fn read_cells(mut cells: &[u8]) -> Vec<Option<String>> {
    let mut read = Vec::new();
    while let Some((length, rest)) = cells.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (cell, rest) = rest.split_at(length.unwrap_or(0));
        read.push(length.map(|_| String::from_utf8_lossy(cell).into_owned()));
        cells = rest;
    }
    read
}
