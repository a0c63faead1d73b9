//! The report as one page that needs nothing else: plots, tables, and how far to believe them.
//!
//! In: one report, or several to be laid over each other. Out: HTML with SVG in it; no script, no
//! reference to anything outside. Latencies are drawn as distributions with the calibration's beside
//! them (dashed, grey): what lies left of that, nobody has measured.
//!
//! The figures of the OFLOPS-SUME paper (2018) that a plot stands for are named under it: 6a and 6b are
//! latency over frame size, 7b and 7c insertion by the control plane's and the data plane's word, 8a
//! rules active over time, 8b the order in which they become so.
//!
//! Checked by: the tests below; `lab/gauge` makes a page of a real session.

use crate::figures::short;
use crate::latency::Summary;
use crate::module::{MODULES, Over};
use crate::plot::{Axis, Line, Plot, escape};
use crate::run::WIRE;
use crate::stored::{Run, Stored};
use crate::verdict::Word;
use std::collections::BTreeSet;
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
h2{margin-top:2.5rem;border-bottom:1px solid #ddd}table{border-collapse:collapse;margin:1rem 0}\
th,td{padding:.2rem .7rem;border-bottom:1px solid #e5e5e5;text-align:right}th:first-child,td:first-child\
{text-align:left}svg{width:100%;height:auto;background:#fff;margin:.8rem 0}svg text{font:12px sans-serif;\
fill:#333}svg .title{font-weight:600;font-size:14px}svg .grid{stroke:#e3e3e3}.bad{color:#a11;\
font-weight:600}.good{color:#161;font-weight:600}.note{color:#666;font-size:90%}";

/// The page of these reports; the names tell them apart where there are several.
pub fn page(reports: &[(&str, &Stored)]) -> String {
    let title = match reports {
        [(_, one)] => format!("{}: what it really does", one.switch.name()),
        _ => "Switches side by side".to_owned(),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style></head><body>\n\
         <h1>{0}</h1>\n",
        escape(&title)
    );
    reports.iter().for_each(|(name, report)| head(&mut out, name, report, reports.len() > 1));
    let mut seen = BTreeSet::new();
    let names = reports.iter().flat_map(|(_, r)| &r.modules).map(|m| m.module.as_str());
    for module in names.filter(|name| seen.insert(*name)) {
        section(&mut out, module, reports);
    }
    out.push_str("</body></html>\n");
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}

fn head(out: &mut String, name: &str, report: &Stored, several: bool) {
    let s = &report.switch;
    if several {
        put(out, format_args!("<h2>{}: {}</h2>", escape(name), escape(&s.name())));
    }
    let runs = || report.modules.iter().flat_map(|m| &m.runs);
    let findings = runs().map(|r| r.findings.len()).sum::<usize>();
    let invalid = runs().filter(|r| !r.disturbed.is_empty()).count();
    let class = if report.good { "good" } else { "bad" };
    put(
        out,
        format_args!(
            "<p class=\"{class}\">{} runs, {findings} findings, {invalid} invalid, {} thresholds \
             broken</p>",
            runs().count(),
            report.broken_thresholds.len()
        ),
    );
    index(out, report, several);
    for broken in &report.broken_thresholds {
        put(out, format_args!("<p class=\"bad\">Threshold: {}</p>", escape(broken)));
    }
    if report.ended.how != crate::report::How::Complete {
        put(out, format_args!("<p class=\"bad\">Cut short: {}</p>", escape(&report.ended.why)));
    }
    let c = &report.calibration;
    for reason in &c.disturbed {
        put(
            out,
            format_args!("<p class=\"bad\">The calibration is invalid: {}</p>", escape(reason)),
        );
    }
    put(
        out,
        format_args!(
            "<p class=\"note\">Datapath {} at {}, {}; ports {}. Measured on {} ({} processors, Linux \
             {}) by millrace {}, seed {}, {} probes a second ({}), {} a run.<br>Floor: data {} over \
             {}; control {} over TCP on the loopback. A difference smaller than the spread means \
             nothing.</p>",
            escape(&s.datapath_id),
            escape(&s.peer),
            escape(&s.openflow),
            escape(&s.ports.join(", ")),
            escape(&report.machine.cpu),
            report.machine.cpus,
            escape(&report.machine.kernel),
            escape(&report.version),
            report.settings.seed,
            report.settings.rate_pps,
            escape(&report.settings.arrivals),
            report.settings.probes,
            floor(&c.data),
            escape(&c.data_over),
            floor(&c.control),
        ),
    );
}

/// What each module comes to, with a link to it; then when, where and how all was taken.
fn index(out: &mut String, report: &Stored, several: bool) {
    out.push_str("<table><tr><th>module</th><th>verdict</th><th></th></tr>\n");
    for module in &report.modules {
        let Some(verdict) = module.verdict else { continue };
        let class = match verdict {
            Word::Good => "good",
            Word::NotAsked => "note",
            Word::Wanting | Word::Disturbed | Word::Broken => "bad",
        };
        let name = escape(&module.module);
        // With several reports, sections are shared: a link means the same in each.
        put(
            out,
            format_args!(
                "<tr><td><a href=\"#{name}\">{name}</a></td><td class=\"{class}\">{}</td><td>{}</td></tr>",
                verdict.text(),
                escape(&module.says)
            ),
        );
    }
    out.push_str("</table>\n");
    if !report.taken_at.is_empty() {
        let by = escape(&report.command.join(" "));
        let at = escape(&report.taken_at);
        put(out, format_args!("<p class=\"note\">Taken {at} by <code>{by}</code></p>"));
    }
    let level = if several { "note" } else { "" };
    for text in &report.advice {
        put(out, format_args!("<p class=\"{level}\">{}</p>", escape(text)));
    }
}

fn micros(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

fn floor(summary: &Summary) -> String {
    let p50 = summary.percentile(50.0).map_or_else(|| "-".into(), micros);
    format!("{p50} us (spread {} us)", micros(summary.spread_ns()))
}

/// The valid and invalid runs of a module, each with its report's name and number.
fn runs_of<'a>(
    module: &'a str,
    reports: &'a [(&'a str, &'a Stored)],
) -> impl Iterator<Item = (usize, &'a str, &'a Stored, &'a Run)> {
    reports.iter().enumerate().flat_map(move |(i, (name, report))| {
        let modules = report.modules.iter().filter(move |m| m.module == module);
        modules.flat_map(|m| &m.runs).map(move |run| (i, *name, *report, run))
    })
}

fn section(out: &mut String, module: &str, reports: &[(&str, &Stored)]) {
    let name = escape(module);
    put(out, format_args!("<h2 id=\"{name}\">{name}</h2>"));
    for (who, report) in reports {
        let who = if reports.len() > 1 { format!("{who}: ") } else { String::new() };
        for found in report.modules.iter().filter(|m| m.module == module && !m.says.is_empty()) {
            let word = found.verdict.map_or("", Word::text);
            put(out, format_args!("<p>{}</p>", escape(&format!("{who}{word}: {}", found.says))));
        }
    }
    if let Some(known) = MODULES.iter().find(|m| m.name == module) {
        put(out, format_args!("<p>Asks: {}.</p>", escape(known.about)));
    }
    for (name, report) in reports {
        let who = if reports.len() > 1 { format!("{name}, ") } else { String::new() };
        for reason in report.modules.iter().filter(|m| m.module == module).flat_map(|m| &m.broke) {
            let text = escape(&format!("{who}broken off: {reason}"));
            put(out, format_args!("<p class=\"bad\">{text}</p>"));
        }
        for reason in report.modules.iter().filter(|m| m.module == module).flat_map(|m| &m.skipped)
        {
            let text = escape(&format!("{who}skipped: {reason}"));
            put(out, format_args!("<p class=\"note\">{text}</p>"));
        }
    }
    for (_, name, _, run) in runs_of(module, reports) {
        let who = if reports.len() > 1 { format!("{name}, ") } else { String::new() };
        let label = escape(&format!("{who}{}", run.name()));
        for note in &run.notes {
            put(out, format_args!("<p class=\"note\">{label}: {}</p>", escape(note)));
        }
        for finding in &run.findings {
            let (what, text) = (escape(&finding.what), escape(&finding.text));
            put(out, format_args!("<p class=\"bad\">{label}: {what}: {text}</p>"));
        }
        for reason in &run.disturbed {
            let reason = escape(reason);
            put(
                out,
                format_args!(
                    "<p class=\"bad\">{label}: invalid after {} attempts: {reason}</p>",
                    run.attempts
                ),
            );
        }
    }
    for (plot, note) in plots(module, reports) {
        out.push_str(&plot.svg());
        if !note.is_empty() {
            put(out, format_args!("<p class=\"note\">{}</p>", escape(note)));
        }
    }
    let over = MODULES.iter().find(|m| m.name == module).map_or(&[][..], |m| m.over);
    let several = runs_of(module, reports).count() > 1;
    // Some figures are told only of some ports or switches.
    let told = |over: &Over| {
        runs_of(module, reports)
            .any(|(_, _, _, run)| over.ys.iter().any(|y| run.value(y).is_some()))
    };
    let missing = |over: &&Over| told(over) && lines_over(module, over, reports).is_none();
    for over in over.iter().filter(|over| several && missing(over)) {
        let title = escape(over.title);
        put(
            out,
            format_args!("<p class=\"note\">Not drawn, for want of two valid runs: {title}.</p>"),
        );
    }
    table(out, module, reports);
}

/// What a series of rules in their order has below it.
const ORDER: &str = "rule, in the order in which it was sent";

/// The paper's figure that a series stands for, and what differs.
fn note(module: &str, x: &str) -> &'static str {
    let updates = matches!(module, "insertion" | "modification" | "deletion");
    match x {
        "time since the first flow-mod (us)" if updates => {
            "OFLOPS-SUME, figure 8a: how many rules are as they were asked to be, over time. Rules are looked at in turn: where the last \
             has changed within one turn (resolution_us), the slope is that of the looking; a higher --rate looks more often."
        }
        ORDER if updates => {
            "OFLOPS-SUME, figure 8b: a straight line is a switch that keeps the order. Rules are looked at in turn, so \
             that those that change within one turn (resolution_us) may seem to come a turn later than others; \
             `overtaken` does not count that."
        }
        _ => "",
    }
}

/// The plots of a module, each with a note that may be empty.
fn plots(module: &str, reports: &[(&str, &Stored)]) -> Vec<(Plot, &'static str)> {
    let mut plots = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (_, _, _, run) in runs_of(module, reports) {
        for (name, summary) in &run.latencies {
            if summary.count > 1 && !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    for name in names {
        plots.push((distribution(module, name, reports), ""));
    }
    let declared = MODULES.iter().find(|m| m.name == module).map_or(&[][..], |m| m.over);
    for over in declared {
        if let Some(lines) = lines_over(module, over, reports) {
            let axis = |label: &str, log: bool| Axis { label: label.into(), log };
            let (x, y) = (axis(over.x_label, over.log.0), axis(over.y_label, over.log.1));
            let title = format!("{module}: {}", over.title);
            plots.push((Plot { title, x, y, lines }, over.note));
        }
    }
    for plot in series(module, reports) {
        let note = note(module, &plot.x.label);
        plots.push((plot, note));
    }
    plots
}

/// What a run's line is called.
fn legend(who: &str, run: &Run, reports: &[(&str, &Stored)]) -> String {
    let who = if reports.len() > 1 { format!("{who}: ") } else { String::new() };
    let invalid = if run.disturbed.is_empty() { "" } else { " (invalid)" };
    format!("{who}{}{invalid}", run.name())
}

/// How a latency is distributed in each run, and on the floor.
fn distribution(module: &str, name: &str, reports: &[(&str, &Stored)]) -> Plot {
    let mut lines = Vec::new();
    for (i, who, _, run) in runs_of(module, reports) {
        for (_, summary) in run.latencies.iter().filter(|(n, s)| n == name && s.count > 0) {
            let (label, colour) = (legend(who, run, reports), Some(lines.len()));
            let (points, dashed) = (cumulated(summary), i % 2 == 1);
            lines.push(Line { label, points, colour, dashed, marked: false, joined: true });
        }
    }
    for (i, (who, report)) in reports.iter().enumerate() {
        let mut runs = report.modules.iter().filter(|m| m.module == module).flat_map(|m| &m.runs);
        let Some(run) = runs.next() else { continue };
        let label = match reports.len() {
            1 => "floor (calibration)".to_owned(),
            _ => format!("{who}: floor (calibration)"),
        };
        let points = cumulated(report.floor(run, name));
        // Both are grey.
        let dashed = i % 2 == 0;
        lines.push(Line { label, points, colour: None, dashed, marked: false, joined: true });
    }
    Plot {
        title: format!("{module}: {name}, distribution"),
        x: Axis { label: format!("{name} (us)"), log: true },
        y: Axis { label: "share of samples".into(), log: false },
        lines,
    }
}

/// Microseconds and the share of samples up to them; some hundreds of points at most.
fn cumulated(summary: &Summary) -> Vec<(f64, f64)> {
    const MOST: usize = 400;
    let total = summary.count.max(1) as f64;
    let (mut sum, mut points) = (0u64, vec![(summary.min_ns as f64 / 1000.0, 0.0)]);
    let every = summary.histogram.len().div_ceil(MOST).max(1);
    for (i, (ns, count)) in summary.histogram.iter().enumerate() {
        sum += count;
        if i % every == 0 || i + 1 == summary.histogram.len() {
            points.push((*ns as f64 / 1000.0, sum as f64 / total));
        }
    }
    points
}

/// The latency that a figure is of, if it stands on the calibration's floor: not a rate, nor a difference.
fn on_floor(figure: &str) -> Option<&'static str> {
    ["latency", WIRE].into_iter().find(|latency| {
        let rest = figure.strip_prefix(latency);
        rest.is_some_and(|rest| rest.starts_with("_p") || rest == "_min_us")
    })
}

/// Lines over a figure that two or more runs have; none if fewer do.
fn lines_over(module: &str, over: &Over, reports: &[(&str, &Stored)]) -> Option<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    for (i, who, report, run) in runs_of(module, reports) {
        let Some(x) = run.figure(over.x).filter(|_| run.disturbed.is_empty()) else { continue };
        let mut points: Vec<(String, bool, f64)> = Vec::new();
        for y in over.ys {
            let words = [run.group.as_str(), y].map(str::trim);
            let name = words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(": ");
            points.extend(run.value(y).map(|value| (name, false, value)));
        }
        let latency = over.ys.iter().find_map(|y| on_floor(y));
        if let Some(latency) = latency.filter(|_| !points.is_empty()) {
            let ns = report.floor(run, latency).percentile(50.0);
            points.extend(ns.map(|ns| ("floor, p50".to_owned(), true, ns as f64 / 1000.0)));
        }
        for (name, is_floor, y) in points {
            let label = if reports.len() == 1 { name } else { format!("{who}: {name}") };
            let at = match lines.iter().position(|line| line.label == label) {
                Some(at) => at,
                None => {
                    let colour = (!is_floor).then_some(lines.len());
                    let dashed = is_floor == (i % 2 == 0);
                    lines.push(Line {
                        label,
                        points: Vec::new(),
                        colour,
                        dashed,
                        marked: true,
                        joined: true,
                    });
                    lines.len() - 1
                }
            };
            lines[at].points.push((x, y));
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines.iter().any(|line| line.points.len() > 1).then_some(lines)
}

/// One plot for each name of series, a line for each run.
fn series(module: &str, reports: &[(&str, &Stored)]) -> Vec<Plot> {
    let mut plots: Vec<(String, Plot)> = Vec::new();
    for (i, who, _, run) in runs_of(module, reports) {
        for series in run.series.iter().filter(|s| s.points.len() > 1) {
            let at = match plots.iter().position(|(name, _)| *name == series.name) {
                Some(at) => at,
                None => {
                    let axis = |label: &String| Axis { label: label.clone(), log: false };
                    let (x, y) = (axis(&series.x), axis(&series.y));
                    let title = format!("{module}: {}", series.name);
                    plots.push((series.name.clone(), Plot { title, x, y, lines: Vec::new() }));
                    plots.len() - 1
                }
            };
            let lines = &mut plots[at].1.lines;
            let label = legend(who, run, reports);
            let (points, colour) = (series.points.clone(), Some(lines.len()));
            // An order is no course of things: each point stands for itself.
            let joined = series.x != ORDER;
            lines.push(Line { label, points, colour, dashed: i % 2 == 1, marked: false, joined });
        }
    }
    plots.into_iter().map(|(_, plot)| plot).collect()
}

fn table(out: &mut String, module: &str, reports: &[(&str, &Stored)]) {
    put(out, format_args!("<table><tr><th>run</th><th>figure</th><th>value</th></tr>"));
    for (_, who, _, run) in runs_of(module, reports) {
        // A run is named once.
        let mut label = escape(&legend(who, run, reports));
        let mut row = |name: &str, value: String| {
            let (label, name) = (std::mem::take(&mut label), escape(name));
            put(out, format_args!("<tr><td>{label}</td><td>{name}</td><td>{value}</td></tr>"));
        };
        for (name, value) in &run.figures {
            row(name, short(*value));
        }
        for (name, summary) in &run.latencies {
            for p in &summary.percentiles {
                let high = p.high_ns.map_or_else(String::new, micros);
                let value = format!("{} us [{}..{high}]", micros(p.ns), micros(p.low_ns));
                row(&format!("{name} p{}", p.percent), value);
            }
            row(
                &format!("{name} max"),
                format!("{} us of {}", micros(summary.max_ns), summary.count),
            );
        }
    }
    put(out, format_args!("</table>"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::tests::stored;

    #[test]
    fn every_plot_has_axes_units_and_a_legend() {
        let one = stored("Switch <1>", 20);
        let page = page(&[("a", &one)]);
        for what in [
            "Switch &lt;1&gt;",
            "frame size (bytes, with the check sequence)",
            "latency (us)",
            "share of samples",
            "floor (calibration)",
            "rules in the batch",
            "time since the first flow-mod (us)",
            "control_us",
            "data_us",
            "3 of &lt;10&gt; &amp; more",
            "Threshold: forwarding.lost is 3 &gt; 0",
            "figures 6a and 6b",
        ] {
            assert!(page.contains(what), "{what}");
        }
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(!page.contains("<script") && !page.contains("src="));
        // Links lead to sections of the page, of which there is one for each module.
        let links = page.matches("href=").count();
        assert_eq!((links, page.matches("href=\"#").count()), (2, 2));
        assert!(page.contains("<h2 id=\"insertion\">"));
        assert!(
            page.contains("Taken 2026-11-29T02:30:25Z by <code>millrace gauge --at-most &lt;1&gt;")
        );
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn only_latencies_stand_on_a_floor() {
        let figures = crate::module::MODULES.iter().flat_map(|m| m.over).flat_map(|o| o.ys);
        for figure in figures {
            let of = |latency: &str| figure.ends_with("_us") && figure.starts_with(latency);
            let latency = ["latency", WIRE].into_iter().find(|latency| of(latency));
            assert_eq!(on_floor(figure), latency, "{figure}");
        }
    }

    #[test]
    fn two_reports_lie_over_each_other() {
        let (a, b) = (stored("one", 20), stored("two", 90));
        let page = page(&[("A", &a), ("B", &b)]);
        assert!(page.contains("Switches side by side"));
        assert!(page.contains("A: 64 bytes, 5000 a second") && page.contains("B: 64 bytes"));
        assert!(page.contains("A: floor") && page.contains("B: latency_p50_us"));
        assert_eq!(page.matches("<svg").count(), 5);
    }
}
