//! What has to hold of every format.

use vioperf_analysis::analyse;
use vioperf_analysis::result::RunAnalysis;
use vioperf_analysis::testing::Synthetic;
use vioperf_model::record::{LeftOut, Outcome, Place, Purpose, RunEnd, RunEnding};
use vioperf_model::workload::WorkloadKind;

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
        Outcome::Void { reason: harm(), console_tail: vec![harm(), harm()], never_ready: false };
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
    let kinds = WorkloadKind::ALL.map(Synthetic::of_kind);
    for synthetic in [Synthetic::tcg(), hostile()].into_iter().chain(kinds) {
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
        let text = if format == "html" { without_own_scripts(&text) } else { text };
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert_eq!(text.chars().find(|c| format != "json" && acts(*c)), None, "{format}");
    }
    for coloured in terminal::render(&analysis, true, true).split('\u{1b}').skip(1) {
        let known = ["[1m", "[2m", "[0m", "[1;35m", "[1;33m"];
        assert!(known.iter().any(|code| coloured.starts_with(code)), "{coloured}");
    }
}

/// What is on the page of a run, without its scripts.
fn page_of(synthetic: &Synthetic) -> String {
    without_own_scripts(&html::render(&analysed(synthetic)))
}

/// The page less its own scripts and their data, which is JSON without a `<`. The page's own rule has a hash for
/// each of the others: what a guest wrote is none of them.
fn without_own_scripts(page: &str) -> String {
    let (before, rest) = page.split_once("</footer>").unwrap();
    let scripts = rest.split_once("</body>").unwrap().0;
    let data =
        scripts.trim_start().strip_prefix("<script id=\"page-data\" type=\"application/json\">");
    let data = data.map_or("", |rest| rest.split_once("</script>").unwrap().0);
    assert!(!data.contains('<'), "{data}");
    before.to_owned() + "</footer></body></html>"
}

#[test]
fn hostile_strings_do_nothing_to_a_browser() {
    let page = without_own_scripts(&html::render(&analysed(&hostile())));
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
    for synthetic in [Synthetic::tcg()].into_iter().chain(WorkloadKind::ALL.map(Synthetic::of_kind))
    {
        // A hatch is a part of the page.
        let page = without_own_scripts(&html::render(&analysed(&synthetic))).replace("url(#", "");
        for harm in ["http://", "https://", "<script", "@import", "url(", "<link"] {
            assert!(!page.contains(harm), "{harm}");
        }
        for needed in ["<caption>", "scope=\"row\"", "lang=\"en\"", "prefers-color-scheme", "<svg"]
        {
            assert!(page.contains(needed), "{needed}");
        }
        for element in ["details", "svg", "table", "section", "td", "th", "p"] {
            let opened = page.matches(&format!("<{element}>")).count()
                + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
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
    for synthetic in [hostile()].into_iter().chain(WorkloadKind::ALL.map(Synthetic::of_kind)) {
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

/// The text with every run of white space made one space.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_kind_is_told_by_what_it_is_measured_by() {
    let told: [(WorkloadKind, &[&str]); 4] = [
        (WorkloadKind::UdpStream, &["Gbit/s", "lost", "jitter", "12.5", "UDP throughput"]),
        (WorkloadKind::PacketRate, &["k/s", "lost", "20.0", "datagram rate", "ns each"]),
        (WorkloadKind::RequestResponse, &["k/s", "p99", "+21.0", "adds 21.0 µs", "µs each"]),
        (WorkloadKind::ConnectRate, &["k/s", "p99", "connection rate", "connections"]),
    ];
    for (kind, words) in told {
        let analysis = analysed(&Synthetic::of_kind(kind));
        for (format, text) in formats(&analysis) {
            for word in words.iter().filter(|_| !["csv", "json"].contains(&format)) {
                assert!(flat(&text).contains(word), "{kind:?} {format} lacks {word}");
            }
        }
        let cell = analysis.cells.last().unwrap();
        let mean = cell.headline().mean().unwrap().to_string();
        assert!(csv::render(&analysis).contains(&mean), "{kind:?}");
        assert!(json::render(&analysis).contains(cell.headline_metric.split('.').next().unwrap()));
    }
}

#[test]
fn csv_names_what_each_kind_has_and_leaves_the_rest_empty() {
    let field = |kind, cell: &str, column: &str| {
        let rows = parse_csv(&csv::render(&analysed(&Synthetic::of_kind(kind))));
        let at = rows[0].iter().position(|name| name == column);
        let at = at.unwrap_or_else(|| panic!("no column {column}"));
        rows.iter().find(|row| row[0] == cell).unwrap()[at].clone()
    };
    let tcp = |column| field(WorkloadKind::TcpStream, "virtio/1-stream/to-guest", column);
    assert_eq!(tcp("workload"), "tcp-stream");
    assert_eq!(tcp("headline_metric"), "receiver_bits_per_second");
    assert_eq!(tcp("headline_mean"), tcp("receiver_bits_per_second_mean"));
    for column in ["datagrams_lost_percent", "latency_p50_us", "host_ns_per_datagram"] {
        assert_eq!(tcp(column), "");
    }
    let packets =
        |column| field(WorkloadKind::PacketRate, "virtio/18-bytes/one/1-stream/to-guest", column);
    assert_eq!((packets("payload_bytes"), packets("receivers")), ("18".into(), "one".into()));
    let lost: f64 = packets("datagrams_lost_percent").parse().unwrap();
    assert!((lost - 20.0).abs() < 0.1, "{lost}");
    let requests =
        |column| field(WorkloadKind::RequestResponse, "virtio/udp/1-stream/to-guest", column);
    assert_eq!((requests("transport"), requests("timeouts")), ("udp".into(), "2".into()));
    assert_eq!(requests("latency_p99_99_us"), "", "too few transactions for it");
    let us: f64 = requests("guest_us_per_transaction").parse().unwrap();
    // 60 % of a core for 20 000 a second.
    assert!((us - 30.0).abs() < 1.0, "{us}");
}

#[test]
fn segmented_datagrams_are_never_called_packets() {
    let mut synthetic = Synthetic::of_kind(WorkloadKind::PacketRate);
    synthetic.run.scenario.workload.segmentation = true;
    synthetic.run.plan.cells.iter_mut().for_each(|cell| cell.workload.segmentation = true);
    let analysis = analysed(&synthetic);
    for (format, text) in formats(&analysis) {
        if !["csv", "json"].contains(&format) {
            assert!(flat(&text).contains("not packets on a wire"), "{format}");
            assert!(!text.contains("packets/s"), "{format}");
        }
    }
}

#[test]
fn a_curve_of_latency_is_one_line_a_path_and_says_it_in_words() {
    let page = page_of(&Synthetic::of_kind(WorkloadKind::RequestResponse));
    // Four paths over TCP, four over UDP.
    assert_eq!(page.matches("<polyline").count(), 8);
    // Its values are told under the pointer.
    assert!(
        page.contains("<title>virtio, p99: ") || page.contains("<title>virtio, p99."),
        "{page}"
    );
    for needed in ["Latency by percentile. baseline: p50 14.0 µs", ">p99.9<", "stroke-dasharray"] {
        assert!(page.contains(needed), "{needed}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf,"));
    // Nothing of it for loads that have no latency.
    let page = page_of(&Synthetic::of_kind(WorkloadKind::PacketRate));
    assert!(!page.contains("<polyline") && page.contains("class=\"sent\""));
    let page = page_of(&Synthetic::calm_kvm());
    assert!(!page.contains("<polyline") && !page.contains("class=\"sent\""));
}

#[test]
fn latencies_that_a_hostile_guest_made_up_are_drawn_inside_the_picture() {
    let mut synthetic = Synthetic::of_kind(WorkloadKind::RequestResponse);
    for (trial, n) in synthetic.trials.iter_mut().zip(0..) {
        for load in trial.parties.iter_mut().filter_map(|party| party.report.load.as_mut()) {
            if let Some(latency) = &mut load.latency {
                latency.buckets = match n % 3 {
                    0 => vec![[0, u64::MAX]],
                    1 => vec![[u64::MAX, 5], [1, u64::MAX]],
                    _ => vec![[u64::MAX, u64::MAX]],
                };
                (latency.maximum_ns, latency.sum_ns) = (u64::MAX, u64::MAX);
            }
        }
    }
    for (format, text) in formats(&analysed(&synthetic)) {
        let text = if format == "html" { without_own_scripts(&text) } else { text };
        assert!(!text.contains("NaN") && !text.contains("inf,"), "{format}");
    }
}

/// A far guest as busy as the guest, and the threads that run it.
fn with_far_guest(synthetic: &mut Synthetic) {
    for trial in &mut synthetic.trials {
        let guest = trial.parties.iter().find(|party| party.place == Place::Guest);
        let Some(mut far) = guest.cloned() else { continue };
        far.place = Place::FarGuest;
        let peer = trial.parties.iter().position(|party| party.place == Place::Peer).unwrap();
        far.role = trial.parties.remove(peer).role;
        let host = trial.parties.iter_mut().find(|party| party.place == Place::Host).unwrap();
        for sample in &mut host.report.samples {
            let mut threads = sample.threads.clone().unwrap_or_default();
            threads.iter_mut().for_each(|thread| thread.process = "qemu-far".into());
            sample.threads.get_or_insert_default().extend(threads);
        }
        trial.parties.push(far);
    }
}

#[test]
fn every_guest_is_in_the_tables_of_cores() {
    let mut synthetic = Synthetic::calm_kvm();
    let plain = analysed(&synthetic);
    with_far_guest(&mut synthetic);
    let analysis = analysed(&synthetic);
    for (format, text) in formats(&analysis) {
        let is_there = |text: &str| text.contains("far guest") || text.contains("far-guest");
        if !["csv", "openmetrics", "markdown"].contains(&format) {
            assert!(is_there(&text), "{format}");
        }
    }
    assert!(!terminal::render(&plain, true, false).contains("far guest"));
    let cell = analysis.cells.iter().find(|cell| !cell.is_baseline).unwrap();
    let (guest, far) =
        (cell.machine(Place::Guest).unwrap(), cell.machine(Place::FarGuest).unwrap());
    assert_eq!(guest.cores, far.cores);
    assert_eq!(guest.qemu, far.qemu);
    assert!(cell.machine(Place::Neighbour).is_none());
    let csv = csv::render(&analysis);
    let at = |name: &str, row: &str| {
        let head = csv.lines().find(|line| !line.starts_with('#')).unwrap();
        let at = head.split(',').position(|column| column == name).unwrap();
        row.split(',').nth(at).map(str::to_owned)
    };
    let row = csv.lines().find(|line| line.starts_with(&cell.id.0)).unwrap();
    for of in ["busy_percent_of_core", "busy_percent_by_core"] {
        let value = at(&format!("far_guest_{of}"), row);
        assert!(value.as_ref().is_some_and(|value| !value.is_empty()), "{of}");
        assert_eq!(value, at(&format!("guest_{of}"), row));
    }
    assert!(!at("far_guest_qemu_percent_of_core", row).unwrap().is_empty());
    assert_eq!(at("neighbour_busy_percent_of_core", row).unwrap(), "");
}

#[test]
fn what_a_neighbour_did_to_its_disk_is_told_and_counted_for_nobody_else() {
    let mut synthetic = Synthetic::of_kind(WorkloadKind::Disk);
    let plain = analysed(&synthetic);
    for trial in &mut synthetic.trials {
        let guest = trial.parties.iter().find(|party| party.place == Place::Guest);
        let Some(mut beside) = guest.cloned() else { continue };
        (beside.place, beside.purpose) = (Place::Neighbour, Purpose::Neighbour);
        trial.parties.push(beside);
    }
    let analysis = analysed(&synthetic);
    for (cell, before) in analysis.cells.iter().zip(&plain.cells) {
        assert_eq!(cell.headline(), before.headline(), "{}", cell.id);
        let Some(machine) = cell.machine(Place::Neighbour) else { continue };
        let (own, beside) = (cell.disk.as_ref().unwrap(), machine.disk.unwrap());
        assert_eq!(own.operations_per_second, beside.operations_per_second, "{}", cell.id);
        assert_eq!(own.mb_per_second, beside.mb_per_second, "{}", cell.id);
        assert_eq!(own.latency.mean_us.mean(), beside.mean_us.mean(), "{}", cell.id);
    }
    let text = terminal::render(&analysis, false, false);
    assert!(flat(&text).contains("its disk "), "{text}");
    assert!(page_of(&synthetic).contains("’s own disk did "));
    let csv = csv::render(&analysis);
    assert!(csv.contains("neighbour_disk_operations_per_second"), "{csv}");
}
