//! A card's virtual functions are made, measured and gone again, also when nobody is left to see to it. The card is that
//! of an emulated machine.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test program")]

mod support;

use support::emulated_machine;

/// The card is `eth0` there. `functions NAME` tells how many virtual functions it has.
const SCRIPT: &str = r#"
functions() { echo "$1: $(cat /sys/class/net/eth0/device/sriov_numvfs) functions, $(ls /sys/class/net | tr '\n' ' ')" >&3; }
short="--set testbed.interface=eth0 --set undisturbed=false --set direction=to-guest --set warmup=200ms --blocks 1"
run() { vioperf run sriov $short --set duration=500ms "$@"; }
functions before
run --out=/tmp/run --quiet
vioperf report /tmp/run --format=csv >&3
functions after
# Killed with virtual functions in use: the process inside alone, and then both.
killed() {
    vioperf run sriov $short --set switch=sriov --set duration=30s --out=/tmp/$1 &
    outer=$!
    until [ "$(cat /sys/class/net/eth0/device/sriov_numvfs)" = 4 ]; do sleep 0.1; done
    sleep 2
    # The process outside has one child.
    inner=$(cat /proc/$outer/task/$outer/children | cut -d' ' -f1)
    if [ $1 = inside ]; then kill -9 $inner; else kill -9 $outer; fi
    wait $outer
}
killed inside
functions 'killed inside'
killed both
functions 'killed both'
run --set switch=bridge --out=/tmp/next 2>/tmp/said
grep -o 'eth0 was left with virtual functions' /tmp/said >&3
functions next
echo 2 >/sys/class/net/eth0/device/sriov_numvfs
run --set switch=sriov --out=/tmp/refused 2>&1 | grep -o 'has 2 virtual functions already' >&3
functions refused
"#;

#[test]
fn virtual_functions_are_measured_and_gone_afterwards() {
    let said = emulated_machine::run(SCRIPT);
    let (answer, console) = (&said.answer, &said.console);
    let line = |begin: &str| {
        let found = answer.lines().find(|line| line.starts_with(begin));
        found
            .unwrap_or_else(|| panic!("no `{begin}` in:\n{answer}\nand on the console:\n{console}"))
    };
    for (state, left) in [
        ("before", "0 functions, eth0 lo"),
        ("after", "0 functions, eth0 lo"),
        ("killed inside", "0 functions, eth0 lo"),
        ("killed both", "4 functions"),
        ("next", "0 functions, eth0 lo"),
        ("refused", "2 functions"),
    ] {
        let said = line(&format!("{state}: "));
        assert!(said.contains(left), "{said}\n{console}");
    }
    line("eth0 was left with virtual functions");
    line("has 2 virtual functions already");
    let header: Vec<&str> = line("cell").split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    for switch in ["bridge", "sriov-host", "sriov"] {
        let cell: Vec<&str> =
            line(&format!("baseline/{switch}/1-stream/to-guest,")).split(',').collect();
        let rate: f64 = cell[at("receiver_bits_per_second_mean")].parse().unwrap();
        assert!(rate > 1e6, "{switch}: {rate}\n{console}");
    }
}
