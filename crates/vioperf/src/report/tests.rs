//! What has to hold of every format.

use vioperf_analysis::analyse;
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::testing::Synthetic;
use vioperf_model::record::{LeftOut, Outcome, RunEnd, RunEnding};

use super::text::width;
use super::{csv, html, json, markdown, terminal};

fn formats(analysis: &RunAnalysis) -> [(&'static str, String); 6] {
    [
        ("terminal", terminal::render(analysis, false, false)),
        ("wide terminal", terminal::render(analysis, true, false)),
        ("html", html::render(analysis)),
        ("markdown", markdown::render(analysis)),
        ("csv", csv::render(analysis)),
        ("json", json::render(analysis)),
    ]
}

fn analysed(synthetic: &Synthetic) -> RunAnalysis {
    analyse(&synthetic.run, &synthetic.trials)
}

/// A run whose every string wants to do harm.
fn hostile() -> Synthetic {
    const HARM: &str = "\u{1b}[2J\u{9b}31m\u{202e}<script>alert(1)</script><img src=x \
                        onerror=alert(2)>\"'=cmd|' /C calc'!A0 `rm` |x|\n@everyone [a](http://b)";
    let mut synthetic = Synthetic::tcg();
    let harm = || HARM.to_owned();
    synthetic.run.scenario.question = format!("=1+1 {HARM} {}", "long".repeat(60));
    synthetic.run.scenario.name = harm();
    synthetic.run.left_out = vec![LeftOut { what: harm(), reason: harm() }];
    synthetic.run.command_line.push(harm());
    synthetic.run.host.cpu_model = harm();
    synthetic.run.host.settings.insert(harm(), harm());
    let how = RunEnding::Failed { message: harm() };
    synthetic.run.ended = Some(RunEnd { at: harm(), how });
    if let Some(hypervisor) = &mut synthetic.run.hypervisor {
        hypervisor.accel_reason = harm();
        hypervisor.qemu_version = harm();
    }
    for trial in &mut synthetic.trials {
        for facts in trial.parties.iter_mut().filter_map(|party| party.interface.as_mut()) {
            facts.driver = Some(format!("=HYPERLINK(1) {HARM}"));
            facts.driver_version = Some(harm());
            facts.offloads.insert(harm(), true);
            facts.absent.insert("speed".into(), harm());
        }
        for party in &mut trial.parties {
            party.identity.kernel_release = harm();
            party.report.absent.insert("cores".into(), harm());
            party.report.samples.iter_mut().for_each(|sample| sample.cores = None);
        }
    }
    synthetic.trials[0].cell.0 = harm();
    synthetic.trials[1].outcome =
        Outcome::Void { reason: harm(), console_tail: vec![harm(), harm()] };
    synthetic
}

#[test]
fn emulation_is_said_in_the_first_line() {
    for (format, text) in formats(&analysed(&Synthetic::tcg())) {
        let visible = match format {
            "html" => text.split("<body>").nth(1).unwrap(),
            // Its first line is the opening brace.
            "json" => text.trim_start_matches("{\n"),
            _ => &text,
        };
        let first = visible.lines().next().unwrap();
        assert!(first.contains("Software emulation"), "{format}: {first}");
    }
    for (format, text) in formats(&analysed(&Synthetic::calm_kvm())) {
        assert!(!text.contains("oftware emulation"), "{format}");
    }
}

#[test]
fn the_answer_and_every_path_are_there() {
    for (format, text) in formats(&analysed(&Synthetic::calm_kvm())) {
        for path in ["virtio", "e1000e", "rtl8139", "baseline"] {
            assert!(text.contains(path), "{format} lacks {path}");
        }
        if format != "csv" {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains("virtio keeps 69."), "{format}");
            assert!(flat.contains("Use virtio"), "{format}");
        }
    }
}

#[test]
fn eighty_columns_hold_whatever_the_strings() {
    for synthetic in [Synthetic::tcg(), Synthetic::calm_kvm(), hostile()] {
        let text = terminal::render(&analysed(&synthetic), false, false);
        let longest = text.lines().max_by_key(|line| width(line)).unwrap();
        assert!(width(longest) <= 80, "{} columns: {longest}", width(longest));
    }
}

#[test]
fn hostile_strings_do_nothing_to_a_terminal() {
    let analysis = analysed(&hostile());
    for (format, text) in formats(&analysis) {
        // JSON escapes control characters itself; marks of direction do no harm inside its strings.
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert_eq!(text.chars().find(|c| format != "json" && acts(*c)), None, "{format}");
    }
    for coloured in terminal::render(&analysis, true, true).split('\u{1b}').skip(1) {
        let known = ["[1m", "[2m", "[0m", "[1;35m", "[1;33m"];
        assert!(known.iter().any(|code| coloured.starts_with(code)), "{coloured}");
    }
}

#[test]
fn hostile_strings_do_nothing_to_a_browser() {
    let page = html::render(&analysed(&hostile()));
    for harm in ["<script", "<img", "\"'=cmd"] {
        assert!(!page.contains(harm), "{harm}");
    }
    assert!(page.contains("&lt;script&gt;"));
    let markdown = markdown::render(&analysed(&hostile()));
    let prose = markdown.lines().filter(|line| !line.starts_with("    "));
    for line in prose.filter(|line| *line != "</details>") {
        let line = line.replace("<details><summary>The run</summary>", "");
        let unescaped =
            |c: char, at: usize| line[at..].starts_with(c) && !line[..at].ends_with('\\');
        assert!(!line.contains('@') && !line.contains('<'), "{line}");
        assert!(
            (0..line.len()).all(|at| !line.is_char_boundary(at) || !unescaped('`', at)),
            "{line}"
        );
    }
}

#[test]
fn a_page_needs_no_network() {
    let page = html::render(&analysed(&Synthetic::tcg()));
    for harm in ["http://", "https://", "<script", "@import", "url(", "<link"] {
        assert!(!page.contains(harm), "{harm}");
    }
    for needed in ["<caption>", "scope=\"row\"", "lang=\"en\"", "prefers-color-scheme", "<svg"] {
        assert!(page.contains(needed), "{needed}");
    }
    let opened = page.matches("<details>").count();
    assert_eq!(opened, page.matches("</details>").count());
}

/// Reads RFC 4180.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut in_quotes, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if in_quotes && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => row.push(std::mem::take(&mut field)),
            '\n' if !in_quotes => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(row.is_empty() && field.is_empty() && !in_quotes);
    rows
}

#[test]
fn csv_has_a_row_a_cell_and_no_formulas() {
    for synthetic in [Synthetic::calm_kvm(), hostile()] {
        let analysis = analysed(&synthetic);
        let text = csv::render(&analysis);
        let table = text.split_once("cell,path").unwrap().1;
        let rows = parse_csv(&format!("cell,path{table}"));
        assert_eq!(rows.len(), 1 + analysis.cells.len());
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
        for field in rows.iter().skip(1).flatten() {
            let is_number = field.parse::<f64>().is_ok();
            assert!(is_number || !field.starts_with(['=', '+', '-', '@']), "{field}");
        }
    }
}

#[test]
fn json_begins_with_the_notice_and_parses() {
    let analysis = analysed(&hostile());
    let text = json::render(&analysis);
    assert!(text.starts_with("{\n  \"notice\": \"Software emulation"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["cells"].as_array().unwrap().len(), analysis.cells.len());
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let forward = Synthetic::tcg();
    let mut backward = forward.clone();
    backward.trials.reverse();
    assert_eq!(formats(&analysed(&forward)), formats(&analysed(&backward)));
}

#[test]
fn a_run_without_trials_is_still_a_report() {
    let mut synthetic = Synthetic::tcg();
    synthetic.trials.clear();
    for (format, text) in formats(&analysed(&synthetic)) {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{format}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(format == "csv" || flat.contains("nothing to compare"), "{format}");
    }
}

#[test]
fn missing_numbers_are_a_dash_with_a_reason_and_never_zero() {
    let mut synthetic = Synthetic::calm_kvm();
    for party in synthetic.trials.iter_mut().flat_map(|trial| &mut trial.parties) {
        party.report.absent.insert("cores".into(), "/proc/stat is not readable".into());
        party.report.samples.iter_mut().for_each(|sample| sample.cores = None);
    }
    let analysis = analysed(&synthetic);
    for (format, text) in formats(&analysis) {
        if !["csv", "markdown"].contains(&format) {
            assert!(text.contains("/proc/stat is not"), "{format}");
        }
    }
    let text = terminal::render(&analysis, false, false);
    let row = |line: &&str| line.trim_start().starts_with("virtio") && line.contains("bit/s");
    let line = text.lines().find(row).unwrap();
    assert_eq!(line.split_whitespace().rev().take(3).collect::<Vec<_>>(), ["–"; 3], "{line}");
}
