//! One plugin in four languages: the film table's plugin in Rust, C, JavaScript and Python gives the same of every row.
//!
//! What `cargo xtask examples` could not build for want of a language's tools is listed as skipped.
#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod bugs;
mod c_cells;
mod conformance;
mod rows;

use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

use keyvector_core::document::Rendered;
use keyvector_core::schema::{ColumnKind, TableSchema};
use keyvector_sandbox::{ColumnInfo, Engine, EngineConfig, OpenError, Plugin, TablePlugin};

/// All tests share one engine and a cache of compiled code: compiling takes up to half a minute a plugin.
static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let cache_folder = Some(target.join("compiled-plugins"));
    Engine::new(EngineConfig { threads: 1, cache_folder, ..EngineConfig::default() }).unwrap()
});

/// The plugin of that name, or `None` where it was not built: then the test is listed as skipped.
fn plugin(name: &str) -> Option<Plugin> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist");
    match std::fs::read(folder.join(format!("{name}.wasm"))) {
        Ok(bytes) => Some(ENGINE.load(name, &bytes).unwrap()),
        Err(_) => {
            skip(name);
            None
        }
    }
}

fn skip(name: &str) {
    let line = format!("{name} as a plugin\tcargo xtask examples, which says what it needs\n");
    eprint!("skipped: {line}");
    if let Some(list) = std::env::var_os("KEYVECTOR_SKIPPED") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
        list.write_all(line.as_bytes()).unwrap();
    }
}

/// A table plugin opened on the columns that it reads.
struct Opened {
    table: TablePlugin,
    columns: Vec<ColumnInfo>,
}

fn open(plugin: &Plugin, schema: &TableSchema) -> Result<Opened, OpenError> {
    let info = TablePlugin::describe(plugin, "{}")?;
    let columns: Vec<_> = info
        .reads
        .iter()
        .map(|name| {
            let column = &schema.columns[schema.column_index(name).unwrap()];
            ColumnInfo { name: name.clone(), cql_type: column.cql_type.to_string(), kind: column.kind }
        })
        .collect();
    Ok(Opened { table: TablePlugin::open(plugin, "{}", &columns)?, columns })
}

/// A cell by column; columns left out are null.
type TestRow<'a> = &'a [(&'a str, Vec<u8>)];

impl Opened {
    /// Renders all rows, so many a call.
    fn render(&self, rows: &[TestRow<'_>], batch: usize) -> Vec<Rendered> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let render = |rows: &[TestRow<'_>]| {
            let mut cells = Vec::new();
            for row in rows {
                for column in &self.columns {
                    let cell = row.iter().find(|(name, _)| *name == column.name);
                    keyvector_sandbox::push_cell(&mut cells, cell.map(|(_, bytes)| bytes.as_slice()));
                }
            }
            runtime.block_on(self.table.render(u32::try_from(rows.len()).unwrap(), cells)).unwrap()
        };
        rows.chunks(batch).flat_map(render).collect()
    }
}

fn text_column(name: &str) -> ColumnInfo {
    ColumnInfo { name: name.to_owned(), cql_type: "text".to_owned(), kind: ColumnKind::Regular }
}
