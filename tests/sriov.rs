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
# The article's part, as far as it is without a guest.
vioperf run article/kvm-pps/sriov --scale=0.05 --set 'nic=[]' --set testbed.interface=eth0 --set undisturbed=false \
    --blocks 1 --quiet --out=/tmp/article
vioperf report /tmp/article --format=csv | sed 's/^/article: /' >&3
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
    let value = |table: &str, cell: &str, column: &str| -> f64 {
        let row = |begin: &str| line(&format!("{table}{begin},")).split(',').collect::<Vec<_>>();
        let at = row("cell").iter().position(|name| *name == column).unwrap();
        row(cell)[at].parse().unwrap_or_else(|_| panic!("{cell} has no {column}\n{console}"))
    };
    for switch in ["bridge", "sriov-host", "sriov"] {
        let cell = format!("baseline/{switch}/1-stream/to-guest");
        let rate = value("", &cell, "receiver_bits_per_second_mean");
        assert!(rate > 1e6, "{switch}: {rate}\n{console}");
    }
    for payload in ["18-bytes", "1472-bytes"] {
        let cell = format!("baseline/{payload}/4-streams/to-guest");
        let received = value("article: ", &cell, "datagrams_received_per_second");
        assert!(received > 100.0, "{payload}: {received}\n{console}");
    }
}

/// The run is killed where a function of the card is vfio's; both processes of it, so that only the next run is left to
/// put the card back. What QEMU makes of the function in a guest is not waited for.
const HANDED_OVER: &str = r#"
card=/sys/class/net/eth0/device
state() { echo "$1: $(cat $card/sriov_numvfs) functions, driver $(/bin/busybox readlink $card/virtfn2/driver)" >&3; }
echo 'name = "s"
question = "q"
[workload]
kind = "tcp-stream"
[guest]
accel = "tcg"
reuse = "none"
[factors]
nic = "vf"
switch = "sriov"
[repeat]
blocks = 1
undisturbed = false' >/tmp/s.toml
options="--set testbed.interface=eth0 --set undisturbed=false --set duration=500ms --blocks 1"
n=0
# A card's link does not always come back in time in such a machine: then there is another try.
while [ $n -lt 4 ] && ! [ -e /tmp/taken ]; do
    n=$((n + 1))
    vioperf run /tmp/s.toml $options --seed=1 --out=/tmp/run$n &
    outer=$!
    while kill -0 $outer 2>/dev/null; do
        case "$(/bin/busybox readlink $card/virtfn2/driver)" in
        */vfio-pci) touch /tmp/taken; state taken; kill -9 $outer; break;;
        esac
        sleep 0.05
    done
    wait $outer
done
sleep 1
state killed
vioperf run sriov $options --set switch=bridge --out=/tmp/next --quiet
state next
"#;

#[test]
fn a_function_that_is_handed_to_a_guest_goes_back_when_the_run_is_killed() {
    let script = format!("{}{HANDED_OVER}", emulated_machine::WITH_QEMU);
    let said = emulated_machine::run(&script);
    let line = |begin: &str| {
        let found = said.answer.lines().find(|line| line.starts_with(begin));
        found.unwrap_or_else(|| panic!("no `{begin}` in:\n{}\n{}", said.answer, said.console))
    };
    assert!(line("taken: 4 functions").ends_with("/vfio-pci"), "{}", said.answer);
    assert!(line("killed: 4 functions").ends_with("/vfio-pci"), "{}", said.answer);
    assert_eq!(line("next: "), "next: 0 functions, driver ", "{}", said.console);
}
