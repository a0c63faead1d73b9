//! What is seen of an interface: link, address, counters, driver.

use control::bridges::PortState;
use std::collections::BTreeMap;
use std::fs;
use vswitch::switch::{InterfaceView, Mac};

/// What the kernel knows of an interface's device.
fn of_kernel(name: &str, file: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?;
    Some(text.trim().to_owned())
}

/// The driver, as `ethtool -i` tells it, where it can be told without asking the device.
fn driver(name: &str) -> Option<String> {
    let link = fs::read_link(format!("/sys/class/net/{name}/device/driver")).ok();
    if let Some(driver) = link.as_deref().and_then(|path| path.file_name()) {
        return Some(driver.to_string_lossy().into_owned());
    }
    of_kernel(name, "tun_flags").map(|_| "tun".to_owned())
}

/// A port as the database shows it.
pub(super) fn view(port: &PortState) -> InterfaceView {
    let device = port.config.attachment.interface();
    let number = |file: &str| device.and_then(|name| of_kernel(name, file))?.parse::<u64>().ok();
    let (counters, kernel) = (&port.counters, &port.kernel);
    let resets = (number("carrier_up_count"), number("carrier_down_count"));
    let speed = match port.view.info.curr_speed_kbps {
        0 => None,
        kbps => Some(u64::from(kbps) * 1000),
    };
    let mut status = BTreeMap::new();
    if let Some(driver) = device.and_then(driver) {
        status.insert("driver_name".to_owned(), driver);
    }
    InterfaceView {
        present: device.is_none_or(|name| of_kernel(name, "ifindex").is_some()),
        up: port.view.link.admin_up,
        carrier: port.view.link.carrier,
        link_resets: resets.0.unwrap_or(0) + resets.1.unwrap_or(0),
        lacp_current: None,
        bfd_status: BTreeMap::new(),
        speed,
        full_duplex: device.and_then(|name| of_kernel(name, "duplex")).map(|word| word != "half"),
        mtu: device.map(|_| port.view.info.mtu),
        mac: Some(Mac(port.view.info.mac)),
        ifindex: Some(number("ifindex").and_then(|index| u32::try_from(index).ok()).unwrap_or(0)),
        statistics: BTreeMap::from([
            ("collisions", kernel.collisions),
            ("rx_bytes", counters.rx_bytes),
            ("rx_crc_err", kernel.rx_crc_errors),
            ("rx_dropped", counters.rx_dropped + kernel.rx_dropped),
            ("rx_errors", kernel.rx_errors),
            ("rx_frame_err", kernel.rx_frame_errors),
            ("rx_over_err", kernel.rx_over_errors),
            ("rx_packets", counters.rx_packets),
            ("tx_bytes", counters.tx_bytes),
            ("tx_dropped", counters.tx_dropped + kernel.tx_dropped),
            ("tx_errors", kernel.tx_errors),
            ("tx_packets", counters.tx_packets),
        ]),
        status,
    }
}
