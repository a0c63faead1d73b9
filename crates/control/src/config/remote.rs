//! Where clients of gRPC and HTTP come: P4Runtime, gNMI, metrics.

use super::collector::{OtlpAt, otlp_at};
use super::{File, Options};
use crate::bounds;
use crate::failure::Failure;
use crate::page::{PageAt, Token};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The port of P4Runtime, by IANA.
const P4RUNTIME_PORT: u16 = 9559;
/// The port of gNMI, by IANA.
const GNMI_PORT: u16 = 9339;

/// The port of metrics: one of those that exporters for Prometheus use, 9100 to 9999. It is not registered.
const METRICS_PORT: u16 = 9476;

/// The port of the page, which is not registered either.
const PAGE_PORT: u16 = 9480;

/// Where the page is served and for whom, by `--http` and what belongs to it.
pub fn page_at(
    address_text: Option<&str>,
    token: Option<&Path>,
    reports: Option<PathBuf>,
) -> Result<Option<PageAt>, Failure> {
    let Some(text) = address_text else {
        return match (token, reports) {
            (None, None) => Ok(None),
            _ => Err(Failure::usage("--http-token and --http-reports are of --http: give it, too")),
        };
    };
    let address = address("--http", text, PAGE_PORT)?;
    let token = token.map(Token::read).transpose()?;
    if let Some(folder) = reports.as_ref().filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(Failure::Bad(format!("--http-reports {folder}: a folder was expected")));
    }
    Ok(Some(PageAt { address, token, reports }))
}

/// Where metrics are served, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAt {
    /// There.
    pub address: SocketAddr,
    /// Entries of a bridge that are told one by one: those that are hit most.
    pub entries: usize,
}

/// Where metrics are served and which, by `--metrics` and what belongs to it.
pub fn metrics_at(text: Option<&str>, entries: Option<u64>) -> Result<Option<MetricsAt>, Failure> {
    let Some(text) = text else {
        return match entries {
            None => Ok(None),
            Some(_) => Err(Failure::usage("--metrics-entries is of --metrics: give it, too")),
        };
    };
    let address = address("--metrics", text, METRICS_PORT)?;
    Ok(Some(MetricsAt { address, entries: entries.unwrap_or_default() as usize }))
}

/// What is said of metrics.
pub(super) fn metrics(options: &Options, file: &File) -> Result<Option<MetricsAt>, Failure> {
    metrics_at(
        options.metrics.as_deref().or(file.metrics.as_deref()),
        bounds::METRICS_ENTRIES.pick(options.metrics_entries, file.metrics_entries)?,
    )
}

/// What is said of a collector of OpenTelemetry.
pub(super) fn otlp(options: &Options, file: &File) -> Result<Option<OtlpAt>, Failure> {
    otlp_at(
        options.otlp.as_deref().or(file.otlp.as_deref()),
        bounds::OTLP_SLOW_MS.pick(options.otlp_slow, file.otlp_slow)?,
    )
}

/// The P4Runtime server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct P4Runtime {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The port of packets from and to clients.
    pub(crate) cpu_port: u32,
    /// The switch's id.
    pub(crate) device_id: u64,
}

/// An option's address, with this port if it names none.
fn address(option: &str, text: &str, port: u16) -> Result<SocketAddr, Failure> {
    let alone = || text.parse().ok().map(|ip| SocketAddr::new(ip, port));
    text.parse().ok().or_else(alone).ok_or_else(|| {
        Failure::Usage(format!(
            "{option} {text}: an address and a port were expected, as in 127.0.0.1:{port}"
        ))
    })
}

/// What is said of P4Runtime.
pub(super) fn p4_runtime(options: &Options, file: &File) -> Result<Option<P4Runtime>, Failure> {
    let cpu_port = bounds::CPU_PORT.pick(options.cpu_port, file.cpu_port)?;
    let device_id = bounds::DEVICE_ID.pick(options.device_id, file.device_id)?;
    let Some(text) = options.p4runtime.as_ref().or(file.p4runtime.as_ref()) else {
        return match (cpu_port, device_id) {
            (None, None) => Ok(None),
            _ => Err(Failure::usage("--cpu-port and --device-id are of --p4runtime: give it, too")),
        };
    };
    Ok(Some(P4Runtime {
        address: address("--p4runtime", text, P4RUNTIME_PORT)?,
        cpu_port: cpu_port.map_or(510, |n| n as u32),
        device_id: device_id.unwrap_or(1),
    }))
}

/// Where gNMI is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GnmiAt {
    /// At the address of P4Runtime, if there is one.
    P4Runtime,
    /// At this address, too.
    Address(SocketAddr),
    /// Nowhere.
    Nowhere,
}

/// What is said of gNMI.
pub(super) fn gnmi(options: &Options, file: &File) -> Result<GnmiAt, Failure> {
    Ok(match options.gnmi.as_ref().or(file.gnmi.as_ref()) {
        None => GnmiAt::P4Runtime,
        Some(text) if text == "off" => GnmiAt::Nowhere,
        Some(text) => GnmiAt::Address(address("--gnmi", text, GNMI_PORT)?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Options};
    use super::GnmiAt;
    use crate::failure::Failure;

    fn text(failure: Failure) -> String {
        match failure {
            Failure::Bad(text) | Failure::Usage(text) | Failure::Status(_, text) => text,
        }
    }

    #[test]
    fn p4runtime_has_a_port_a_cpu_port_and_an_id() {
        let of = |address: &str, cpu_port, device_id| {
            let p4runtime = Some(address.to_owned());
            let options = Options { p4runtime, cpu_port, device_id, ..Options::default() };
            Config::new(options).map(|c| c.p4_runtime.unwrap()).map_err(text)
        };
        let told = of("127.0.0.1", None, None).unwrap();
        assert_eq!((told.address.port(), told.cpu_port, told.device_id), (9559, 510, 1));
        let told = of("[::1]:7", Some(64), Some(3)).unwrap();
        assert_eq!((told.address.port(), told.cpu_port, told.device_id), (7, 64, 3));
        assert!(of("here", None, None).unwrap_err().contains("as in 127.0.0.1:9559"));
        let alone = Config::new(Options { cpu_port: Some(1), ..Options::default() });
        assert!(text(alone.unwrap_err()).contains("are of --p4runtime"));
        let flows = Options {
            p4runtime: Some("127.0.0.1".into()),
            flows: vec!["x".into()],
            ..Options::default()
        };
        assert!(text(Config::new(flows).unwrap_err()).contains("--p4runtime takes the place of"));
    }

    #[test]
    fn metrics_have_a_port_and_as_many_entries_as_are_wanted() {
        let of = |metrics: Option<&str>, metrics_entries| {
            let metrics = metrics.map(str::to_owned);
            let options = Options { metrics, metrics_entries, ..Options::default() };
            let told =
                Config::new(options).map(|c| c.metrics.map(|at| (at.address.port(), at.entries)));
            told.map_err(text)
        };
        assert_eq!(of(None, None), Ok(None));
        assert_eq!(of(Some("::1"), None), Ok(Some((9476, 0))));
        assert_eq!(of(Some("127.0.0.1:7"), Some(20)), Ok(Some((7, 20))));
        assert!(of(None, Some(20)).unwrap_err().contains("is of --metrics"));
        assert!(of(Some("here"), None).unwrap_err().contains("as in 127.0.0.1:9476"));
    }

    #[test]
    fn the_page_is_for_this_machine_or_for_who_is_known() {
        let of = |http: Option<&str>, change: fn(&mut Options)| {
            let mut options = Options { http: http.map(str::to_owned), ..Options::default() };
            change(&mut options);
            Config::new(options).map(|c| c.page.map(|at| at.address.to_string())).map_err(text)
        };
        assert_eq!(of(None, |_| {}), Ok(None));
        assert_eq!(of(Some("127.0.0.1"), |_| {}), Ok(Some("127.0.0.1:9480".to_owned())));
        assert!(of(Some("0.0.0.0:80"), |_| {}).unwrap_err().contains("give --http-token FILE"));
        assert!(of(Some("here"), |_| {}).unwrap_err().contains("as in 127.0.0.1:9480"));
        let alone = of(None, |o| o.http_token = Some("/t".into())).unwrap_err();
        assert!(alone.contains("are of --http"), "{alone}");
        let none = of(Some("::1"), |o| o.http_token = Some("/there-is-none".into())).unwrap_err();
        assert!(none.starts_with("--http-token /there-is-none: "), "{none}");
        let none = of(Some("::1"), |o| o.http_reports = Some("/there-is-none".into())).unwrap_err();
        assert!(none.contains("a folder was expected"), "{none}");
        // Certificates say who a client is only if an authority is named.
        let tls = |o: &mut Options| {
            (o.private_key, o.certificate) = (Some("/k".into()), Some("/c".into()));
        };
        assert!(of(Some("10.0.0.1"), tls).is_err());
        let known = |o: &mut Options| {
            (o.private_key, o.certificate) = (Some("/k".into()), Some("/c".into()));
            o.ca_cert = Some("/a".into());
        };
        assert_eq!(of(Some("10.0.0.1"), known), Ok(Some("10.0.0.1:9480".to_owned())));
    }

    #[test]
    fn gnmi_is_served_whatever_programs_the_switch() {
        let of = |gnmi: &str, p4runtime: Option<&str>| {
            let p4runtime = p4runtime.map(str::to_owned);
            let options = Options { gnmi: Some(gnmi.to_owned()), p4runtime, ..Options::default() };
            Config::new(options).map(|c| c.gnmi).map_err(text)
        };
        let at = |text: &str| Ok(GnmiAt::Address(text.parse().unwrap()));
        assert_eq!(of("127.0.0.1", None), at("127.0.0.1:9339"));
        assert_eq!(of("[::1]:7", Some("127.0.0.1")), at("[::1]:7"));
        assert_eq!(of("off", Some("127.0.0.1")), Ok(GnmiAt::Nowhere));
        assert_eq!(Config::new(Options::default()).unwrap().gnmi, GnmiAt::P4Runtime);
        let told = of("localhost", None).unwrap_err();
        assert_eq!(
            told,
            "--gnmi localhost: an address and a port were expected, as in 127.0.0.1:9339"
        );
    }
}
