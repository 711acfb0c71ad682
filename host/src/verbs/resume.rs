//! `resume`: lifts the halt of a table.

use anyhow::Result;
use keyvector_core::port::State;

use super::{port_failure, show};
use crate::exit::say;
use crate::state::{self, Halt};

pub(super) async fn resume(items: &dyn State, table: &str) -> Result<()> {
    let key = state::halt_key(table);
    let halt =
        state::read::<Halt>(items, &key).await.map_err(|error| port_failure("read the halt", error))?;
    let Some(halt) = halt else {
        say!("table {table} is not halted");
        return Ok(());
    };
    items.remove(&key).await.map_err(|error| port_failure("lift the halt", error))?;
    let reason = show::one_line(&halt.reason);
    say!(
        "table {table}, halted on {}, goes on at the next start; it was halted for: {reason}",
        show::moment(halt.at_ms)
    );
    Ok(())
}
