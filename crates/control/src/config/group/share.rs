//! Shares: `share=NAME`, and the words behind it.

use super::words::{self, Address};

/// A share: services whose packets one member forwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Share {
    pub(crate) name: String,
    /// Names of services, or of their groups.
    pub(crate) services: Vec<String>,
    /// Addresses that the share's active member has.
    pub(crate) addresses: Vec<Address>,
    /// Members that come first.
    pub(crate) prefer: Vec<String>,
}

impl Share {
    /// What is said of it in the word behind `share=`.
    pub(super) fn named(name: &str) -> Share {
        Share { name: name.to_owned(), ..Share::default() }
    }

    /// Takes a word behind it.
    ///
    /// # Errors
    /// If it is none of a share's.
    pub(super) fn take(&mut self, word: &str, name: &str, value: &str) -> Result<(), String> {
        let names = || value.split(',').map(str::to_owned).collect();
        match name {
            "services" => self.services = names(),
            "prefer" => self.prefer = names(),
            "address" => self.addresses.push(
                words::address(value)
                    .ok_or_else(|| format!("{word}: PORT,IP,MAC[,VLAN] was expected"))?,
            ),
            _ => {
                return Err(format!(
                    "{word}: behind share={} there are services=, address=, prefer= and the next share=; what is the \
                     whole group's comes before the first share=",
                    self.name
                ));
            }
        }
        Ok(())
    }
}

/// What shares must have, and no two of them may have.
pub(super) fn check(shares: &[Share]) -> Result<(), String> {
    let mut seen: Vec<&str> = Vec::new();
    for share in shares {
        if share.services.is_empty() {
            return Err(format!("share={}: services= is missing", share.name));
        }
        for service in &share.services {
            if seen.contains(&&**service) {
                return Err(format!("share={}: service {service} is there twice", share.name));
            }
            seen.push(service);
        }
    }
    Ok(())
}
