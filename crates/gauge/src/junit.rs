//! A report as JUnit XML, for whoever guards a release by it.
//!
//! A module is a test suite and a run a test case of it. A finding is a failure; a run that stayed
//! disturbed is an error, as nothing is known of it, and so is a module that broke; each broken threshold is a failed case of a suite
//! of its own.
//!
//! Checked by: the test below.

use crate::plot::escape;
use crate::report::How;
use crate::stored::Stored;
use std::fmt::Write;

/// The document.
pub fn junit(report: &Stored) -> String {
    let mut suites = String::new();
    let (mut tests, mut failures, mut errors) = (0, 0, 0);
    for module in &report.modules {
        let failed = module.runs.iter().filter(|r| !r.findings.is_empty()).count();
        let disturbed =
            module.runs.iter().filter(|r| r.findings.is_empty() && !r.disturbed.is_empty()).count();
        let (broke, skipped) = (module.broke.iter().count(), module.skipped.iter().count());
        let (cases, wrong) = (module.runs.len() + broke + skipped, disturbed + broke);
        (tests, failures, errors) = (tests + cases, failures + failed, errors + wrong);
        let name = escape(&module.module);
        let _ = writeln!(
            suites,
            "  <testsuite name=\"{name}\" tests=\"{cases}\" failures=\"{failed}\" errors=\"{wrong}\" \
             skipped=\"{skipped}\">"
        );
        for (what, text) in module
            .broke
            .iter()
            .map(|t| ("error", t))
            .chain(module.skipped.iter().map(|t| ("skipped", t)))
        {
            let (text, said) =
                (escape(text), if what == "error" { "broken off" } else { "skipped" });
            let _ = writeln!(
                suites,
                "    <testcase classname=\"{name}\" name=\"the module\"><{what} message=\"{said}\">{text}</{what}></testcase>"
            );
        }
        for run in &module.runs {
            let label = escape(&run.name());
            let _ = writeln!(suites, "    <testcase classname=\"{name}\" name=\"{label}\">");
            let texts: Vec<String> =
                run.findings.iter().map(|f| format!("{}: {}", f.what, f.text)).collect();
            if let Some(first) = run.findings.first() {
                let (what, text) = (escape(&first.what), escape(&texts.join("\n")));
                let _ = writeln!(suites, "      <failure message=\"{what}\">{text}</failure>");
            } else if !run.disturbed.is_empty() {
                let text = escape(&run.disturbed.join("\n"));
                let _ = writeln!(suites, "      <error message=\"disturbed\">{text}</error>");
            }
            suites.push_str("    </testcase>\n");
        }
        suites.push_str("  </testsuite>\n");
    }
    let calibration = &report.calibration.disturbed;
    if !calibration.is_empty() {
        (tests, errors) = (tests + 1, errors + 1);
        let text = escape(&calibration.join("\n"));
        let _ = writeln!(
            suites,
            "  <testsuite name=\"calibration\" tests=\"1\" failures=\"0\" errors=\"1\">\n    <testcase \
             classname=\"calibration\" name=\"floor\"><error message=\"disturbed\">{text}</error></testcase>\n  \
             </testsuite>"
        );
    }
    if report.ended.how != How::Complete {
        (tests, errors) = (tests + 1, errors + 1);
        let text = escape(&report.ended.why);
        let _ = writeln!(
            suites,
            "  <testsuite name=\"session\" tests=\"1\" failures=\"0\" errors=\"1\">\n    <testcase \
             classname=\"session\" name=\"to its end\"><error message=\"cut short\">{text}</error></testcase>\n  \
             </testsuite>"
        );
    }
    if !report.broken_thresholds.is_empty() {
        let n = report.broken_thresholds.len();
        (tests, failures) = (tests + n, failures + n);
        let _ = writeln!(
            suites,
            "  <testsuite name=\"thresholds\" tests=\"{n}\" failures=\"{n}\" errors=\"0\">"
        );
        for broken in &report.broken_thresholds {
            let text = escape(broken);
            let _ = writeln!(
                suites,
                "    <testcase classname=\"thresholds\" name=\"{text}\"><failure message=\"broken\">\
                 {text}</failure></testcase>"
            );
        }
        suites.push_str("  </testsuite>\n");
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"millrace gauge: {}\" \
         tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">\n{suites}</testsuites>\n",
        escape(&report.switch.name())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::stored;

    #[test]
    fn findings_fail_and_disturbed_runs_are_errors() {
        let mut report = stored("a \"b\" & c", 20);
        report.modules[1].runs[0].disturbed.push("the sender was late".into());
        let broken = {
            let mut report = report.clone();
            report.modules[1].broke = Some("the switch closed the control channel".into());
            report.ended = crate::report::Ended {
                how: How::SwitchFailed,
                why: "gone".into(),
                left_behind: None,
            };
            report.calibration.disturbed.push("60 of 100 probes".into());
            junit(&report)
        };
        assert!(broken.contains("tests=\"8\" failures=\"2\" errors=\"4\""), "{broken}");
        assert!(broken.contains("<error message=\"broken off\">the switch closed"), "{broken}");
        assert!(broken.contains("<error message=\"cut short\">gone</error>"), "{broken}");
        let xml = junit(&report);
        assert!(xml.contains(
            "<testsuites name=\"millrace gauge: a &quot;b&quot; &amp; c\" tests=\"5\" failures=\"2\" \
             errors=\"1\">"
        ));
        assert!(
            xml.contains("<testsuite name=\"forwarding\" tests=\"2\" failures=\"1\" errors=\"0\"")
        );
        assert!(xml.contains("<failure message=\"frames_lost\">frames_lost: 3 of &lt;10&gt;"));
        assert!(xml.contains("<error message=\"disturbed\">the sender was late</error>"));
        assert!(xml.contains("<testsuite name=\"thresholds\" tests=\"1\" failures=\"1\""));
        for word in ["testsuites", "testsuite", "testcase", "failure", "error"] {
            let open = xml.matches(&format!("<{word} ")).count();
            assert_eq!(open, xml.matches(&format!("</{word}>")).count(), "{word}");
        }
    }
}
