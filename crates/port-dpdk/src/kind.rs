//! The kind `dpdk`.

use crate::{BUILT_IN, MBUFS, Options, database, eal, open};
use port::doctor::Finding;
use port::kind::{Attached, Attachment, Environment, Kind, TakeOver};
use port::spec::words::required;
use port::{Error, Port};
use std::fmt;
use std::path::{Path, PathBuf};

/// `dpdk:DEVARGS`
pub static KIND: Kind = Kind {
    form: "dpdk:DEVARGS",
    about: "a device that DPDK drives",
    use_for: "the highest rates; vhost-user, memif",
    diagnose: Some(|_| diagnose()),
    database: if BUILT_IN { database::ALL } else { &[] },
    capabilities: &[
        "CAP_DAC_OVERRIDE",
        "CAP_IPC_LOCK",
        "CAP_NET_ADMIN",
        "CAP_NET_RAW",
        "CAP_SYS_ADMIN",
        "CAP_SYS_NICE",
        "CAP_SYS_RAWIO",
    ],
    folders: &["/run", "/var/run", "/tmp", "/mnt/huge"],
    ..Kind::plain("dpdk", |text, at| {
        Ok(Attached::new(Device(required(text, at, "the device", "dpdk:DEVARGS")?)))
    })
};

/// The device of these devargs, which DPDK reads.
struct Device(String);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dpdk:{}", self.0)
    }
}

impl Attachment for Device {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        self.0.split(',').next().unwrap_or(&self.0)
    }

    /// Those that its arguments name with their folders: sockets, captures.
    fn files(&self) -> Vec<PathBuf> {
        let values = self.0.split(',').filter_map(|word| word.split_once('='));
        values.filter(|(_, value)| value.starts_with('/')).map(|(_, file)| file.into()).collect()
    }

    /// Opens it with the [`Options`] of the environment.
    fn open(&self, name: &str, environment: &Environment) -> Result<Box<dyn Port>, Error> {
        match environment.get::<Options>() {
            Some(options) => open(name, &self.0, options),
            None => open(name, &self.0, &Options::default()),
        }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        match BUILT_IN {
            true => Ok(()),
            false => open(name, "", &Options::default()).map(drop).map_err(|e| e.to_string()),
        }
    }

    fn take_over(&self) -> TakeOver {
        TakeOver::Exclusive
    }
}

/// Whether a device can be had, by having one; with what is slow about it.
fn diagnose() -> Finding {
    // The least that DPDK starts with, so that nothing big is taken to find out.
    let options = Options { mbufs: 4096, ..Default::default() };
    if let Err(error) = open("doctor", "net_null_doctor,no-rx=1", &options) {
        let mend = match BUILT_IN {
            true => None,
            false => Some(
                "sudo apt-get install libdpdk-dev && cargo build --release --features dpdk"
                    .to_owned(),
            ),
        };
        let detail = error.to_string();
        let detail = detail.strip_prefix("doctor: ").unwrap_or(&detail).to_owned();
        let detail = detail.split("; ").next().unwrap_or(&detail).to_owned();
        return Finding::bad(detail, mend);
    }
    let wanted = eal::wanted_mib(MBUFS);
    let free = eal::Machine::read().huge_mib;
    let mut detail = "opened a device".to_owned();
    if free < wanted {
        detail.push_str(&format!(
            "; {free} MiB of huge pages are free and {wanted} are wanted: without them it works, \
             slower; sudo sysctl vm.nr_hugepages={} gives them",
            wanted.div_ceil(2)
        ));
    }
    if !Path::new("/sys/bus/pci/drivers/vfio-pci").exists() {
        detail.push_str(
            "; network cards of most kinds need the kernel's vfio-pci: sudo modprobe vfio-pci, \
             then dpdk-devbind.py --bind=vfio-pci ADDRESS",
        );
    }
    Finding::good(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_where_it_is_built_in() {
        assert_eq!(diagnose().works, BUILT_IN);
    }
}
