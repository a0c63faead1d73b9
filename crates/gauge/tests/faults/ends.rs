//! Channels, links and sessions that end too soon leave a report.

use crate::lab::Lab;
use crate::path::Bend;
use crate::path::Cable;
use crate::shim::Lies;
use crate::shim::Which;
use crate::shim::is_echo;
use crate::shim::is_new_rule;
use gauge::Control;
use gauge::Peer;
use gauge::module;
use gauge::module::MODULES;
use gauge::module::Module;
use gauge::report::How;
use openflow::FlowStatsRequest;
use openflow::Message;
use openflow::MultipartReplyBody;
use openflow::MultipartRequestBody;
use openflow::Version;
use std::net::TcpListener;
use std::net::TcpStream;

/// What was measured until the channel closed is told; it is opened again, and what follows is measured.
#[test]
fn a_closed_channel_leaves_a_report() {
    let closes: Option<(Which, u32)> = Some((is_echo, 70));
    let lies = Lies { closes, ..Lies::default() };
    let modules = ["echo", "loss", "packet_out"];
    let (report, left) = Lab::session(Version::V13, lies, &modules, |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::SwitchFailed, 3), "{report}");
    let broke: Vec<bool> = report.modules.iter().map(|m| m.broke.is_some()).collect();
    assert_eq!(broke, [true, false, false], "{report}");
    let found = report.modules.iter().flat_map(|m| &m.runs).flat_map(|r| &r.findings);
    assert_eq!(found.map(|f| f.what).collect::<Vec<_>>(), ["channel_closed"]);
    // The others were asked by a new channel, and nothing of ours is left.
    assert!(report.modules[1..].iter().all(|m| m.runs.len() == 1), "{report}");
    assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0));
    let stored = gauge::Stored::parse(&serde_json::to_string(&report).unwrap()).unwrap();
    assert!(gauge::junit::junit(&stored).contains("<error message=\"broken off\">"));
}

/// Whatever was being asked when it closed: a rule, a barrier, statistics, a packet-out.
#[test]
fn a_channel_that_closes_at_any_message_leaves_a_report() {
    let cases: [(Which, u32, &str); 4] = [
        (is_new_rule, 5, "insertion"),
        (|m| matches!(m, Message::BarrierRequest), 7, "barrier"),
        (|m| matches!(m, Message::MultipartRequest(_)), 20, "polling"),
        (|m| matches!(m, Message::PacketOut(_)), 30, "packet_out"),
    ];
    for (which, n, broken) in cases {
        let lies = Lies { closes: Some((which, n)), ..Lies::default() };
        let (report, left) = Lab::session(Version::V13, lies, &["echo", broken, "loss"], |s| {
            s.sizes = vec![64];
        });
        let verdict = (report.ended.how, report.verdict().status());
        assert_eq!(verdict, (How::SwitchFailed, 3), "{broken} {report}");
        let broke: Vec<bool> = report.modules.iter().map(|m| m.broke.is_some()).collect();
        assert_eq!(broke, [false, true, false], "{broken} {report}");
        let runs = report.modules.iter().flat_map(|m| &m.runs);
        let found: Vec<&str> = runs.flat_map(|r| &r.findings).map(|f| f.what).collect();
        assert_eq!(found, ["channel_closed"], "{broken} {report}");
        assert!(report.modules[2].runs.len() == 1, "{broken}: it goes on {report}");
        assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0), "{broken}");
    }
}

/// A switch that crashes is away for a while; one that says what is none of OpenFlow is as good as gone.
#[test]
fn a_crash_leaves_a_report_and_the_session_goes_on_when_it_is_back() {
    for (crashes, babbles) in [(0, true), (3, false)] {
        let lies = Lies { closes: Some((is_echo, 70)), crashes, babbles, ..Lies::default() };
        let (report, left) = Lab::session(Version::V13, lies, &["echo", "packet_out"], |_| {});
        let verdict = (report.ended.how, report.verdict().status());
        assert_eq!(verdict, (How::SwitchFailed, 3), "{report}");
        let runs = report.modules.iter().flat_map(|m| &m.runs);
        let found: Vec<&str> = runs.flat_map(|r| &r.findings).map(|f| f.what).collect();
        assert_eq!(found, ["channel_closed"], "{report}");
        assert!(report.modules[1].broke.is_none() && report.modules[1].runs.len() == 1, "{report}");
        assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0));
    }
}

/// One that does not come back leaves what was measured before it.
#[test]
fn a_crash_for_good_leaves_what_was_measured() {
    let lies = Lies { closes: Some((is_new_rule, 5)), crashes: 1000, ..Lies::default() };
    let (lab, peer, [input, output], settings) = Lab::start(Version::V13, lies);
    let names = ["echo", "insertion", "loss"];
    let find = |name: &&str| MODULES.iter().find(|m| m.name == *name).unwrap();
    let modules: Vec<&Module> = names.iter().map(find).collect();
    let ports = (input, output);
    let report = gauge::gauge(&peer, &[Version::V13], ports, None, settings, &modules, &mut |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::SwitchFailed, 3), "{report}");
    assert!(report.modules[0].broke.is_none() && report.modules[0].runs.len() == 1, "{report}");
    assert!(report.modules[1].broke.is_some(), "{report}");
    assert!(report.modules[2].skipped.as_deref().unwrap().starts_with("not reached"), "{report}");
    assert!(report.ended.left_behind.is_some(), "rules may still be there: {report}");
    let stored = gauge::Stored::parse(&serde_json::to_string(&report).unwrap()).unwrap();
    assert!(gauge::junit::junit(&stored).contains("<error message=\"cut short\">"));
    // The shim waits for so many.
    (0..1001).for_each(|_| drop(TcpStream::connect(("127.0.0.1", lab.shim_port))));
}

#[test]
fn a_link_of_ours_that_goes_disturbs_and_accuses_nobody() {
    for cable in [Cable::OurInput, Cable::OurOutput] {
        let bends = Some(Bend::Pulled(cable, 1500));
        let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.sizes, settings.attempts) = (vec![64], 1);
        for run in lab.ask(&module::forwarding::MODULE) {
            assert_eq!(run.findings, [], "{cable:?} {run:?}");
            let told = run.disturbed.join("; ");
            assert!(told.contains("the link of one of our ports went down"), "{cable:?} {told}");
        }
        // It is asked again when the link is back, and then nothing is wrong.
        let mut lab = Lab::new(Version::V13, Lies { bends, ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.sizes, settings.attempts) = (vec![64], 4);
        for run in lab.ask(&module::forwarding::MODULE) {
            assert!(run.findings.is_empty() && run.disturbed.is_empty(), "{cable:?} {run:?}");
            assert!(
                run.notes.iter().any(|n| n.contains("the link of one of our ports")),
                "{run:?}"
            );
        }
    }
}

/// What the switch lost while its link was gone it has lost; that it said why is told beside it.
#[test]
fn a_link_of_the_switch_that_goes_is_told() {
    for (version, module) in [
        (Version::V13, &module::forwarding::MODULE),
        (Version::V10, &module::forwarding::MODULE),
        (Version::V15, &module::loss::MODULE),
    ] {
        let bends = Some(Bend::Pulled(Cable::SwitchOutput, 1500));
        let mut lab = Lab::new(version, Lies { bends, ..Lies::default() });
        let settings = &mut lab.bench.as_mut().unwrap().settings;
        (settings.sizes, settings.attempts) = (vec![64], 1);
        for run in lab.ask(module) {
            let found: Vec<&str> = run.findings.iter().map(|f| f.what).collect();
            assert_eq!(found, ["frames_lost"], "{version} {} {run:?}", module.name);
            for word in ["down", "up"] {
                let told = format!("the link of its port 2 is {word}");
                assert!(run.notes.iter().any(|n| n.contains(&told)), "{version} {run:?}");
            }
        }
    }
}

/// Whether a line of progress tells that this begins: a module by its place among others, other work by itself.
fn begins(line: &str, name: &str) -> bool {
    let behind = line.split_once(" of ").and_then(|(_, rest)| rest.split_once(": "));
    behind.map_or(line, |(_, rest)| rest).starts_with(name)
}

/// At whatever it is raised: before anything was asked, at the first module, at the last, in a second round.
#[test]
fn an_interrupt_at_any_time_leaves_a_report_and_no_rules() {
    let cases: [(&str, usize, [usize; 3]); 4] = [
        ("control channel", 0, [0, 0, 0]),
        ("echo", 0, [0, 0, 0]),
        ("forwarding", 0, [1, 1, 0]),
        ("echo", 1, [1, 1, 1]),
    ];
    for (at, round, expected) in cases {
        let interrupt = gauge::Interrupt::default();
        let (raise, mut seen) = (interrupt.clone(), 0);
        let (report, left) = Lab::session_told(
            Version::V13,
            Lies::default(),
            &["echo", "packet_out", "forwarding"],
            |s| (s.sizes, s.repetitions, s.interrupt) = (vec![64], 2, interrupt),
            &mut |line| {
                if begins(line, at) {
                    if seen == round {
                        raise.raise();
                    }
                    seen += 1;
                }
            },
        );
        let verdict = (report.ended.how, report.verdict().status());
        assert_eq!(verdict, (How::Interrupted, 5), "{at} {report}");
        assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0), "{at} {report}");
        let runs: Vec<usize> = report.modules.iter().map(|m| m.runs.len()).collect();
        assert_eq!(runs, expected, "{at} {report}");
    }
}

#[test]
fn an_interrupt_leaves_a_report_and_no_rules() {
    let modules = ["echo", "forwarding", "loss", "statistics"];
    // Raised when the third begins; what it does to traffic on its way is tested beside the code.
    let interrupt = gauge::Interrupt::default();
    let raise = interrupt.clone();
    let (report, left) = Lab::session_told(
        Version::V13,
        Lies::default(),
        &modules,
        |s| (s.sizes, s.interrupt) = (vec![64], interrupt),
        &mut |line| {
            if begins(line, "loss") {
                raise.raise();
            }
        },
    );
    assert_eq!((report.ended.how, report.verdict().status()), (How::Interrupted, 5), "{report}");
    assert_eq!((report.ended.left_behind.as_deref(), left), (None, 0));
    let runs: Vec<usize> = report.modules.iter().map(|m| m.runs.len()).collect();
    assert_eq!(runs, [1, 1, 0, 0], "{report}");
    assert_eq!(report.modules[2].broke.as_deref(), Some("interrupted"));
    assert!(report.modules[3].skipped.as_deref().unwrap().starts_with("not reached: interrupted"));
}

/// Ports that are not wired as was said: nothing can be asked, and nothing stays behind.
#[test]
fn wrong_wires_leave_no_rules() {
    let (lab, peer, [mut input, mut output], settings) = Lab::start(Version::V13, Lies::default());
    let echo = [&module::echo::MODULE];
    (input.number, output.number) = (output.number, input.number);
    let crossed = (input, output);
    let report = gauge::gauge(&peer, &[Version::V13], crossed, None, settings, &echo, &mut |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::NotMeasured, 6), "{report}");
    assert!(report.ended.why.contains("does not lead to our port"), "{report}");
    assert_eq!(report.ended.left_behind, None, "{report}");
    let mut control = Control::open(&Peer::loopback(lab.port), &[Version::V13]).unwrap();
    let body = MultipartRequestBody::Flow(FlowStatsRequest::all());
    let parts = control.multipart("flow statistics", body).unwrap();
    let none = |part| matches!(part, MultipartReplyBody::Flow(entries) if entries.is_empty());
    assert!(parts.into_iter().all(none));
}

#[test]
fn a_switch_that_cannot_be_reached_leaves_a_report() {
    let (lab, _, [input, output], settings) = Lab::start(Version::V13, Lies::default());
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let modules = [&module::echo::MODULE];
    let peer = Peer::loopback(gone);
    let ports = (input, output);
    let report = gauge::gauge(&peer, &[Version::V13], ports, None, settings, &modules, &mut |_| {});
    assert_eq!((report.ended.how, report.verdict().status()), (How::SwitchFailed, 3));
    assert!(
        report.modules[0].skipped.as_deref().unwrap().starts_with("not reached: tcp:127.0.0.1")
    );
    // The shim waits for somebody.
    drop(TcpStream::connect(("127.0.0.1", lab.shim_port)).unwrap());
}
