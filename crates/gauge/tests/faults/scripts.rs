//! What scripts ask and capture.

use crate::lab::Lab;
use crate::shim::Lies;
use gauge::lua::Script;
use gauge::module;
use openflow::Version;
use std::sync::Arc;

#[test]
fn scripts_ask_what_they_like() {
    let mut lab = Lab::new(Version::V13, Lies::default());
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gauge");
    let mut run = |text: &str| {
        let script = Script::read("a script", text)?;
        let bench = lab.bench.as_mut().unwrap();
        script.run(bench, &mut |_| {}).map_err(|e| e.to_string()).map(|mut runs| runs.remove(0))
    };
    for (file, figure, least, latency) in [
        ("barrier_gap", "rules", 20.0, Some("after_reply")),
        ("learning_switch", "flows_learnt", 50.0, Some("until_forwarded")),
        ("counter_steps", "counted", 5000.0, None),
    ] {
        let text = std::fs::read_to_string(format!("{examples}/{file}.lua")).unwrap();
        let run = run(&text).unwrap();
        assert_eq!(run.findings, [], "{file}");
        assert!(run.value(figure).unwrap() >= least, "{file}: {:?}", run.figures);
        if let Some(latency) = latency {
            let (_, summary) = run.latencies.iter().find(|(name, _)| *name == latency).unwrap();
            assert!(summary.count > 0, "{file}");
        }
        assert!(run.value("sent").unwrap() > 0.0);
    }
    let head = "name = 'x' about = 'y' ";
    let mut error = |text: &str| run(&format!("{head}{text}")).unwrap_err();
    assert!(error("function start(t) t:flow('add', 'tpdst=1') end").contains("flow \"tpdst=1\""));
    assert!(error("function start(t) t:flow('drop', '') end").contains("known: add, modify"));
    assert!(error("function traffic() return { speed = 1 } end").contains("unknown key \"speed\""));
    assert!(
        error("function init() local s = 'x' while true do s = s .. s end end").contains("memory")
    );
    assert!(error("function init() return io.open('/etc/passwd') end").contains("'io'"));
    assert!(error("function init() return dofile('/etc/passwd') end").contains("'dofile'"));
    assert!(error("function filter() return true end").contains("expected a table"));
    assert!(
        error("function filter() return { capture = 'port http' } end").contains("at 5: \"http\"")
    );
    assert!(
        error("function filter() return { messages = {'ping'} } end")
            .contains("no messages \"ping\"")
    );
    assert!(error("function filter() return { frames = true } end").contains("expected one of"));
    assert!(Script::read("f", "name = 'x'").unwrap_err().contains("sets no about"));
    assert!(Script::read("f", "name = 'a b' about = ''").unwrap_err().contains("letters, digits"));
    assert!(Script::read("f", "nonsense").is_err());
}

/// A script hears of every frame that its filter passes, with its bytes, and its figures can be bounded.
#[test]
fn scripts_filter_what_they_capture() {
    let mut lab = Lab::new(Version::V13, Lies::default());
    let text = r#"
        name = "tagged" about = "which flows come out with a tag"
        local frames, tags, seen = 0, 0, {}
        function init(t)
            local input, output = t:ports()
            t:flow("add", string.format("priority=1,in_port=%d,ip,actions=output:%d", input, output))
            t:flow("add", string.format(
                "priority=2,in_port=%d,ip,nw_dst=%s,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:%d",
                input, t:address(1), output))
            t:barrier()
        end
        function traffic(t) return { rate = 2000, probes = 3000, flows = 3 } end
        function filter(t) return { capture = "vlan 5 and udp port 9" } end
        function capture(t, p)
            frames = frames + 1
            seen[p.flow] = true
            local _, output = t:ports()
            if p.port == output and p.data:sub(13, 14) == "\x81\x00" and #p.data == 64 then tags = tags + 1 end
        end
        function destroy(t)
            t:figure("frames", frames) t:figure("tags", tags)
            if seen[0] or seen[2] then t:finding("untagged", "a frame passed that the filter keeps out") end
        end
    "#;
    let script = Script::read("tagged.lua", text).unwrap();
    let run = script.run(lab.bench.as_mut().unwrap(), &mut |_| {}).unwrap().remove(0);
    assert_eq!(run.findings, []);
    let frames = run.value("frames").unwrap();
    // The first may be faster than the rules, many where other tests take the processors.
    assert!((1.0..=1000.0).contains(&frames), "{frames}");
    assert_eq!(run.value("tags"), Some(frames));
    assert!(gauge::report::Threshold::parse("tagged.frames=999", &["tagged"]).is_ok());
}

/// What the filter keeps out has not come out; what it passes is written to the file.
#[test]
fn captures_are_filtered_and_recorded() {
    let file = std::env::temp_dir().join(format!("gauge-capture-{}.pcap", std::process::id()));
    let mut lab = Lab::new(Version::V13, Lies::default());
    let record = gauge::Recording::create(&file).unwrap();
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    (settings.probes, settings.sizes) = (500, vec![64]);
    settings.record = Some(record.clone());
    settings.filter = Some(Arc::new(gauge::Filter::parse("udp dst port 9 and len < 100").unwrap()));
    assert_eq!(lab.findings(&module::forwarding::MODULE), [""; 0]);
    let settings = &mut lab.bench.as_mut().unwrap().settings;
    settings.filter = Some(Arc::new(gauge::Filter::parse("vlan").unwrap()));
    assert_eq!(lab.findings(&module::forwarding::MODULE), ["frames_lost"]);
    record.end().unwrap();
    let mut reader = port::pcap::Reader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let (mut frames, mut last) = (0, 0);
    while let Some(found) = reader.next_record().unwrap() {
        assert_eq!(found.data.len(), 60);
        assert!(found.ns >= last);
        (frames, last) = (frames + 1, found.ns);
    }
    // The warm-up, and the run.
    assert_eq!(frames, 1000);
    std::fs::remove_file(&file).unwrap();
}
