//! Plots as SVG: axes with units, ticks at round numbers, a legend.
//!
//! In: lines of points. Out: one `<svg>` element that needs nothing else. An axis is linear or
//! logarithmic; on a logarithmic one, what is not above zero is left out.
//!
//! Checked by: the tests below.

use std::fmt::Write;

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What lies to the right, with its unit.
    pub x: Axis,
    /// What lies upwards, with its unit.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it is, with its unit.
    pub label: String,
    /// Logarithmic.
    pub log: bool,
}

/// A line through points.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Which colour; none: grey.
    pub colour: Option<usize>,
    /// With gaps.
    pub dashed: bool,
    /// Each point has a mark.
    pub marked: bool,
    /// The points are joined; else they have small marks only.
    pub joined: bool,
}

const COLOURS: [&str; 8] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#332288", "#999933"];
const GREY: &str = "#888888";
/// How whole and dashed lines are drawn when the colours are used for the first, second and third time.
const GAPS: [[&str; 3]; 2] = [["", "12 3", "2 2"], ["5 4", "9 3 2 3", "1 4"]];

const WIDTH: f64 = 720.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const HIGH: f64 = 280.0;
/// Height of a line of the legend.
const ROW: f64 = 18.0;

/// Text for XML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Of the others, XML 1.0 allows no control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// From values to places.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Between ticks, where it is not logarithmic.
    step: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite() && (!log || *v > 0.0)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        let mut distance = 0.0;
        if log {
            let down = 10f64.powf(low.log10().floor());
            (low, high) = (down, 10f64.powf(high.log10().ceil()).max(down * 10.0));
        } else {
            low = low.min(0.0);
            distance = step(high - low);
            low = (low / distance).floor() * distance;
            high = ((high / distance).ceil() * distance).max(low + distance);
        }
        Scale { low, high, log, step: distance, from, to }
    }

    fn at(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || self.log && value <= 0.0 {
            return None;
        }
        let part = match self.log {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        Some(self.from + part * (self.to - self.from))
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            let n = ((self.high - self.low) / self.step).round() as usize;
            return (0..=n).map(|i| self.low + i as f64 * self.step).collect();
        }
        let decades = (self.high / self.low).log10().round() as i32;
        let parts: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = (0..=decades).flat_map(|d| parts.iter().map(move |p| p * 10f64.powi(d)));
        all.map(|t| t * self.low).filter(|t| *t <= self.high * 1.0001).collect()
    }
}

/// A round distance between ticks, five to ten of which make up the span.
fn step(span: f64) -> f64 {
    let rough = (span / 6.0).max(1e-12);
    let decade = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * decade >= rough);
    factor.unwrap_or(10.0) * decade
}

/// A tick's number, short.
fn number(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

impl Plot {
    /// The SVG element.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Scale::new(points().map(|p| p.0), self.x.log, LEFT, WIDTH - RIGHT);
        let y = Scale::new(points().map(|p| p.1), self.y.log, TOP + HIGH, TOP);
        let bottom = TOP + HIGH;
        let height = bottom + 52.0 + ROW * self.lines.len() as f64;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{}\">\n",
            escape(&self.title)
        );
        let mut put = |text: std::fmt::Arguments<'_>| {
            let _ = writeln!(out, "{text}");
        };
        put(format_args!(
            "<text x=\"{LEFT}\" y=\"20\" class=\"title\">{}</text>",
            escape(&self.title)
        ));
        for tick in x.ticks() {
            let Some(at) = x.at(tick) else { continue };
            put(format_args!(
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" class=\"grid\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                number(tick)
            ));
        }
        for tick in y.ticks() {
            let Some(at) = y.at(tick) else { continue };
            put(format_args!(
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" class=\"grid\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            ));
        }
        put(format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            bottom + 34.0,
            escape(&self.x.label),
            TOP + HIGH / 2.0,
            escape(&self.y.label)
        ));
        for (i, line) in self.lines.iter().enumerate() {
            let colour = line.colour.map_or(GREY, |c| COLOURS[c % COLOURS.len()]);
            let again = line.colour.map_or(0, |c| c / COLOURS.len() % GAPS[0].len());
            let dash = match GAPS[usize::from(line.dashed)][again] {
                "" => String::new(),
                gaps => format!(" stroke-dasharray=\"{gaps}\""),
            };
            let places: Vec<(f64, f64)> =
                line.points.iter().filter_map(|p| Some((x.at(p.0)?, y.at(p.1)?))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let (joined, radius) = (line.joined, if line.joined { 3.0 } else { 1.4 });
            if joined {
                put(format_args!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>",
                    path.join(" ")
                ));
            }
            if line.marked || !joined {
                for (x, y) in places {
                    put(format_args!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>"
                    ));
                }
            }
            let row = bottom + 52.0 + ROW * i as f64;
            put(format_args!(
                "<line x1=\"{LEFT}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\" stroke=\"{colour}\" \
                 stroke-width=\"2\"{dash}/><text x=\"{2}\" y=\"{3}\">{4}</text>",
                row,
                LEFT + 26.0,
                LEFT + 34.0,
                row + 4.0,
                escape(&line.label)
            ));
        }
        out.push_str("</svg>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, log: bool) -> Plot {
        let axis = |label: &str| Axis { label: label.into(), log };
        let line = Line {
            label: "a & b".into(),
            points,
            colour: Some(9),
            dashed: true,
            marked: true,
            joined: true,
        };
        Plot { title: "<t>".into(), x: axis("time (us)"), y: axis("share"), lines: vec![line] }
    }

    #[test]
    fn numbers_that_cannot_be_drawn_are_left_out() {
        for log in [false, true] {
            for points in [
                vec![],
                vec![(0.0, 0.0)],
                vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (-5.0, 3.0)],
                vec![(1e-9, 1e12), (1e9, 3.0), (2.0, 2.0)],
            ] {
                let svg = plot(points, log).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("time (us)") && svg.contains("a &amp; b"));
                assert!(svg.contains("&lt;t&gt;") && svg.ends_with("</svg>\n"));
            }
        }
    }

    #[test]
    fn lines_of_one_colour_are_told_apart() {
        let mut plot = plot(vec![(1.0, 1.0), (2.0, 2.0)], false);
        let line = Line { dashed: false, ..plot.lines[0].clone() };
        plot.lines = (0..24).map(|c| Line { colour: Some(c), ..line.clone() }).collect();
        let svg = plot.svg();
        let styles: std::collections::BTreeSet<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<polyline"))
            .filter_map(|line| line.split_once("stroke=").map(|(_, style)| style))
            .collect();
        assert_eq!(styles.len(), 24);
    }

    #[test]
    fn ticks_are_round_and_enclose_the_points() {
        let scale = Scale::new([3.0, 47.0].into_iter(), false, 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(scale.at(25.0), Some(50.0));
        let scale = Scale::new([-18.3, 21.7].into_iter(), false, 0.0, 100.0);
        assert_eq!(scale.ticks(), [-20.0, -10.0, 0.0, 10.0, 20.0, 30.0]);
        let scale = Scale::new([3.0, 4700.0].into_iter(), true, 0.0, 100.0);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((scale.at(100.0).unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(
            (number(15_000.0), number(0.25), number(2e6)),
            ("15k".into(), "0.25".into(), "2M".into())
        );
    }
}
