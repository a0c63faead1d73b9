//! `simple_switch_CLI`: a switch is known by its Thrift port, which names its control socket here.

use crate::Refused;
use clap::Parser;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The port that bmv2 has by default.
pub const THRIFT_PORT: u16 = 9090;

/// The control socket of a switch with this Thrift port, in the folder of control sockets.
pub fn control_socket(folder: &Path, thrift_port: u16) -> PathBuf {
    folder.join(format!("millrace-bmv2-{thrift_port}.ctl"))
}

/// Work on the tables of a switch that simple_switch_grpc has started
#[derive(Parser, Debug)]
#[command(name = "simple_switch_CLI", version)]
struct Options {
    /// The switch's Thrift port
    #[arg(long, value_name = "N", default_value_t = THRIFT_PORT)]
    thrift_port: u16,
    /// The machine of the switch; none but this one
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    thrift_ip: String,
    /// A program's JSON; the switch tells what it runs
    #[arg(long, value_name = "FILE", hide = true)]
    json: Option<PathBuf>,
}

/// The words of `millrace` for a call, and what is to be told.
pub fn words(call: &[OsString], folder: &Path) -> Result<(Vec<OsString>, Vec<String>), Refused> {
    let options = Options::try_parse_from(call)?;
    if !matches!(&options.thrift_ip[..], "localhost" | "127.0.0.1" | "::1") {
        return Err(Refused::Usage(format!(
            "--thrift-ip {}: only a switch on this machine is reached; call this there",
            options.thrift_ip
        )));
    }
    let told = options.json.iter().map(|path| {
        format!("--json {} has no effect: the switch tells what it runs", path.display())
    });
    let socket = control_socket(folder, options.thrift_port);
    let words = ["millrace", "p4", "shell", "--ctl"].map(OsString::from);
    Ok((words.into_iter().chain([socket.into()]).collect(), told.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_thrift_names_a_socket() {
        let call = |text: &str| {
            let call: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            words(&call, Path::new("/run"))
        };
        let (words, told) = call("simple_switch_CLI --thrift-port 9091 --json a.json").unwrap();
        assert_eq!(words[4], "/run/millrace-bmv2-9091.ctl");
        assert_eq!(told, ["--json a.json has no effect: the switch tells what it runs"]);
        let (words, _) = call("simple_switch_CLI").unwrap();
        assert_eq!(words[4], "/run/millrace-bmv2-9090.ctl");
        let far = call("simple_switch_CLI --thrift-ip 10.0.0.1").unwrap_err().to_string();
        assert!(far.contains("only a switch on this machine"), "{far}");
        assert!(call("simple_switch_CLI --pre SimplePre").is_err());
    }
}
