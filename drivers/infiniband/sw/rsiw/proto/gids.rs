// SPDX-License-Identifier: GPL-2.0

//! The GIDs of a port: which address of the interface has which index in the table.
//!
//! Programs that connect queue pairs by themselves tell each other a GID, and name it by its index.
//! So an address keeps its index for as long as the interface has it, whatever other addresses come
//! and go. Index 0 has the GID that is made of the hardware address: the RDMA CM takes that one,
//! whatever it is.
//!
//! Pure: any context, under the lock that guards the table.
#![forbid(unsafe_code)]

/// A GID, or an IPv6 address, in network order. IPv4 addresses are IPv4-mapped (RFC 4291 section
/// 2.5.5.2).
pub(crate) type Gid = [u8; 16];

/// How many GIDs a port can have.
pub(crate) const MAX_GIDS: usize = 32;

/// What an index without a GID has, as for the core.
pub(crate) const NO_GID: Gid = [0; 16];

/// The GIDs of a port, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GidTable([Gid; MAX_GIDS]);

impl GidTable {
    pub(crate) const EMPTY: Self = Self([NO_GID; MAX_GIDS]);

    /// Returns the GID of an index; [`NO_GID`] if it has none.
    pub(crate) fn get(&self, index: usize) -> Gid {
        self.0.get(index).copied().unwrap_or(NO_GID)
    }

    /// Follows the interface, which has `first` for index 0 and these addresses now. Addresses for
    /// which no index is free are left out. Returns whether the table has changed.
    pub(crate) fn follow(&mut self, first: Gid, addresses: &[Gid]) -> bool {
        let before = *self;
        let [index_0, others @ ..] = &mut self.0;
        *index_0 = first;
        for gid in others.iter_mut() {
            if *gid == first || !addresses.contains(gid) {
                *gid = NO_GID;
            }
        }
        for address in addresses {
            if *address == NO_GID || *address == first || others.contains(address) {
                continue;
            }
            let Some(free) = others.iter_mut().find(|gid| **gid == NO_GID) else {
                break;
            };
            *free = *address;
        }
        *self != before
    }
}
