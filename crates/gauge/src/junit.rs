//! A report as JUnit XML, for whoever guards a release by it.
//!
//! A module is a test suite and a run a test case of it. A finding is a failure; a run that stayed
//! disturbed is an error, as nothing is known of it; each broken threshold is a failed case of a suite
//! of its own.
//!
//! Checked by: the test below.

use crate::plot::escape;
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
        (tests, failures, errors) =
            (tests + module.runs.len(), failures + failed, errors + disturbed);
        let name = escape(&module.module);
        let _ = writeln!(
            suites,
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failed}\" errors=\"{disturbed}\">",
            module.runs.len()
        );
        for run in &module.runs {
            let label = escape(&run.label);
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
        let xml = junit(&report);
        assert!(xml.contains(
            "<testsuites name=\"millrace gauge: a &quot;b&quot; &amp; c\" tests=\"5\" failures=\"2\" \
             errors=\"1\">"
        ));
        assert!(
            xml.contains("<testsuite name=\"forwarding\" tests=\"2\" failures=\"1\" errors=\"0\">")
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
