//! Published figures, and one's own: kept, checked, and set beside runs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use std::fs;

use serde_json::Value;
use support::past::Past;
use support::schema::violations;
use support::write;

#[test]
fn the_articles_are_built_in_and_their_defects_found() {
    let past = Past::new();
    let said = |arguments: &[&str]| past.vioperf(arguments).succeeded().stdout;
    let listed: Value = serde_json::from_str(&said(&["reference", "list", "--json"])).unwrap();
    let figures = listed.as_array().unwrap().iter().map(|one| one["figures"].as_u64().unwrap());
    assert_eq!(figures.collect::<Vec<_>>(), [17, 18, 21, 24, 147]);
    let schema: Value = serde_json::from_str(&said(&["schema", "reference"])).unwrap();
    assert_eq!(said(&["reference", "schema"]), said(&["schema", "reference"]));
    for one in listed.as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        let whole = said(&["reference", "show", name, "--json"]);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(violations(&schema, &whole), Vec::<String>::new(), "{name}");
        assert!(said(&["reference", "show", name]).contains("(inferred)"));
    }
    let found = said(&["reference", "check"]);
    for defect in [
        "fits operations of 4097 bytes (operations-times-size)",
        "a mean response time of -392870 µs",
        "over a link of 100 Mbit/s (faster-than-link)",
        "3 repetitions were promised, 2 are told (repeats-missing)",
        "12 cores, but 24 are told (more-than-its-cores)",
        "vmxnet3-chr-2017: nothing in it is impossible",
    ] {
        assert!(found.contains(defect), "{found}");
    }
}

#[test]
fn a_run_is_kept_as_a_reference_and_removed() {
    let past = Past::new();
    past.store("run", 3, "6.1.0", 4e9);
    past.vioperf(&["reference", "add", "run", "--as", "mine"]).succeeded();
    past.vioperf(&["reference", "add", "run", "--as", "mine"]).failed_with(2, &["--replace"]);
    past.vioperf(&["reference", "add", "run", "--as", "mine", "--replace"]).succeeded();
    for (name, why) in [("kvm-bridge-2011", "built in"), ("../mine", "letters, digits")] {
        past.vioperf(&["reference", "add", "run", "--as", name]).failed_with(2, &[why]);
    }
    let shown = past.vioperf(&["reference", "show", "mine", "--json"]).succeeded().stdout;
    let mine: Value = serde_json::from_str(&shown).unwrap();
    let schema = past.vioperf(&["schema", "reference"]).succeeded().stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(violations(&schema, &mine), Vec::<String>::new());
    assert_eq!(mine["year"], 2026);
    let figures = mine["figures"].as_array().unwrap();
    let guest = figures.iter().find(|figure| figure["is_baseline"].is_null()).unwrap();
    assert_eq!(guest["values"].as_array().unwrap().len(), 2);
    assert_eq!(guest["setting"]["nic"], "virtio");
    let divisor = guest["divided_by"][0].as_str().unwrap();
    assert!(figures.iter().any(|figure| figure["id"] == divisor));
    let shown = past.vioperf(&["reference", "show", "mine"]).succeeded().stdout;
    assert!(shown.contains("40.0"), "{shown}");
    past.vioperf(&["reference", "remove", "mine"]).succeeded();
    past.vioperf(&["reference", "show", "mine"]).failed_with(2, &["no reference is called `mine`"]);
    past.vioperf(&["reference", "remove", "kvm-bridge-2011"]).failed_with(2, &["built in"]);
}

#[test]
fn a_file_that_is_no_reference_is_told_with_its_place() {
    let past = Past::new();
    let file = past.folder.path().join("mine.json");
    write(&file, "{\n  \"schema_version\": 1,\n  \"nam\": \"x\"\n}\n");
    past.vioperf(&["reference", "check", "mine.json"])
        .failed_with(2, &["mine.json", "line 3", "vioperf schema reference"]);
    past.vioperf(&["reference", "show", "kvm-bridge"]).failed_with(2, &["kvm-bridge-2011"]);
}

#[test]
fn a_run_stands_beside_published_figures_and_its_report_stays_the_same() {
    let past = Past::new();
    past.store_blocks("run", 3, "6.1.0", 4e9, 3);
    let plain = past.vioperf(&["report", "run"]).succeeded().stdout;
    assert!(!plain.contains("Beside"), "{plain}");
    past.vioperf(&["reference", "add", "run", "--as", "mine"]).succeeded();
    let asked = ["report", "run", "--reference", "mine,kvm-bridge-2011"];
    let text = past.vioperf(&asked).succeeded().stdout;
    for said in ["Beside mine (2026)", "40.0", "Beside kvm-bridge-2011 (2011, inferred)", "75.0"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let json = past.json(&asked);
    let mine = &json["references"][0]["figures"];
    assert_eq!(mine.as_array().unwrap().len(), 1, "{mine}");
    assert_eq!(mine[0]["agreement"], "agrees");
    let article = json["references"][1]["figures"].as_array().unwrap();
    let virtio = article.iter().find(|one| one["figure"] == "kvm-bridge-2011-003").unwrap();
    assert_eq!(
        (&virtio["agreement"], &virtio["divided_by"]),
        (&"differs".into(), &"baseline".into())
    );
    assert_eq!(virtio["published"], "688, 684, 687 Mbits/sec");
    for (format, word) in [("markdown", "### Beside mine"), ("html", "Beside mine (2026)")] {
        let shown = past.vioperf(&[&asked[..], &["--format", format]].concat()).succeeded().stdout;
        assert!(shown.contains(word), "{format}");
    }
    past.vioperf(&["report", "run", "--reference", "kvm-bridg-2011"])
        .failed_with(2, &["did you mean `kvm-bridge-2011`?"]);

    // What a run was asked to be set beside is in its directory, and stays as it was.
    let info = past.folder.path().join("run/run.json");
    let mut run: Value = serde_json::from_str(&fs::read_to_string(&info).unwrap()).unwrap();
    run["scenario"]["reference"] = serde_json::json!(["mine"]);
    write(&info, &run.to_string());
    fs::create_dir(past.folder.path().join("run/references")).unwrap();
    let kept = past.folder.path().join("data/vioperf/references/mine.json");
    fs::copy(&kept, past.folder.path().join("run/references/mine.json")).unwrap();
    let before = past.vioperf(&["report", "run"]).succeeded().stdout;
    assert!(before.contains("Beside mine (2026)"), "{before}");
    past.vioperf(&["reference", "remove", "mine"]).succeeded();
    assert_eq!(past.vioperf(&["report", "run"]).succeeded().stdout, before);
}

#[test]
fn a_reference_that_is_not_there_is_told_before_anything_is_measured() {
    let past = Past::new();
    past.vioperf(&["run", "nic-models", "--reference", "nobody", "--out", "run"])
        .failed_with(2, &["no reference is called `nobody`"]);
    assert!(!past.folder.path().join("run").exists());
}
