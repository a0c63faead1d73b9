//! `simple_switch_grpc`: its options as those of `millrace run`.
//!
//! A call has two parts: options of all of bmv2's switches, then `--` and those of this one. [`told`](Switch::told) says of
//! each option without effect what there is in its place.

use crate::{Refused, shell};
use clap::Parser;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The port that a P4 program cannot send to.
const DROP_PORT: u32 = 511;

/// Run a P4 program as a switch, with P4Runtime
#[derive(Parser, Debug)]
#[command(name = "simple_switch_grpc", version)]
#[command(after_help = "Options of this switch follow after --; see simple_switch_grpc -- --help")]
struct Common {
    /// The program: what p4c-bm2-ss wrote, or a P4 program's text
    #[arg(value_name = "FILE", required_unless_present = "no_p4", conflicts_with = "no_p4")]
    program: Option<PathBuf>,
    /// Start without a program: a client pushes one
    #[arg(long)]
    no_p4: bool,
    /// A port, by number, and its interface
    #[arg(short, long, value_name = "PORT@INTERFACE")]
    interface: Vec<String>,
    /// P4Runtime's id of this switch
    #[arg(long, value_name = "N", default_value_t = 0)]
    device_id: u64,
    /// What simple_switch_CLI knows this switch by
    #[arg(long, value_name = "N", default_value_t = shell::THRIFT_PORT)]
    thrift_port: u16,
    /// Log to standard error, which is what this switch does
    #[arg(long)]
    log_console: bool,
    /// Log more: trace, debug; all others as always
    #[arg(short = 'L', long, value_name = "LEVEL")]
    log_level: Option<String>,
    #[arg(long, hide = true, value_name = "FILE")]
    log_file: Option<PathBuf>,
    #[arg(long, hide = true)]
    log_flush: bool,
    #[arg(long, hide = true, value_name = "N")]
    log_file_max_size: Option<u64>,
    #[arg(long, hide = true, value_name = "N")]
    log_file_max_files: Option<u64>,
    #[arg(long, hide = true, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pcap: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "N")]
    dump_packet_data: Option<u64>,
    #[arg(long, hide = true, value_name = "ADDRESS")]
    nanolog: Option<String>,
    #[arg(long, hide = true, value_name = "ADDRESS")]
    notifications_addr: Option<String>,
    #[arg(long, hide = true)]
    debugger: bool,
    #[arg(long, hide = true, value_name = "ADDRESS")]
    debugger_addr: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    max_port_count: Option<u64>,
    #[arg(last = true, value_name = "OPTION")]
    target: Vec<OsString>,
}

/// Options of simple_switch_grpc behind the --
#[derive(Parser, Debug)]
#[command(name = "simple_switch_grpc --", no_binary_name = true)]
struct Target {
    /// Where P4Runtime is served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9559")]
    grpc_server_addr: String,
    /// Serve TLS
    #[arg(long)]
    grpc_server_ssl: bool,
    /// The certificate of who signs clients' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_cacert: Option<PathBuf>,
    /// The switch's certificate, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,
    /// Clients must show a certificate
    #[arg(long)]
    grpc_server_with_client_auth: bool,
    /// The port of packet-in and packet-out [default: 510]
    #[arg(long, value_name = "N")]
    cpu_port: Option<u32>,
    /// Frames pass the ports by gRPC, there, and by no interfaces
    #[arg(long, value_name = "ADDRESS")]
    dp_grpc_server_addr: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    drop_port: Option<u32>,
    #[arg(long, hide = true)]
    disable_swap: bool,
    #[arg(long, hide = true, value_name = "N")]
    priority_queues: Option<u32>,
    #[arg(long, hide = true, value_name = "N")]
    max_mc_groups: Option<u64>,
    #[arg(long, hide = true, value_name = "N")]
    max_l1_entries: Option<u64>,
    #[arg(long, hide = true, value_name = "N")]
    max_l2_entries: Option<u64>,
}

/// Ports whose frames pass by gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByGrpc {
    /// Where.
    pub address: SocketAddr,
    /// The device that clients name.
    pub device_id: u64,
    /// Numbers, and the names of memory ports.
    pub ports: Vec<(u32, String)>,
}

/// What a call asks for.
#[derive(Debug)]
pub struct Switch {
    /// The words of `millrace`.
    pub words: Vec<OsString>,
    /// Ports that need a data plane's server.
    pub by_grpc: Option<ByGrpc>,
    /// What is to be told of options without effect.
    pub told: Vec<String>,
}

fn port(text: &str) -> Result<(u32, String), Refused> {
    let wrong = || {
        let most = DROP_PORT - 1;
        Refused::Usage(format!("-i {text}: PORT@INTERFACE was expected, PORT from 0 to {most}"))
    };
    let (number, name) = text.split_once('@').ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    match number < DROP_PORT && !name.is_empty() {
        true => Ok((number, name.to_owned())),
        false => Err(wrong()),
    }
}

/// An address with a port; `[::]` and names of this machine, too.
fn address(option: &str, text: &str) -> Result<SocketAddr, Refused> {
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let parsed = named.as_deref().unwrap_or(text).parse();
    parsed.map_err(|_| Refused::Usage(format!("{option} {text}: ADDRESS:PORT was expected")))
}

fn without_effect(common: &Common, target: &Target) -> Vec<String> {
    let frames = "`millrace capture` writes what passes a port";
    let log = "the log goes to standard error";
    let rows: [(&str, bool, &str); 16] = [
        ("--pcap", common.pcap.is_some(), frames),
        ("--dump-packet-data", common.dump_packet_data.is_some(), frames),
        ("--log-file", common.log_file.is_some(), log),
        ("--log-flush", common.log_flush, log),
        ("--log-file-max-size", common.log_file_max_size.is_some(), log),
        ("--log-file-max-files", common.log_file_max_files.is_some(), log),
        ("--nanolog", common.nanolog.is_some(), log),
        (
            "--notifications-addr",
            common.notifications_addr.is_some(),
            "P4Runtime's stream has digests and idle entries",
        ),
        ("--debugger", common.debugger, "`millrace trace` shows a packet's steps"),
        (
            "--debugger-addr",
            common.debugger_addr.is_some(),
            "`millrace trace` shows a packet's steps",
        ),
        ("--max-port-count", common.max_port_count.is_some(), "ports are not counted"),
        ("--disable-swap", target.disable_swap, "clients may push programs"),
        (
            "--priority-queues",
            target.priority_queues.is_some(),
            "`millrace queue` sets a port's queues; `priority` chooses none",
        ),
        ("--max-mc-groups", target.max_mc_groups.is_some(), "multicast groups have fixed bounds"),
        ("--max-l1-entries", target.max_l1_entries.is_some(), "multicast groups have fixed bounds"),
        ("--max-l2-entries", target.max_l2_entries.is_some(), "multicast groups have fixed bounds"),
    ];
    let given = rows.into_iter().filter(|(_, given, _)| *given);
    given.map(|(option, _, instead)| format!("{option} has no effect: {instead}")).collect()
}

/// The options of TLS.
fn tls(target: &Target, words: &mut Vec<OsString>) -> Result<(), Refused> {
    let files = [
        ("--private-key", &target.grpc_server_key),
        ("--certificate", &target.grpc_server_cert),
        ("--ca-cert", &target.grpc_server_cacert),
    ];
    if !target.grpc_server_ssl {
        let given =
            files.iter().any(|(_, file)| file.is_some()) || target.grpc_server_with_client_auth;
        return match given {
            true => Err(Refused::Usage("files of TLS are given without --grpc-server-ssl".into())),
            false => Ok(()),
        };
    }
    if target.grpc_server_key.is_none() || target.grpc_server_cert.is_none() {
        let text = "--grpc-server-ssl needs --grpc-server-key and --grpc-server-cert";
        return Err(Refused::Usage(text.into()));
    }
    if target.grpc_server_cacert.is_some() != target.grpc_server_with_client_auth {
        let text = "--grpc-server-cacert and --grpc-server-with-client-auth go together: with a signer's \
                    certificate every client must show one";
        return Err(Refused::Usage(text.into()));
    }
    for (option, file) in files {
        if let Some(file) = file {
            words.extend([option.into(), file.into()]);
        }
    }
    Ok(())
}

/// What a call asks for; control sockets are in `folder`.
pub fn switch(call: &[OsString], folder: &Path) -> Result<Switch, Refused> {
    let common = Common::try_parse_from(call)?;
    let target = Target::try_parse_from(&common.target)?;
    if target.drop_port.is_some_and(|port| port != DROP_PORT) {
        return Err(Refused::Usage(format!("--drop-port: {DROP_PORT} is the only one")));
    }
    let ports = common.interface.iter().map(|text| port(text)).collect::<Result<Vec<_>, _>>()?;
    let mut told = without_effect(&common, &target);
    let mut words: Vec<OsString> = vec!["millrace".into()];
    match common.log_level.as_deref() {
        Some("trace") => words.extend(["-v".into(), "-v".into()]),
        Some("debug") => words.push("-v".into()),
        Some(level @ ("info" | "warn" | "error" | "off")) => {
            told.push(format!("--log-level {level} has no effect: warnings and news are logged"));
        }
        Some(other) => {
            let text = format!("--log-level {other}: trace, debug, info, warn, error or off");
            return Err(Refused::Usage(text));
        }
        None => {}
    }
    words.push("run".into());
    let by_grpc = match &target.dp_grpc_server_addr {
        None => {
            for (number, name) in &ports {
                words.extend(["--port".into(), format!("{name}:{number}=af_packet:{name}").into()]);
            }
            None
        }
        Some(text) => {
            let address = address("--dp-grpc-server-addr", text)?;
            if ports.is_empty() {
                let text =
                    "--dp-grpc-server-addr needs -i PORT@NAME for each port: none comes by itself";
                return Err(Refused::Usage(text.into()));
            }
            for (number, name) in &ports {
                words.extend(["--port".into(), format!("{name}:{number}=memory:{name}").into()]);
            }
            Some(ByGrpc { address, device_id: common.device_id, ports })
        }
    };
    if let Some(program) = &common.program {
        words.extend(["--p4".into(), program.into()]);
    }
    let at = address("--grpc-server-addr", &target.grpc_server_addr)?;
    words.extend(["--p4runtime".into(), at.to_string().into()]);
    // Device 0 means this switch, whatever its id.
    if common.device_id > 0 {
        words.extend(["--device-id".into(), common.device_id.to_string().into()]);
    }
    if let Some(cpu_port) = target.cpu_port {
        words.extend(["--cpu-port".into(), cpu_port.to_string().into()]);
    }
    tls(&target, &mut words)?;
    words.extend(["--ctl".into(), shell::control_socket(folder, common.thrift_port).into()]);
    Ok(Switch { words, by_grpc, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Switch, Refused> {
        let call: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        switch(&call, Path::new("/run"))
    }

    fn words(text: &str) -> (String, Vec<String>) {
        let switch = asked(text).unwrap();
        let words: Vec<&str> = switch.words.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), switch.told)
    }

    fn refused(text: &str) -> String {
        asked(text).unwrap_err().to_string()
    }

    /// The call of the tutorials.
    #[test]
    fn options_of_both_parts_become_ours() {
        let (words, told) = words(
            "simple_switch_grpc -i 1@s1-eth1 -i 2@s1-eth2 --pcap pcaps --nanolog ipc:///x --device-id 0 \
             build/basic.json --log-console --thrift-port 9091 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255",
        );
        assert_eq!(
            words,
            "millrace run --port s1-eth1:1=af_packet:s1-eth1 --port s1-eth2:2=af_packet:s1-eth2 --p4 build/basic.json \
             --p4runtime 0.0.0.0:50051 --cpu-port 255 --ctl /run/millrace-bmv2-9091.ctl"
        );
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("--pcap has no effect: `millrace capture`"), "{told:?}");
    }

    #[test]
    fn a_switch_may_start_without_a_program_and_serve_tls() {
        let (words, told) = words(
            "simple_switch_grpc --no-p4 --device-id 3 -L debug -- --grpc-server-addr localhost:1 --grpc-server-ssl \
             --grpc-server-key k --grpc-server-cert c --grpc-server-cacert a --grpc-server-with-client-auth",
        );
        assert_eq!(
            words,
            "millrace -v run --p4runtime 127.0.0.1:1 --device-id 3 --private-key k --certificate c --ca-cert a --ctl \
             /run/millrace-bmv2-9090.ctl"
        );
        assert_eq!(told, [""; 0]);
    }

    #[test]
    fn ports_may_pass_frames_by_grpc() {
        let switch = asked(
            "simple_switch_grpc --no-p4 --device-id 3 -i 9@nine -- --dp-grpc-server-addr [::1]:7",
        )
        .unwrap();
        let by_grpc = switch.by_grpc.unwrap();
        assert_eq!(by_grpc.ports, [(9, "nine".to_owned())]);
        assert_eq!((by_grpc.device_id, by_grpc.address.port()), (3, 7));
        assert!(switch.words.contains(&"nine:9=memory:nine".into()));
        let none = refused("simple_switch_grpc --no-p4 -- --dp-grpc-server-addr [::1]:7");
        assert!(none.contains("needs -i PORT@NAME"), "{none}");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(refused("simple_switch_grpc").contains("required"));
        assert!(refused("simple_switch_grpc --no-p4 a.json").contains("cannot be used with"));
        assert!(refused("simple_switch_grpc --no-p4 --use-files 1").contains("--use-files"));
        assert!(refused("simple_switch_grpc --no-p4 -- --what").contains("--what"));
        assert!(
            refused("simple_switch_grpc --no-p4 -- --drop-port 5").contains("511 is the only one")
        );
        for wrong in ["1", "x@a", "511@a", "1@"] {
            let text = refused(&format!("simple_switch_grpc --no-p4 -i {wrong}"));
            assert!(text.contains("PORT@INTERFACE was expected, PORT from 0 to 510"), "{text}");
        }
        assert!(
            refused("simple_switch_grpc --no-p4 -- --grpc-server-addr x").contains("ADDRESS:PORT")
        );
        assert!(refused("simple_switch_grpc --no-p4 -L loud").contains("trace, debug, info"));
        let tls = refused("simple_switch_grpc --no-p4 -- --grpc-server-key k");
        assert!(tls.contains("without --grpc-server-ssl"), "{tls}");
        assert!(refused("simple_switch_grpc --no-p4 -- --grpc-server-ssl").contains("needs"));
        let half = "simple_switch_grpc --no-p4 -- --grpc-server-ssl --grpc-server-key k --grpc-server-cert c \
                    --grpc-server-cacert a";
        assert!(refused(half).contains("go together"));
    }

    #[test]
    fn every_option_without_effect_is_told() {
        let (_, told) = words(
            "simple_switch_grpc --no-p4 --pcap --dump-packet-data 9 --log-file f --log-flush --log-file-max-size 1 \
             --log-file-max-files 1 --nanolog x --notifications-addr x --debugger --debugger-addr x --max-port-count 8 \
             -L warn -- --disable-swap --priority-queues 8 --max-mc-groups 1 --max-l1-entries 1 --max-l2-entries 1",
        );
        assert_eq!(told.len(), 17, "{told:#?}");
        assert!(told.iter().all(|line| line.contains(" has no effect: ")), "{told:#?}");
    }
}
