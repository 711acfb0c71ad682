use async_trait::async_trait;
use keyvector_core::lease::{Applied, Lease, LeaseWrite};
use keyvector_core::port::{LeaseTable, Result};

use super::MemoryScope;

/// The leases of one scope.
#[derive(Clone)]
pub struct MemoryLeases {
    pub(super) scope: MemoryScope,
}

#[async_trait]
impl LeaseTable for MemoryLeases {
    async fn list(&self) -> Result<Vec<Lease>> {
        let contents = self.scope.lock();
        let scope = contents.scopes.get(&self.scope.name);
        Ok(scope.map(|scope| scope.leases.values().cloned().collect()).unwrap_or_default())
    }

    async fn get(&self, lease_key: &str) -> Result<Option<Lease>> {
        let contents = self.scope.lock();
        Ok(contents.scopes.get(&self.scope.name).and_then(|scope| scope.leases.get(lease_key)).cloned())
    }

    async fn write(&self, write: &LeaseWrite) -> Result<Option<Applied>> {
        let mut contents = self.scope.lock();
        let leases = &mut contents.scopes.entry(self.scope.name.clone()).or_default().leases;
        let applied = write.apply(leases.get(write.lease_key()));
        match &applied {
            Some(Applied::Row(lease)) => drop(leases.insert(lease.lease_key.clone(), lease.clone())),
            Some(Applied::Removed) => drop(leases.remove(write.lease_key())),
            None => {}
        }
        Ok(applied)
    }
}
