use async_trait::async_trait;
use keyvector_core::lease::{Checkpoint, Fenced, Lease, Tenure};
use keyvector_core::port::{LeaseTable, Result};

use super::MemoryScope;

/// The leases of one scope.
#[derive(Clone)]
pub struct MemoryLeases {
    pub(super) scope: MemoryScope,
}

pub(super) struct Row {
    lease: Lease,
    taken_at: Option<u64>,
}

impl Row {
    pub(super) fn holds(&self, tenure: &Tenure) -> bool {
        self.taken_at == Some(tenure.taken_at) && self.lease.lease_owner.as_ref() == Some(&tenure.lease_owner)
    }
}

impl MemoryLeases {
    /// Runs `write` on the lease if there is one.
    fn with<T>(&self, lease_key: &str, write: impl FnOnce(&mut Row) -> Option<T>) -> Option<T> {
        self.scope.lock().scopes.get_mut(&self.scope.name)?.leases.get_mut(lease_key).and_then(write)
    }
}

#[async_trait]
impl LeaseTable for MemoryLeases {
    async fn list(&self) -> Result<Vec<Lease>> {
        let contents = self.scope.lock();
        let scope = contents.scopes.get(&self.scope.name);
        Ok(scope
            .map(|scope| scope.leases.values().map(|row| row.lease.clone()).collect())
            .unwrap_or_default())
    }

    async fn create(
        &self,
        lease_key: &str,
        parent_shard_ids: &[String],
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        let mut contents = self.scope.lock();
        let scope = contents.scopes.entry(self.scope.name.clone()).or_default();
        scope.leases.entry(lease_key.to_owned()).or_insert_with(|| Row {
            lease: Lease {
                lease_key: lease_key.to_owned(),
                lease_owner: None,
                lease_counter: 0,
                checkpoint: checkpoint.clone(),
                parent_shard_ids: parent_shard_ids.to_vec(),
            },
            taken_at: None,
        });
        Ok(())
    }

    async fn take(&self, seen: &Lease, owner: &str) -> Result<Option<Tenure>> {
        Ok(self.with(&seen.lease_key, |row| {
            let lease = &mut row.lease;
            if lease.lease_owner != seen.lease_owner || lease.lease_counter != seen.lease_counter {
                return None;
            }
            lease.lease_owner = Some(owner.to_owned());
            lease.lease_counter += 1;
            row.taken_at = Some(lease.lease_counter);
            Some(Tenure {
                lease_key: lease.lease_key.clone(),
                lease_owner: owner.to_owned(),
                taken_at: lease.lease_counter,
            })
        }))
    }

    async fn renew(
        &self,
        tenure: &Tenure,
        counter: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<u64>> {
        Ok(self.with(&tenure.lease_key, |row| {
            if !row.holds(tenure) || row.lease.lease_counter != counter {
                return None;
            }
            row.lease.lease_counter += 1;
            if let Some(checkpoint) = checkpoint {
                row.lease.checkpoint = checkpoint.clone();
            }
            Some(row.lease.lease_counter)
        }))
    }

    async fn release(&self, tenure: &Tenure, checkpoint: Option<&Checkpoint>) -> Result<Fenced> {
        let released = self.with(&tenure.lease_key, |row| {
            if !row.holds(tenure) {
                return None;
            }
            row.lease.lease_owner = None;
            row.lease.lease_counter += 1;
            row.taken_at = None;
            if let Some(checkpoint) = checkpoint {
                row.lease.checkpoint = checkpoint.clone();
            }
            Some(())
        });
        Ok(if released.is_some() { Fenced::Written } else { Fenced::Lost })
    }
}
