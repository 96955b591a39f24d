//! Figures beside their targets: as a table for a terminal, for a README, and as JSON.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use wharfinger_bench::stats::round;

use crate::lab::{BRIDGE, WHARF};
use crate::machine::Machine;

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

/// One figure of everybody.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    /// By name, in the order in which they were measured.
    figures: Vec<(String, f64)>,
    target: Option<Target>,
    /// The daemon's figure in that of `bridge`.
    ratio: Option<f64>,
    met: Option<bool>,
    note: Option<String>,
    /// Belongs into a README.
    #[serde(skip)]
    headline: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Target {
    /// At most so many times the figure of `bridge` in the same run.
    TimesAtMost(f64),
    /// At least so many times it.
    TimesAtLeast(f64),
    Most(f64),
    Least(f64),
}

impl Row {
    pub(crate) fn new(title: impl Into<String>, unit: &'static str) -> Self {
        Self {
            title: title.into(),
            unit,
            figures: Vec::new(),
            target: None,
            ratio: None,
            met: None,
            note: None,
            headline: false,
        }
    }

    /// Somebody's figure; none if it is not known.
    pub(crate) fn figure(mut self, name: &str, figure: Option<f64>) -> Self {
        if let Some(figure) = figure.filter(|figure| figure.is_finite()) {
            self.figures.push((name.to_owned(), round(figure)));
        }
        self
    }

    pub(crate) fn figures<'a>(
        self,
        figures: impl IntoIterator<Item = (&'a str, Option<f64>)>,
    ) -> Self {
        let figures = figures.into_iter();
        figures.fold(self, |row, (name, figure)| row.figure(name, figure))
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        self.note = (!note.is_empty()).then_some(note);
        self
    }

    pub(crate) fn headline(mut self) -> Self {
        self.headline = true;
        self
    }

    /// Compares with the bridge, where there is something to compare.
    pub(crate) fn compared(mut self) -> Self {
        let bridge = self.of(BRIDGE).filter(|bridge| *bridge > 0.0);
        self.ratio = self
            .of(WHARF)
            .zip(bridge)
            .map(|(own, bridge)| round(own / bridge));
        self
    }

    pub(crate) fn target(self, target: Target) -> Self {
        let mut row = match target {
            Target::TimesAtMost(_) | Target::TimesAtLeast(_) => self.compared(),
            Target::Most(_) | Target::Least(_) => self,
        };
        row.met = match target {
            Target::TimesAtMost(most) => row.ratio.map(|ratio| ratio <= most),
            Target::TimesAtLeast(least) => row.ratio.map(|ratio| ratio >= least),
            Target::Most(most) => row.of(WHARF).map(|own| own <= most),
            Target::Least(least) => row.of(WHARF).map(|own| own >= least),
        };
        row.target = Some(target);
        row
    }

    fn of(&self, name: &str) -> Option<f64> {
        let found = self.figures.iter().find(|(known, _)| known == name);
        found.map(|(_, figure)| *figure)
    }

    /// As a README has it.
    fn cells(&self) -> [String; 6] {
        let of = |name| self.of(name).map(shown).unwrap_or_default();
        let unit = match self.unit {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2}"));
        let target = self
            .target
            .map(|target| format!("{target}, {}", self.verdict()));
        [
            format!("{}{unit}", self.title),
            of("direct"),
            of(BRIDGE),
            of(WHARF),
            ratio.unwrap_or_default(),
            target.unwrap_or_default(),
        ]
    }

    fn verdict(&self) -> &'static str {
        match (self.target, self.met) {
            (None, _) => "",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "missed",
            (Some(_), None) => "not measured",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimesAtMost(times) => write!(f, "≤ {times} ×"),
            Self::TimesAtLeast(times) => write!(f, "≥ {times} ×"),
            Self::Most(figure) => write!(f, "≤ {figure}"),
            Self::Least(figure) => write!(f, "≥ {figure}"),
        }
    }
}

/// A figure as people read it.
fn shown(figure: f64) -> String {
    match figure.abs() {
        size if size >= 10_000.0 => format!("{:.1} k", figure / 1000.0),
        size if size >= 100.0 || figure.fract() == 0.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

impl Report {
    /// Everybody who has a figure, in the order in which they first have one.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec!["direct", "http", BRIDGE, WHARF];
        for (name, _) in self.rows.iter().flat_map(|row| &row.figures) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let seen = |name: &&str| self.rows.iter().any(|row| row.of(name).is_some());
        names.retain(|name| seen(name));
        names
    }

    /// Puts the table between the markers of a Markdown file.
    pub(crate) fn update(&self, file: &Path, machine: &Machine) -> Result<()> {
        let what = || format!("can't update {}", file.display());
        let text = std::fs::read_to_string(file).with_context(what)?;
        let table = format!("{}\nMeasured on {machine}.\n", self.markdown());
        let text = between(&text, &table).with_context(what)?;
        std::fs::write(file, text).with_context(what)
    }

    fn markdown(&self) -> String {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.headline).collect();
        let cells: Vec<[String; 6]> = rows.iter().map(|row| row.cells()).collect();
        let heads = ["", "direct", "bridge", "Wharfinger", "to bridge", "target"];
        let used =
            |column: &usize| *column == 0 || cells.iter().any(|cells| !cells[*column].is_empty());
        let columns: Vec<usize> = (0..heads.len()).filter(used).collect();
        let line = |cells: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = columns.iter().map(|column| cells(*column)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&|column| heads[column].to_owned());
        text += &line(&|column| if column == 0 { "---" } else { "---:" }.to_owned());
        for cells in &cells {
            text += &line(&|column| cells[column].clone());
        }
        text
    }
}

const BEGIN: &str = "<!-- bench -->";
const END: &str = "<!-- end of bench -->";

/// The text with the table between its markers.
fn between(text: &str, table: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("it has no bench marker")?;
    let (_, after) = rest.split_once(END).context("the marker has no end")?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names();
        let wide = |text: &str| text.chars().count();
        let title = self
            .rows
            .iter()
            .map(|row| wide(&row.title))
            .max()
            .unwrap_or(0);
        let pad = |text: &str, to: usize| " ".repeat(to.saturating_sub(wide(text)));
        let column = |name: &str| wide(name).max(8) + 2;
        write!(f, "{}", " ".repeat(title + 9))?;
        for name in &names {
            write!(f, "{}{name}", pad(name, column(name)))?;
        }
        writeln!(f, "{:>9}  target", "ratio")?;
        for row in &self.rows {
            write!(
                f,
                "{}{}  {:<7}",
                row.title,
                pad(&row.title, title),
                row.unit
            )?;
            for name in &names {
                let figure = row.of(name).map(shown).unwrap_or_default();
                write!(f, "{}{figure}", pad(&figure, column(name)))?;
            }
            let ratio = row.ratio.map(|ratio| format!("{ratio:.2}"));
            write!(f, "{:>9}", ratio.unwrap_or_default())?;
            if let Some(target) = &row.target {
                write!(f, "  {target} {}", row.verdict())?;
            }
            if let Some(note) = &row.note {
                write!(f, "  ({note})")?;
            }
            writeln!(f)?;
        }
        let judged = self.rows.iter().filter(|row| row.target.is_some());
        let met = judged.clone().filter(|row| row.met == Some(true)).count();
        match judged.count() {
            0 => Ok(()),
            judged => write!(f, "{met} of {judged} targets met"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(own: f64, target: Target) -> Row {
        Row::new("x", "ms")
            .figure(BRIDGE, Some(10.0))
            .figure(WHARF, Some(own))
            .target(target)
    }

    #[test]
    fn targets_are_met_or_missed() {
        let check = |own, target, expect: &str| assert_eq!(row(own, target).verdict(), expect);
        check(15.0, Target::TimesAtMost(1.5), "met");
        check(15.1, Target::TimesAtMost(1.5), "missed");
        check(6.0, Target::TimesAtLeast(0.6), "met");
        check(5.9, Target::TimesAtLeast(0.6), "missed");
        check(20.0, Target::Most(20.0), "met");
        check(200.0, Target::Least(200.0), "met");
        check(199.0, Target::Least(200.0), "missed");
        check(f64::NAN, Target::Most(1.0), "not measured");
    }

    #[test]
    fn a_table_is_put_between_its_markers() {
        let text = "a\n<!-- bench -->\nold\n<!-- end of bench -->\nb\n";
        let expect = "a\n<!-- bench -->\nnew\n<!-- end of bench -->\nb\n";
        assert_eq!(between(text, "new\n").unwrap(), expect);
        assert_eq!(between(expect, "new\n").unwrap(), expect);
        assert!(between("a", "new").is_err());
    }

    #[test]
    fn figures_are_as_exact_as_they_are_useful() {
        let check = |figure, expect: &str| assert_eq!(shown(figure), expect);
        check(0.0, "0");
        check(1.234, "1.23");
        check(12.34, "12.3");
        check(123.4, "123");
        check(45_678.9, "45.7 k");
    }

    #[test]
    fn a_report_has_a_column_for_everybody() {
        let rows = vec![
            row(12.0, Target::TimesAtMost(1.5)).headline(),
            Row::new("y", "MB").figure("other", Some(1.0)).note("why"),
        ];
        let report = Report { rows };
        let text = report.to_string();
        assert!(text.contains("bridge     wharf     other"), "{text}");
        assert!(text.contains("1.20  ≤ 1.5 × met"), "{text}");
        assert!(text.ends_with("1 of 1 targets met"), "{text}");
        let expect = "|  | bridge | Wharfinger | to bridge | target |\n| --- | ---: | ---: | ---: | ---: |\n\
                      | x (ms) | 10 | 12 | 1.20 | ≤ 1.5 ×, met |\n";
        assert_eq!(report.markdown(), expect);
    }
}
